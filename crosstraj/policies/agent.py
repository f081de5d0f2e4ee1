"""What every agent is: an encoder with linear heads; how to act, nothing about learning.

With a memory the encoder is recurrent (nn/memory.py): heads are linear in the belief, which is what
is called features elsewhere, and a frame is read with what the agent remembers before it.

Where values come from differs: PPO's agent (`ppo.py`) reads them off the features that its policy
reads, DAAC's (`daac.py`) has a network for them.

Skills (DIAYN) condition the features by FiLM. Beside the features, under linear heads, a skill
would be a constant added to the logits, whatever the frame. The sources (DIAYN, URLB) pass both
through hidden layers, which no other method here has in its heads; by FiLM each skill has a linear
policy of its own, and the heads begin as those of every other method.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

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
from crosstraj.nn.memory import Frames, RecurrentEncoder, pixels


class Reading(Protocol):
    """An encoder, or `Encode` around one."""

    def __call__(self, frames: Frames) -> Tensor: ...

    def map(self, frames: Tensor) -> Tensor: ...


class Opinion(NamedTuple):
    """What an agent makes of frames."""

    log_probs: Tensor  # [B, actions]
    value: Tensor  # [B]
    memory: Tensor  # [B, K] what it remembers after them; K = 0 without a memory


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
        memory: int = 0,
        burn_in: int = 0,
    ) -> None:
        """memory: the width of the belief; 0: none."""
        super().__init__()
        self.split_at, self.memory = split_at, memory
        below = make_encoder(image, encoder, feature_norm, rng, pooling, features)
        self.encoder: Any = below  # with `map`, where that is read
        if memory:
            self.encoder = RecurrentEncoder(below, features, memory, burn_in, rng)
            features = memory
        self.top, self.reads = nn.Sequential(), features
        if split_at == "conv":
            self.reads = below.map_size
            last = linear(self.reads, features, math.sqrt(2), rng)
            self.top = nn.Sequential(last, nn.ReLU(), normalisation(feature_norm, features))
        self.policy = linear(features, actions, 0.01, rng)
        self.value = linear(features, 1, 1.0, rng)
        self.film = FiLM(context, features, rng) if context else None

    def read(self, encode: Reading, frames: Frames) -> Tensor:
        """What the agent reads of an encoder: its features, or its map where the cut is there."""
        return encode(frames) if self.split_at == "fc" else encode.map(pixels(frames)).flatten(1)

    def seen(self, features: Tensor, context: Tensor) -> Tensor:
        """What was read, under the skill that is followed: what the heads are linear in."""
        return conditioned(self.film, self.top(features), context)

    def log_probs(self, features: Tensor, context: Tensor) -> Tensor:
        """What was read, and the context -> log-probabilities [B, actions]."""
        logits: Tensor = self.policy(self.seen(features, context))
        return logits.log_softmax(-1)

    @abstractmethod
    def decide(self, frames: Frames, features: Tensor, context: Tensor) -> Opinion:
        """The opinion on frames, and on what was read of them."""

    @torch.inference_mode()
    def act(
        self,
        frames: Frames,
        context: Tensor | None = None,
        rng: torch.Generator | None = None,
        *,
        greedy: bool = False,
    ) -> Decision:
        """One decision per frame [B, H, W, C] uint8, sampled from the policy with `rng`.

        Without `rng`, or `greedy`: the most probable action. A method with skills (DIAYN) needs one
        for each frame: context [B, skills], one-hot. An agent with a memory needs what it has seen
        before: act(remembered.before(frames)), as `Remembered` keeps it.
        """
        if context is None:
            if self.film is not None:
                raise BadInput("this policy follows skills: give act(frames, context), one-hot")
            context = torch.zeros(len(frames), 0, device=frames.device)
        features = self.read(self.encoder, frames)
        log_probs, value, memory = self.decide(frames, features, context)
        if not log_probs.isfinite().all():  # the weights are finite: every step has looked
            raise NonFinite("the policy's probabilities are not finite")
        if greedy or rng is None:
            action = log_probs.argmax(-1)
        else:
            # Categorical.sample would draw from the global generator.
            action = log_probs.exp().cpu().multinomial(1, generator=rng).squeeze(-1)
        action = action.to(log_probs.device)
        log_prob = log_probs.gather(-1, action[:, None]).squeeze(-1)
        return Decision(action, log_prob, value, features, memory)

    @torch.inference_mode()
    def judge(self, frames: Frames, context: Tensor) -> tuple[Tensor, Tensor]:
        """Values and features of frames in which no action is taken; draws nothing."""
        features = self.read(self.encoder, frames)
        return self.decide(frames, features, context).value, features
