"""A rollout: what the agent saw, did and got.

`done[t]` means that the action taken at t ended the episode. Procgen resets inside that very step,
so `obs[t + 1]` is then the first frame of the next level.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from crosstraj.data.fragments import fragments


class Played(Protocol):
    """What an objective reads of play: of a rollout, or of anybody's own (`Trajectories`)."""

    @property
    def action(self) -> Tensor:
        """[S, N] int64."""

    @property
    def done(self) -> Tensor:
        """[S, N] bool."""

    @property
    def reward(self) -> Tensor:
        """[S, N] as the policy learns from it."""

    def frames(self) -> Tensor:
        """The S * N frames in which an action was taken, flat: [S * N, H, W, C] uint8."""
        ...

    def group(self) -> Tensor:
        """[S, N] the level of each step, or where there are none a number for its fragment."""
        ...

    def skill(self) -> Tensor:
        """[S, N] int64, the skill that was followed."""
        ...


def level_or_fragment(level: Tensor, done: Tensor) -> Tensor:
    """[S, N] the level of each step, or where it is -1 a negative number for its fragment."""
    return torch.where(level >= 0, level, -1 - fragments(done))


class Rollout(NamedTuple):
    obs: Tensor  # [S+1, N, H, W, C] uint8; the last row is where the next rollout starts
    action: Tensor  # [S, N] int64
    reward: Tensor  # [S, N] raw as collected; scaled as learnt from
    done: Tensor  # [S, N] bool
    level: Tensor  # [S, N] int64, the level being played; -1 where there are no levels
    log_prob: Tensor  # [S, N] of the action, under the policy that took it
    value: Tensor  # [S+1, N]
    final_value: Tensor  # [S, N] value of the last frame where time ran out; 0 elsewhere
    features: Tensor  # [S+1, N, D] what the heads read when acting
    context: Tensor  # [S+1, N, X] skills; X = 0 for most methods

    def frames(self) -> Tensor:
        """The S * N frames in which an action was taken, flat: [S * N, H, W, C]."""
        return self.obs[:-1].flatten(0, 1)

    def group(self) -> Tensor:
        """[S, N] the level of each step, or where there are none a number for its fragment."""
        return level_or_fragment(self.level, self.done)

    def skill(self) -> Tensor:
        """[S, N] the skill that was followed in each step."""
        return self.context[:-1].argmax(-1)


class Decision(NamedTuple):
    action: Tensor  # [N] int64
    log_prob: Tensor  # [N]
    value: Tensor  # [N]
    features: Tensor  # [N, D]


class Actor(Protocol):
    """What the collector needs of an agent."""

    def act(self, frames: Tensor, context: Tensor, rng: torch.Generator) -> Decision: ...

    def judge(self, frames: Tensor, context: Tensor) -> tuple[Tensor, Tensor]: ...
