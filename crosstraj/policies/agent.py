"""What every agent is: an encoder with linear heads; how to act, nothing about learning.

Where values come from differs: PPO's agent (`ppo.py`) reads them off the features that its policy
reads, DAAC's (`daac.py`) has a network for them.

Skills (DIAYN) condition the features by FiLM. Beside the features, under linear heads, a skill
would be a constant added to the logits, whatever the frame. The sources (DIAYN, URLB) pass both
through hidden layers, which no other method here has in its heads; by FiLM each skill has a linear
policy of its own, and the heads begin as those of every other method.
"""

import math
from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import Tensor, nn

from crosstraj.data.rollout import Decision
from crosstraj.errors import BadInput, NonFinite
from crosstraj.nn.encoders import (
    FEATURES,
    EncoderKind,
    FeatureNorm,
    Pooling,
    SplitAt,
    make_encoder,
    normalisation,
)
from crosstraj.nn.heads import FiLM, linear


class Reading(Protocol):
    """An encoder, or `Encode` around one."""

    def __call__(self, frames: Tensor) -> Tensor: ...

    def map(self, frames: Tensor) -> Tensor: ...


def conditioned(film: FiLM | None, features: Tensor, context: Tensor) -> Tensor:
    """Features [B, D] under skills [B, X], one-hot; as they are where there are none."""
    if film is None:
        return features
    result: Tensor = film(features, context.argmax(-1))
    return result


class Agent(nn.Module, ABC):
    """pi(a | o, z), linear in phi(o) for a given skill z; most have no skills. So is `value`.

    With `split_at=conv` the agent reads the encoder's map, which is not pooled, and has a last
    layer, `top`, of its own.
    """

    value_network: tuple[str, ...] = ()
    """Prefixes of the parameters of a network for values alone, if there is one."""

    def __init__(
        self,
        image: tuple[int, int, int],
        actions: int,
        *,
        encoder: EncoderKind,
        feature_norm: FeatureNorm,
        context: int,
        rng: torch.Generator,
        split_at: SplitAt = "fc",
        pooling: Pooling = "none",
        features: int = FEATURES,
    ) -> None:
        super().__init__()
        self.split_at = split_at
        self.encoder = make_encoder(image, encoder, feature_norm, rng, pooling, features)
        self.top, self.reads = nn.Sequential(), features
        if split_at == "conv":
            self.reads = self.encoder.map_size
            last = linear(self.reads, features, math.sqrt(2), rng)
            self.top = nn.Sequential(last, nn.ReLU(), normalisation(feature_norm, features))
        self.policy = linear(features, actions, 0.01, rng)
        self.value = linear(features, 1, 1.0, rng)
        self.film = FiLM(context, features, rng) if context else None

    def read(self, encode: Reading, frames: Tensor) -> Tensor:
        """What the agent reads of an encoder: its features, or its map where the cut is there."""
        return encode(frames) if self.split_at == "fc" else encode.map(frames).flatten(1)

    def seen(self, features: Tensor, context: Tensor) -> Tensor:
        """What was read, under the skill that is followed: what the heads are linear in."""
        return conditioned(self.film, self.top(features), context)

    def log_probs(self, features: Tensor, context: Tensor) -> Tensor:
        """What was read, and the context -> log-probabilities [B, actions]."""
        logits: Tensor = self.policy(self.seen(features, context))
        return logits.log_softmax(-1)

    @abstractmethod
    def decide(self, frames: Tensor, features: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities [B, actions] and values [B] of frames, and of what was read of them."""

    @torch.inference_mode()
    def act(
        self,
        frames: Tensor,
        context: Tensor | None = None,
        rng: torch.Generator | None = None,
        *,
        greedy: bool = False,
    ) -> Decision:
        """One decision per frame [B, H, W, C] uint8, sampled from the policy with `rng`.

        Without `rng`, or `greedy`: the most probable action. A method with skills (DIAYN) needs one
        for each frame: context [B, skills], one-hot.
        """
        if context is None:
            if self.film is not None:
                raise BadInput("this policy follows skills: give act(frames, context), one-hot")
            context = torch.zeros(len(frames), 0, device=frames.device)
        features = self.read(self.encoder, frames)
        log_probs, value = self.decide(frames, features, context)
        if not log_probs.isfinite().all():  # the weights are finite: every step has looked
            raise NonFinite("the policy's probabilities are not finite")
        if greedy or rng is None:
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
        features = self.read(self.encoder, frames)
        return self.decide(frames, features, context)[1], features
