"""DRIML: features of a step must tell which frame follows it (Mazoure et al., NeurIPS 2020).

The global term with k uniform in {1, 2}, as the authors' command for Procgen has it. Differs: PPO
instead of C51, and pairs never cross an episode's end (docs/methods.md).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj import ops
from crosstraj.errors import check_range
from crosstraj.networks import FEATURES, ResidualMLP
from crosstraj.objectives.base import Encoder, Metrics, Objective
from crosstraj.rollout import Rollout
from crosstraj.views import windows


@dataclass(frozen=True)
class DRIMLConfig:
    """DRIML's own values, from the authors' code and its command for Procgen."""

    lag: int = 2
    """k is uniform in 1 ... lag."""
    width: int = 512
    """Width of the compared vectors."""
    action_width: int = 64
    """Width of the code of an action."""
    score_bound: float = 20.0
    """Scores are bent to stay within this: bound * tanh(score / bound)."""
    weight: float = 1.0
    """Of the loss, which matters when it is summed with the policy's."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "lag", "width", "action_width", at_least=1)
        check_range(self, "objective.", "score_bound", above=0)

    def needs(self) -> tuple[int, str]:
        return self.lag + 1, f"objective.lag={self.lag}"


class Batch(NamedTuple):
    frames: Tensor  # [F, H, W, C] uint8
    action: Tensor  # [F] int64
    now: Tensor  # [B] positions in `frames`
    later: Tensor  # [B] positions of the frames that follow, k steps on


class DRIML(Objective):
    def __init__(self, config: DRIMLConfig, actions: int, rng: torch.Generator) -> None:
        super().__init__()
        self.config, self.actions = config, actions
        self.action_code = ResidualMLP(actions, config.action_width, rng)
        self.psi_now = ResidualMLP(FEATURES + config.action_width, config.width, rng)
        self.psi_later = ResidualMLP(FEATURES, config.width, rng)

    def minibatches(self, rollout: Rollout, count: int, rng: torch.Generator) -> Iterator[Batch]:
        frames, action = rollout.frames(), rollout.action.flatten()
        for frame, position, valid in windows(
            rollout.done.cpu(), count, self.config.lag + 1, 1, rng
        ):
            k = torch.randint(1, self.config.lag + 1, (len(position), 1), generator=rng)
            inside = valid.gather(1, k).squeeze(1)
            if not inside.any():
                continue
            place, chosen = frame.to(frames.device), position[inside]
            yield Batch(
                frames.index_select(0, place),
                action.index_select(0, place),
                chosen[:, 0].to(frames.device),
                chosen.gather(1, k[inside]).squeeze(1).to(frames.device),
            )

    def loss(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        c = self.config
        features = encode(batch.frames)
        code = self.action_code(F.one_hot(batch.action, self.actions).to(features))
        now = self.psi_now(torch.cat([features, code], dim=-1).index_select(0, batch.now))
        later = self.psi_later(features.index_select(0, batch.later))
        scores = now @ later.T / math.sqrt(c.width)
        contrast = ops.info_nce(c.score_bound * torch.tanh(scores / c.score_bound))
        evidence = {
            "contrast": contrast,
            "contrast_blind": torch.tensor(math.log(len(scores))),
            "top_one": ops.top_one(scores),
        }
        return c.weight * contrast, evidence
