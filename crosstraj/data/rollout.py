"""A rollout: what the agent saw, did and got.

`done[t]` means that the action taken at t ended the episode. Procgen resets inside that very step,
so `obs[t + 1]` is then the first frame of the next level.
"""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosstraj.data.episode_borders import fragments, time_of
from crosstraj.nn import ops
from crosstraj.nn.memory import Frames, Histories, remembering

Rows = slice | NDArray[np.int64]
ALL = slice(None)
NOTHING = torch.zeros(0, 0, 0)  # the memory of an agent that has none


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

    def frames(self) -> Frames:
        """The S * N frames in which an action was taken, flat: [S * N, H, W, C] uint8.

        Of an agent with a memory they come with their histories: `encode` reads both.
        """
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
    memory: Tensor = NOTHING  # [S+1, N, K] before each frame; K = 0 without a memory

    def frames(self) -> Frames:
        """The S * N frames in which an action was taken, flat: [S * N, H, W, C]."""
        frames, memory = self.obs[:-1].flatten(0, 1), self.memory[:-1].flatten(0, 1)
        if not memory.shape[1]:
            return frames
        place = torch.arange(len(frames), device=frames.device)
        age, envs = time_of(self.done).flatten(), self.done.shape[1]
        return Histories(frames, memory, age, envs, place)

    def places(self, count: int, stretch: int) -> Tensor:
        """Of about so many of these frames, the same ones in every run: from everywhere.

        stretch: where the agent remembers, so many consecutive steps at once, if not 0. A step
        alone would show one step of a change that goes through the memory.
        """
        places = torch.arange(self.done.numel(), device=self.done.device).view(self.done.shape)
        if not stretch or not self.memory.shape[-1]:
            return ops.sample(places.flatten(), count)
        stretch = min(stretch, len(places))
        return ops.sample(places[:stretch].T, max(1, count // stretch)).flatten()

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
    memory: Tensor = NOTHING  # [N, K] after the frame; nothing without a memory


class Actor(Protocol):
    """What the collector needs of an agent."""

    def act(self, frames: Frames, context: Tensor, rng: torch.Generator) -> Decision: ...

    def judge(self, frames: Frames, context: Tensor) -> tuple[Tensor, Tensor]: ...


class Remembered:
    """What an agent remembers of the open episode of each of N environments.

    It is forgotten where an episode ends, and nowhere else.
    """

    def __init__(self, memory: int, envs: int, device: str | torch.device = "cpu") -> None:
        """memory: how many numbers the agent remembers; 0 for one without a memory."""
        self.state = torch.zeros(envs, memory, device=device)  # [N, K]

    def before(self, frames: Tensor, rows: Rows = ALL) -> Frames:
        """Frames of these environments as the agent reads them, after what it remembers there."""
        return remembering(frames, self.state[rows])

    def keep(self, decision: Decision, rows: Rows = ALL) -> None:
        """What the agent remembers after its decision in these environments."""
        if self.state.shape[1]:
            self.state[rows] = decision.memory

    def forget(self, done: Tensor) -> None:
        """done: [N] bool, the environments in which the episode has ended."""
        self.state[done.to(self.state.device)] = 0.0
