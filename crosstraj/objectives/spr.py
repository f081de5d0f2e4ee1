"""SPR: an action-conditioned model must predict the features of frames to come (Schwarzer, 2021).

From the map of one frame a model imagines the maps of the next K; each, through the encoder's last
layer, must point where a slowly moving copy of the encoder sees the true frame. Differs: PPO
instead of Rainbow, and group norm instead of batch norm in the model (docs/methods.md).
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crosstraj.data.rollout import Played
from crosstraj.data.within_episodes import windows
from crosstraj.errors import BadInput, check_range
from crosstraj.nn import ops
from crosstraj.nn.encoders import MAP_CHANNELS, convolution
from crosstraj.nn.heads import linear
from crosstraj.nn.memory import pixels
from crosstraj.objectives.base import Encoder, Metrics, Objective, ObjectiveConfig
from crosstraj.objectives.method import JOINT, Method


@dataclass(frozen=True)
class SPRConfig(ObjectiveConfig):
    """SPR's own values, from the authors' code; without augmentation, as on Procgen."""

    steps: int = 5
    """Steps that the model predicts ahead, K."""
    target_decay: float = 0.99
    """EMA decay of the target encoder (.99 without augmentation, 0 with it)."""
    shift: int = 0
    """Largest random shift of a frame, in pixels (source: 4 with augmentation)."""
    intensity: float = 0.0
    """Standard deviation of the random brightness factor (source: .05 with augmentation)."""
    rectified: bool = False
    """Predict the last layer's output after its ReLU, as the policy reads it, not before it. The
    source takes the first linear layer of its Q-head, before the ReLU."""
    hidden: int = 64
    """Channels of the transition model."""
    weight: float = 2.0
    """Weight of the loss beside the policy's, for --order joint (paper 2; code 5)."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "steps", at_least=1)
        check_range(self, "objective.", "target_decay", at_least=0, at_most=1)
        check_range(self, "objective.", "shift", "intensity", at_least=0)
        if self.hidden < 1 or self.hidden % 8:
            raise BadInput(f"objective.hidden={self.hidden}: must be a multiple of 8")

    def needs(self) -> tuple[int, str]:
        return self.steps + 1, f"objective.steps={self.steps}"


class Batch(NamedTuple):
    frames: Tensor  # [F, H, W, C] uint8
    action: Tensor  # [F] int64
    position: Tensor  # [B, K+1] positions in `frames` of successive steps
    valid: Tensor  # [B, K+1] bool: still the episode of the window's first step


class Dynamics(nn.Module):
    """The map of one step and its action -> the map of the next, both scaled to [0, 1]."""

    def __init__(
        self, actions: int, hidden: int, rng: torch.Generator, channels: int = MAP_CHANNELS
    ) -> None:
        super().__init__()
        self.actions = actions
        self.first = convolution(channels + actions, hidden, 1, rng)
        # Batch norm would let maps imagined beyond an episode's end into those that count.
        self.norm = nn.GroupNorm(8, hidden)
        self.second = convolution(hidden, channels, 1, rng)

    def forward(self, spatial: Tensor, action: Tensor) -> Tensor:
        plane = F.one_hot(action, self.actions).to(spatial)[:, :, None, None]
        planes = plane.expand(-1, -1, *spatial.shape[2:])
        inner = self.norm(F.relu(self.first(torch.cat([spatial, planes], dim=1))))
        return ops.min_max(F.relu(self.second(inner)))


class SPR(Objective):
    follows = True
    why_no_anchor = "method=spr reads the map before the features"
    why_no_memory = "it imagines maps, and the belief is made after them"
    target: nn.Module

    def __init__(
        self,
        config: SPRConfig,
        features: int,
        actions: int,
        rng: torch.Generator,
        channels: int = MAP_CHANNELS,
    ) -> None:
        """channels: of the encoder's map."""
        super().__init__()
        self.config = config
        self.dynamics: nn.Module = Dynamics(actions, config.hidden, rng, channels)
        self.predictor: nn.Module = linear(features, features, 1.0, rng)

    def attach(self, encoder: nn.Module) -> None:
        self.target = copy.deepcopy(encoder).requires_grad_(False)

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        frames, action = pixels(rollout.frames()), rollout.action.flatten()
        length = self.config.steps + 1
        # Windows do not overlap: each frame is encoded once.
        for frame, position, valid in windows(rollout.done.cpu(), count, length, length, rng):
            used = valid[:, 1]  # nothing to predict where the first action ended the episode
            if not used.any():
                continue
            place = frame.to(frames.device)
            yield Batch(
                frames.index_select(0, place),
                action.index_select(0, place),
                position[used].to(frames.device),
                valid[used].to(frames.device),
            )

    def loss(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        later, valid = batch.position[:, 1:], batch.valid[:, 1:]
        predicted = self.imagine(encode, batch, rng)
        with torch.no_grad():
            target = encode.on(self.target)
            seen = self.augment(batch.frames.index_select(0, later.flatten()), rng)
            true = target.project(
                ops.min_max(target.map(seen)), rectified=self.config.rectified
            ).unflatten(0, later.shape)
        distance = ops.squared_distance(ops.unit(predicted), ops.unit(true))  # [B, K]
        loss = (distance * valid).sum() / valid.sum()
        evidence = {"prediction": loss, "target_cosine": ops.mean_cosine(true[:, 0])}
        return self.config.weight * loss, evidence

    def imagine(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> Tensor:
        """What the model expects to see 1 ... K steps after each window's first: [B, K, D]."""
        first = self.augment(batch.frames.index_select(0, batch.position[:, 0]), rng)
        spatial, predicted = ops.min_max(encode.map(first)), []
        for k in range(self.config.steps):
            spatial = self.dynamics(spatial, batch.action.index_select(0, batch.position[:, k]))
            features = encode.project(spatial, rectified=self.config.rectified)
            predicted.append(self.predictor(features))
        return torch.stack(predicted, dim=1)

    def augment(self, frames: Tensor, rng: torch.Generator) -> Tensor:
        shifted = ops.random_shift(frames, self.config.shift, rng)
        return ops.random_intensity(shifted, self.config.intensity, rng)

    def after_step(self, encoder: nn.Module) -> None:
        ops.follow(self.target, encoder, self.config.target_decay)


METHOD = Method("spr", SPRConfig, SPR, defaults=JOINT)  # as in its source
