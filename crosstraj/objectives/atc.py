"""ATC: a frame must tell which frame came k steps later, both shifted at random (Stooke, 2021).

With c = phi(shift(o_t)) and z = phi'(shift(o_{t+k})), both before the last layer's ReLU, where phi'
is a moving average of phi:

    scores = (c + MLP(c)) W z^T,    L = - mean log softmax of a row's own column

The loss alone trains the encoder, and the policy's gradient stops below the encoder's last layer:
it reads the map with a layer of its own (Stooke et al., Decoupling Representation Learning from
Reinforcement Learning, ICML 2021; `split_at=conv`). Differs: frames of the rollout instead of a
replay buffer, no warm-up, and one rate throughout.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crosstraj.data.rollout import Played
from crosstraj.data.within_episodes import windows
from crosstraj.errors import check_range
from crosstraj.nn import ops
from crosstraj.nn.heads import linear, mlp
from crosstraj.nn.memory import pixels
from crosstraj.objectives.base import Encoder, Metrics, Objective, ObjectiveConfig
from crosstraj.objectives.method import Method


@dataclass(frozen=True)
class ATCConfig(ObjectiveConfig):
    """ATC's own values, from the authors' release (rlpyt, `ul`)."""

    lag: int = 3
    """How many steps later the positive is (release)."""
    shift: int = 4
    """Largest random shift of a frame, in pixels (release)."""
    target_decay: float = 0.99
    """EMA decay of the target encoder (release)."""
    hidden: int = 512
    """Hidden width of the anchors' residual MLP (release)."""
    rectified: bool = False
    """Contrast the last layer's output after its ReLU, not before it (release: a linear layer)."""
    weight: float = 1.0
    """Weight of the loss beside the policy's, for --order joint."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "lag", "hidden", at_least=1)
        check_range(self, "objective.", "shift", at_least=0)
        check_range(self, "objective.", "target_decay", at_least=0, at_most=1)

    def needs(self) -> tuple[int, str]:
        return self.lag + 1, f"objective.lag={self.lag}"


class Batch(NamedTuple):
    frames: Tensor  # [F, H, W, C] uint8
    now: Tensor  # [B] positions in `frames`
    later: Tensor  # [B] positions of the frames `lag` steps later in the same episode


class ATC(Objective):
    follows = True
    why_no_anchor = "method=atc reads the map before the features"
    why_no_memory = "its anchors and positives are shifted frames, which have no history"
    target: nn.Module

    def __init__(
        self, config: ATCConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config = config
        self.residual = mlp(features, config.hidden, features, rng)
        self.similarity = linear(features, features, 1.0, rng).weight  # W

    def attach(self, encoder: nn.Module) -> None:
        self.target = copy.deepcopy(encoder).requires_grad_(False)

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        frames, lag = pixels(rollout.frames()), self.config.lag
        for frame, position, valid in windows(rollout.done.cpu(), count, lag + 1, 1, rng):
            pair = position[valid[:, lag]][:, [0, lag]].to(frames.device)
            if len(pair):
                shown = frames.index_select(0, frame.to(frames.device))
                yield Batch(shown, pair[:, 0], pair[:, 1])

    def loss(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        shift = self.config.shift
        now = batch.frames.index_select(0, batch.now)
        anchor = self.code(encode, ops.random_shift(now, shift, rng))
        with torch.no_grad():
            later = batch.frames.index_select(0, batch.later)
            positive = self.code(encode.on(self.target), ops.random_shift(later, shift, rng))
        scores = (anchor + self.residual(anchor)) @ self.similarity @ positive.T
        contrast = ops.info_nce(scores)
        return self.config.weight * contrast, {
            "contrast": contrast,
            "top_one": ops.top_one(scores.detach()),
        }

    def code(self, encode: Encoder, frames: Tensor) -> Tensor:
        """What is contrasted of each frame: [B, D]."""
        return encode.project(encode.map(frames), rectified=self.config.rectified)

    def after_step(self, encoder: nn.Module) -> None:
        ops.follow(self.target, encoder, self.config.target_decay)


METHOD = Method(
    "atc",
    ATCConfig,
    ATC,
    # The policy first, then the objective, which alone trains the encoder: as in its source.
    defaults={"encoder_grad": "ssl", "split_at": "conv", "order": "policy"},
)
