"""A corridor that two policies play side by side."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosstraj.objectives.paired_play import PairedPlay


class Corridor:
    """A level as an environment: its frame shows level, episode and step; it ends after `length`.

    Action 0 ends it at once.
    """

    def __init__(self, level: int, length: int = 5) -> None:
        self.level, self.length, self.episode, self.step_count = level, length, 0, 0
        self.actions: list[int] = []

    def obs(self) -> Any:
        shown = np.array([self.level, self.episode, self.step_count], np.uint8)
        return np.broadcast_to(shown, (1, 2, 2, 3)).copy()

    def reset(self) -> Any:
        self.episode, self.step_count = 0, 0
        return self.obs(), {}

    def step(self, actions: Any) -> Any:
        assert actions.shape == (1,)
        self.actions.append(int(actions[0]))
        self.step_count += 1
        ended = self.step_count == self.length or actions[0] == 0
        if ended:
            # The next one begins inside this step, as in Procgen.
            self.episode, self.step_count = self.episode + 1, 0
        return self.obs(), np.zeros(1), np.array([ended]), np.array([False]), {}

    def get_state(self) -> dict[str, Any]:
        return {"all": np.array([self.episode, self.step_count])}

    def set_state(self, state: dict[str, Any]) -> Any:
        self.episode, self.step_count = state["all"].tolist()
        return self.obs(), {}


class Leaning:
    """Level l prefers action 1 + l % 3, and never takes action 0."""

    digest = "leaning"

    def __call__(self, level: int, frames: Tensor) -> Tensor:
        assert int(frames[0, 0, 0, 0]) == level  # each level's policy sees its own level
        chances = torch.tensor([0.0, 0.2, 0.2, 0.2])
        chances[1 + level % 3] = 0.6
        return chances[None]


def play_of(**changes: Any) -> PairedPlay:
    values: dict[str, Any] = {
        "make_level": lambda level: Corridor(level, 5 + level),
        "levels": range(3, 11),
        "policies": Leaning(),
        "pairs": 3,
        "steps": 7,
        "same_actions": False,
    }
    values |= changes
    return PairedPlay(**values)
