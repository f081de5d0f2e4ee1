"""Prioritised level replay (PLR; Jiang, Grefenstette and Rocktäschel, 2021): which level is next.

An episode plays a level again that has a score, with the share of the training levels that have one
as the probability, once the share is `least_seen`; otherwise one of those that have none, each
equally likely. A score says how wrong the values were in a level: it is the mean |advantage| of its
steps. When a level is played again, it is level i with the probability

    (1 - staleness) rank_i^(-1 / temperature) / sum  +  staleness (choices since that of i) / sum

where the highest score has rank 1. The paper scores a trajectory. As in the released code a rollout
scores the steps that it has, and a level counts as seen from then on. Differs from that code where
a rollout plays a level more than once: the score is the mean over all these steps, not that of the
last episode. And as its README calls it that code plays no level again before all have a score
(`least_seen` 1); here, as in the paper, the share decides from the first score on.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crosstraj.envs import Levels
from crosstraj.errors import BadInput, check_range

LARGEST = 2**20  # how many levels can be kept account of


@dataclass(frozen=True)
class ReplayConfig:
    """Whether training levels are chosen by what is still to be learnt in them (PLR)."""

    levels: bool = False
    """Choose training levels in which the value estimate errs most, instead of drawing them
    uniformly: prioritised level replay, with any method."""
    temperature: float = 0.1
    """How far replay goes beyond the highest scores: a level of rank r is replayed in proportion
    to r ** (-1 / temperature) (PLR's code 0.1)."""
    staleness: float = 0.1
    """Share of the replay that goes by how long ago a level was chosen (PLR's code 0.1)."""
    score_rate: float = 1.0
    """Weight of a level's newest score against the older ones (PLR's code 1: the newest alone)."""
    least_seen: float = 0.0
    """Share of the training levels that must have a score before any is played again (PLR's code 1:
    all of them; its paper has no such bound)."""

    def __post_init__(self) -> None:
        check_range(self, "replay.", "temperature", above=0)
        check_range(self, "replay.", "staleness", "least_seen", at_least=0, at_most=1)
        check_range(self, "replay.", "score_rate", above=0, at_most=1)
        for name in ("temperature", "staleness", "score_rate", "least_seen"):
            given = getattr(self, name)
            if not self.levels and given != getattr(ReplayConfig, name):
                raise BadInput(
                    f"replay.{name}={given} is for levels that are played again; add "
                    "replay.levels=True, or leave it out"
                )


def replay_probabilities(
    score: Tensor, seen: Tensor, age: Tensor, *, temperature: float, staleness: float
) -> Tensor:
    """[L] float64, 0 where a level is not `seen`. Of equal scores the lower level is the first.

    age: [L] how many choices ago a level was chosen; if all are 0, they count alike.
    """
    place = score.masked_fill(~seen, -torch.inf).argsort(descending=True, stable=True)
    rank = torch.empty_like(score)
    rank[place] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    by_score = torch.where(seen, rank ** (-1 / temperature), 0)
    age = torch.where(seen, age, 0).to(score.dtype)
    by_age = age if age.any() else seen.to(score.dtype)
    return (1 - staleness) * by_score / by_score.sum() + staleness * by_age / by_age.sum()


class LevelReplay:
    """Chooses the level of each episode, and scores the levels of each rollout."""

    def __init__(self, levels: Levels, config: ReplayConfig, rng: torch.Generator) -> None:
        self.levels, self.config, self.rng = levels, config, rng
        self.score = torch.zeros(levels.count, dtype=torch.float64)
        self.seen = torch.zeros(levels.count, dtype=torch.bool)
        self.chosen_at = torch.zeros(levels.count, dtype=torch.int64)
        self.choices, self.recent, self.replayed = 0, 0, 0  # recent: since the last rollout

    def probabilities(self) -> Tensor:
        """[L] of playing each level again, now."""
        age = self.choices - self.chosen_at
        how = {"temperature": self.config.temperature, "staleness": self.config.staleness}
        return replay_probabilities(self.score, self.seen, age, **how)

    def choose(self) -> int:
        """The level of the next episode."""
        share = self.seen.double().mean()
        likely = torch.rand((), dtype=torch.float64, generator=self.rng) < share
        again = bool(likely & (share >= self.config.least_seen))
        chances = self.probabilities() if again else (~self.seen).double()
        level = int(torch.multinomial(chances, 1, generator=self.rng))
        self.choices += 1
        self.chosen_at[level] = self.choices
        self.recent += 1
        self.replayed += again
        return self.levels.first + level

    def learn(self, level: Tensor, advantage: Tensor) -> dict[str, float]:
        """Scores the levels of a rollout's steps; both [B]. Returns the figures of its levels."""
        index = level.cpu() - self.levels.first
        error, count = advantage.detach().abs().double().cpu(), self.levels.count
        steps = torch.bincount(index, minlength=count)
        newest = torch.bincount(index, error, minlength=count) / steps
        rate = torch.where(self.seen, self.config.score_rate, 1.0)
        mixed = (1 - rate) * self.score + rate * newest
        self.score = torch.where(steps > 0, mixed, self.score)
        self.seen = self.seen | (steps > 0)
        spread = torch.special.entr(steps / steps.sum()).sum().exp()
        figures = {"effective_levels": float(spread)}
        if self.recent:
            figures["replayed"] = self.replayed / self.recent
        self.recent, self.replayed = 0, 0
        return figures

    def state_dict(self) -> dict[str, Any]:
        return {
            "score": self.score,
            "seen": self.seen,
            "chosen_at": self.chosen_at,
            "counts": [self.choices, self.recent, self.replayed],
            "rng": self.rng.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.score, self.seen = state["score"].clone(), state["seen"].clone()
        self.chosen_at = state["chosen_at"].clone()
        self.choices, self.recent, self.replayed = state["counts"]
        self.rng.set_state(state["rng"])
