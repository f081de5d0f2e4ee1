"""The agent: an encoder with linear policy and value heads; how to act, nothing about learning."""

import torch
from torch import Tensor, nn

from crosstraj.networks import FEATURES, EncoderKind, FeatureNorm, Impala, linear
from crosstraj.rollout import Decision


class Agent(nn.Module):
    """pi(a | o) and V(o), both linear in [phi(o), context]; the context is empty but for skills."""

    def __init__(
        self,
        image: tuple[int, int, int],
        actions: int,
        *,
        encoder: EncoderKind,
        feature_norm: FeatureNorm,
        context: int,
        rng: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = Impala(image, encoder, feature_norm, rng)
        self.policy = linear(FEATURES + context, actions, 0.01, rng)
        self.value = linear(FEATURES + context, 1, 1.0, rng)

    def heads(self, features: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Features and context -> log-probabilities [B, actions] and values [B]."""
        seen = torch.cat([features, context], dim=-1)
        return self.policy(seen).log_softmax(-1), self.value(seen).squeeze(-1)

    @torch.inference_mode()
    def act(
        self, frames: Tensor, context: Tensor, rng: torch.Generator, *, greedy: bool = False
    ) -> Decision:
        """One decision per frame, sampled from the policy unless `greedy`."""
        features = self.encoder(frames)
        log_probs, value = self.heads(features, context)
        if greedy:
            action = log_probs.argmax(-1)
        else:
            # Categorical.sample would draw from the global generator.
            action = log_probs.exp().cpu().multinomial(1, generator=rng).squeeze(-1)
        action = action.to(log_probs.device)
        log_prob = log_probs.gather(-1, action[:, None]).squeeze(-1)
        return Decision(action, log_prob, value, features)

    @torch.inference_mode()
    def judge(self, frames: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Values and features of frames in which no action is taken; draws nothing."""
        features = self.encoder(frames)
        return self.heads(features, context)[1], features
