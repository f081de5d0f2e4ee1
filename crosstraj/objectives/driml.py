"""DRIML: features of a step must tell which frame follows it (Mazoure et al., NeurIPS 2020).

The global term with k uniform in {1, 2}, as the authors' command for Procgen has it. Differs: PPO
instead of C51, pairs never cross an episode's end, and negatives that lie near the positive in
time, of which a draw from the source's replay has almost none, are left out (docs/methods.md).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj.data.episode_borders import fragments
from crosstraj.data.rollout import Played
from crosstraj.data.within_episodes import Stretches, windows
from crosstraj.errors import check_range
from crosstraj.nn import ops
from crosstraj.nn.heads import ResidualMLP
from crosstraj.nn.memory import Frames
from crosstraj.objectives.base import Metrics, Objective, ObjectiveConfig
from crosstraj.objectives.method import JOINT, Method


@dataclass(frozen=True)
class DRIMLConfig(ObjectiveConfig):
    """DRIML's own values, from the authors' code and its command for Procgen."""

    lag: int = 2
    """Predict frames up to this many steps ahead, drawn uniformly."""
    apart: int = 4
    """Use no negatives within this many steps of the positive in its episode; 0 excludes only the
    positive itself. (The source's replay of a million frames seldom draws nearer ones.)"""
    width: int = 512
    """Width of the projection that is compared."""
    action_width: int = 64
    """Width of the action embedding."""
    score_bound: float = 20.0
    """Soft bound on the scores: bound * tanh(score / bound)."""
    weight: float = 1.0
    """Weight of the loss beside the policy's, for --order joint."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "lag", "width", "action_width", at_least=1)
        check_range(self, "objective.", "apart", at_least=0)
        check_range(self, "objective.", "score_bound", above=0)

    def needs(self) -> tuple[int, str]:
        return self.lag + 1, f"objective.lag={self.lag}"


class Batch(NamedTuple):
    frames: Frames  # [F, H, W, C] uint8
    action: Tensor  # [F] int64
    now: Tensor  # [B] positions in `frames`
    later: Tensor  # [B] positions of the frames that follow, k steps on
    moment: Tensor  # [B] of those frames: differences count steps within an episode, else are large


class DRIML(Objective):
    reads_stretches = True

    def __init__(
        self, config: DRIMLConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config, self.actions = config, actions
        self.action_code = ResidualMLP(actions, config.action_width, rng)
        self.psi_now = ResidualMLP(features + config.action_width, config.width, rng)
        self.psi_later = ResidualMLP(features, config.width, rng)

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        lag = self.config.lag
        for frame, position, valid in windows(rollout.done.cpu(), count, lag + 1, 1, rng):
            k = torch.randint(1, lag + 1, (len(position), 1), generator=rng)
            inside = valid.gather(1, k).squeeze(1)
            if inside.any():
                yield self.batch_of(rollout, frame, position[inside, 0], k[inside, 0])

    def batch(self, rollout: Played, minibatch: Stretches, rng: torch.Generator) -> Batch | None:
        frame, stretch = (field.cpu() for field in minibatch)
        k = torch.randint(1, self.config.lag + 1, (len(frame),), generator=rng)
        later = torch.arange(len(frame)) + k
        inside = later < stretch.bincount().cumsum(0)[stretch]  # before the first of the next one
        if not inside.any():
            return None
        return self.batch_of(rollout, frame, inside.nonzero().squeeze(1), k[inside])

    def batch_of(self, rollout: Played, frame: Tensor, now: Tensor, k: Tensor) -> Batch:
        """frame: [F] flat indices into the rollout; now, k: [B] positions there, and lags."""
        steps, envs = rollout.done.shape
        device = rollout.done.device
        place, now, k = frame.to(device), now.to(device), k.to(device)
        target = place.index_select(0, now + k)
        episode = fragments(rollout.done).flatten().index_select(0, target)
        return Batch(
            rollout.frames().index_select(0, place),
            rollout.action.flatten().index_select(0, place),
            now,
            now + k,
            episode * (steps + self.config.apart) + target // envs,
        )

    def loss_of(
        self, features: Tensor, batch: Batch, rng: torch.Generator
    ) -> tuple[Tensor, Metrics]:
        c = self.config
        code = self.action_code(F.one_hot(batch.action, self.actions).to(features))
        now = self.psi_now(torch.cat([features, code], dim=-1).index_select(0, batch.now))
        later = self.psi_later(features.index_select(0, batch.later))
        scores = now @ later.T / math.sqrt(c.width)
        near = near_positive(batch.moment, c.apart)
        bent = c.score_bound * torch.tanh(scores / c.score_bound)
        contrast = ops.info_nce(bent.masked_fill(near, -math.inf))
        evidence = {
            "contrast": contrast,
            "contrast_blind": (~near).sum(1).log().mean(),
            "top_one": ops.top_one(scores.detach().masked_fill(near, -math.inf)),
        }
        return c.weight * contrast, evidence


def near_positive(moment: Tensor, apart: int) -> Tensor:
    """[B, B] whether j is no negative of i: another pair's target within `apart` steps of i's own.

    (t, k=1) and (t - 1, k=2) have one target, so that without this half of the anchors would be
    asked to tell a frame from itself.
    """
    near = (moment[:, None] - moment).abs() <= apart
    return near.fill_diagonal_(False)


METHOD = Method("driml", DRIMLConfig, DRIML, defaults=JOINT)  # as in its source
