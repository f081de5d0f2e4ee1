"""A cue that is gone when the choice comes: whoever sees one frame alone can only guess.

The first frame of an episode is red or blue. Frames of grey follow, `delay` of them, and then a
green one, in which action 0 is right after red and action 1 after blue. What is right pays 1, and
the episode is over. Actions in other frames do nothing.
"""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

Frame = npt.NDArray[np.uint8]
SIDE = 8
RED, BLUE, GREY, GREEN = (255, 0, 0), (0, 0, 255), (128, 128, 128), (0, 255, 0)


class Cue(gymnasium.Env[Frame, np.int64]):
    """One game; frames are uint8 [8, 8, 3], of one colour each."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # Gymnasium's own form

    def __init__(self, delay: int = 16) -> None:
        self.delay = delay
        self.observation_space = Box(0, 255, (SIDE, SIDE, 3), np.uint8)
        self.action_space = Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        self.right, self.time = int(self.np_random.integers(2)), 0
        return self._frame(), {}

    def step(self, action: np.int64) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        over = self.time == self.delay + 1
        reward = float(over and int(action) == self.right)
        self.time += 1
        return self._frame(), reward, over, False, {}

    def _frame(self) -> Frame:
        shown = [(RED, BLUE)[self.right], *[GREY] * self.delay, GREEN]
        colour = shown[min(self.time, self.delay + 1)]
        return np.broadcast_to(np.array(colour, np.uint8), (SIDE, SIDE, 3)).copy()


gymnasium.register("crosstraj/Cue-v0", entry_point="crosstraj.envs.cue:Cue")
