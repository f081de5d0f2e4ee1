"""CURL: two shifts of one frame must agree more than shifts of different frames (Laskin, 2020).

After the authors' version for discrete actions: the policy sees frames as they are, and only this
loss sees them shifted. Differs: frames of the rollout instead of a replay buffer, and a similarity
that starts as the plain inner product (docs/methods.md).
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from crosstraj.data.minibatches import scattered
from crosstraj.data.rollout import Played
from crosstraj.errors import BadInput, check_range
from crosstraj.nn import ops
from crosstraj.nn.heads import linear
from crosstraj.nn.memory import pixels
from crosstraj.objectives.base import Encoder, Metrics, Objective, ObjectiveConfig
from crosstraj.objectives.method import JOINT, Method


@dataclass(frozen=True)
class CURLConfig(ObjectiveConfig):
    """CURL's own values; "Rainbow" is the authors' code for discrete actions."""

    shift: int = 4
    """Largest random shift of a frame, in pixels (Rainbow, DrQ; Procgen's "crop" is 12)."""
    target_decay: float = 0.99
    """EMA decay of the key encoder (SAC .95; Rainbow .999, which is slow for 8 steps a rollout)."""
    scale: float = 0.1
    """Multiplier of the similarity logits (Rainbow)."""
    similarity: Literal["identity", "uniform"] = "identity"
    """Initial bilinear matrix W: identity, or uniform in [0, 1) (source; learns slowly at
    first)."""
    width: int = 128
    """Width of the projection that is compared (Rainbow)."""
    weight: float = 1.0
    """Weight of the loss beside the policy's, for --order joint (Rainbow)."""

    def __post_init__(self) -> None:
        if self.shift < 0:
            raise BadInput(f"objective.shift={self.shift}: must be 0 (none) or more")
        check_range(self, "objective.", "target_decay", at_least=0, at_most=1)
        check_range(self, "objective.", "width", at_least=1)


class Batch(NamedTuple):
    frames: Tensor  # [B, H, W, C] uint8


class CURL(Objective):
    follows = True
    why_no_memory = "both shifts of a frame would share one memory, which tells frames apart alone"
    target: nn.Module  # the key encoder

    def __init__(
        self, config: CURLConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.head = nn.Sequential(
            linear(features, features, 2**0.5, rng),
            nn.LayerNorm(features),
            nn.ReLU(),
            linear(features, width, 1.0, rng),
            nn.LayerNorm(width),
        )
        start = (
            torch.eye(width)
            if config.similarity == "identity"
            else torch.rand(width, width, generator=rng)
        )
        self.similarity = nn.Parameter(start)  # W
        self.target_head = copy.deepcopy(self.head).requires_grad_(False)

    def attach(self, encoder: nn.Module) -> None:
        self.target = copy.deepcopy(encoder).requires_grad_(False)

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        frames, (steps, envs) = pixels(rollout.frames()), rollout.done.shape
        # Apart in time: frames of neighbouring steps are nearly equal, and would be negatives.
        for frame in scattered(steps, envs, count, rng):
            yield Batch(frames.index_select(0, frame.to(frames.device)))

    def loss(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        c = self.config
        query = self.head(encode(ops.random_shift(batch.frames, c.shift, rng)))
        with torch.no_grad():
            shifted = ops.random_shift(batch.frames, c.shift, rng)
            key = self.target_head(encode.on(self.target)(shifted))
        scores = c.scale * (query @ self.similarity @ key.T)
        contrast = ops.info_nce(scores)
        return c.weight * contrast, {"contrast": contrast, "top_one": ops.top_one(scores)}

    def after_step(self, encoder: nn.Module) -> None:
        ops.follow(self.target, encoder, self.config.target_decay)
        ops.follow(self.target_head, self.head, self.config.target_decay)


METHOD = Method("curl", CURLConfig, CURL, defaults=JOINT)  # as in its source
