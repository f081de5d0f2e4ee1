"""Inverse dynamics: which action leads from one frame to the next? (Pathak et al., ICML 2017)

A method of your own in one file, outside the package; docs/own_objective.md explains every part.

    crosstraj train --with examples/own_objective.py --method inverse --env starpilot
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crosstraj.data.rollout import Played
from crosstraj.errors import check_range
from crosstraj.objectives import Method, Objective, ObjectiveConfig
from crosstraj.objectives.base import Encoder, Metrics


@dataclass(frozen=True)
class InverseConfig(ObjectiveConfig):
    hidden: int = 256
    """Width of the hidden layer."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "hidden", at_least=1)

    def needs(self) -> tuple[int, str]:
        return 2, "a frame and the next"


class Batch(NamedTuple):
    frames: Tensor  # [2 B, H, W, C] uint8: B frames, and after them the next of each
    action: Tensor  # [B] int64: what was done in between


class Inverse(Objective):
    def __init__(
        self, config: InverseConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.guess = nn.Sequential(
            nn.Linear(2 * features, config.hidden), nn.ReLU(), nn.Linear(config.hidden, actions)
        )

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        frames, action, envs = rollout.frames(), rollout.action.flatten(), rollout.done.shape[1]
        # The frame after `done` is another level's: such a step has no next frame.
        first = (~rollout.done[:-1]).flatten().nonzero().squeeze(1).cpu()
        first = first[torch.randperm(len(first), generator=rng)]
        for index in first.to(frames.device).tensor_split(count):
            if len(index):
                pairs = torch.cat([index, index + envs])
                yield Batch(frames.index_select(0, pairs), action.index_select(0, index))

    def loss(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        now, later = encode(batch.frames).chunk(2)
        logits = self.guess(torch.cat([now, later], dim=1))
        loss = F.cross_entropy(logits, batch.action)
        return loss, {"accuracy": (logits.argmax(1) == batch.action).float().mean()}


METHOD = Method(
    name="inverse",
    config=InverseConfig,
    objective=Inverse,
    summary="PPO, and tell the action from a frame and the next",
    defaults={"encoder_grad": "both", "order": "joint"},
)
