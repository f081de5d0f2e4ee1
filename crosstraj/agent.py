"""The agent: an encoder with linear policy and value heads; how to act, nothing about learning."""

import torch
from torch import Tensor, nn

from crosstraj.networks import FEATURES, EncoderKind, FeatureNorm, Impala, Standardise, linear
from crosstraj.rollout import Decision

SMALLEST_SPREAD = 0.05  # of a feature, against the mean of all: what hardly varies is not blown up
RIDGE = 1e-3


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

    @torch.no_grad()
    def standardise(self, features: Tensor) -> Tensor:
        """Measure the features' mean and spread anew, and change the heads so that nothing else
        changes: policy and values stay what they are, to rounding. Other norms: no effect.

        features: of one rollout, as the heads see them now; returned as they see them afterwards.
        """
        norm = self.encoder.norm
        if not isinstance(norm, Standardise):
            return features
        mean, deviation = features.mean(0), features.std(0)
        deviation = deviation.clamp(min=SMALLEST_SPREAD * float(deviation.mean()))
        for head in (self.policy, self.value):
            weight = head.weight[:, :FEATURES]
            head.bias += weight @ mean
            weight *= deviation
        norm.absorb(mean, deviation)
        return (features - mean) / deviation

    @torch.no_grad()
    def refit(self, before: Tensor, after: Tensor, context: Tensor) -> None:
        """Fit the heads to what they said, now that the same frames have other features.

        Least squares on logits and values, held to the present weights by a small ridge.
        """
        ones = torch.ones_like(after[:, :1])
        old, new = (torch.cat([f, context, ones], dim=1).double() for f in (before, after))
        gram = new.T @ new / len(new)
        gram += RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
        for head in (self.policy, self.value):
            weight = torch.cat([head.weight, head.bias[:, None]], dim=1).double()
            change = torch.linalg.solve(gram, new.T @ ((old - new) @ weight.T) / len(new)).T
            head.weight += change[:, :-1].to(head.weight.dtype)
            head.bias += change[:, -1].to(head.bias.dtype)
