"""Environments with a script, and agents that see it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from crosstraj.data.rollout import Decision
from crosstraj.objectives.base import Objective

Array = npt.NDArray[Any]
SIDE = 16
NO_SKILLS = Objective()


class Scripted(VectorEnv[Array, Array, Array]):
    """Row r plays episodes of the lengths `script[r]`, over and over; a step earns 1 + action.

    A frame shows its row, the number of its episode and the step; levels are 100 r + episode.
    Odd episodes are solved; those of `timeout` steps run out of time.
    """

    def __init__(self, script: list[list[int]], timeout: int = 0) -> None:
        self.script, self.timeout, self.num_envs = script, timeout, len(script)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = Box(0, 255, (SIDE, SIDE, 1), np.uint8)
        self.single_action_space = Discrete(4)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        self.episode, self.steps = np.zeros((2, self.num_envs), int)
        return self.frames(), {"level_seed": self.levels()}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        self.steps += 1
        lengths = np.array(
            [row[e % len(row)] for row, e in zip(self.script, self.episode, strict=True)]
        )
        done = self.steps == lengths
        truncated = done & (lengths == self.timeout)
        solved = done & (self.episode % 2 == 1)
        self.episode += done
        self.steps[done] = 0
        info = {"level_seed": self.levels(), "prev_level_complete": solved}
        return self.frames(), 1.0 + actions, done & ~truncated, truncated, info

    def levels(self) -> Array:
        return 100 * np.arange(self.num_envs) + self.episode

    def frames(self) -> Array:
        rows = zip(range(self.num_envs), self.episode, self.steps, strict=True)
        return np.stack([frame(row, episode, step) for row, episode, step in rows])


def frame(row: int, episode: int, step: int) -> Array:
    image = np.zeros((SIDE, SIDE, 1), np.uint8)
    image[0, :3, 0] = row, episode, step
    return image


class Still:
    """Takes action 0 always, and remembers which (row, episode) it was shown."""

    memory = 0

    def __init__(self) -> None:
        self.shown: set[tuple[int, int]] = set()

    def act(
        self, frames: Tensor, context: Tensor, rng: torch.Generator, *, greedy: bool = False
    ) -> Decision:
        assert len(frames) == len(context)
        self.shown |= {(int(image[0, 0, 0]), int(image[0, 1, 0])) for image in frames}
        nothing = torch.zeros(len(frames))
        return Decision(nothing.long(), nothing, nothing, torch.zeros(len(frames), 1))
