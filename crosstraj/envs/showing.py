"""How people are shown an environment: its frames as pictures, its actions by their names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstraj.envs.procgen import GAMES

# What Procgen's 15 actions are: the arrow keys together, then the keys of their own.
PROCGEN_ACTIONS = ("↙", "←", "↖", "↓", "·", "↑", "↘", "→", "↗", "D", "A", "W", "S", "Q", "E")
SPOKEN = {  # for fonts that have letters alone
    **{"↙": "left + down", "←": "left", "↖": "left + up", "↓": "down", "·": "wait"},
    **{"↑": "up", "↘": "right + down", "→": "right", "↗": "right + up"},
}


def action_names(env: str, count: int) -> list[str]:
    """A short name for each action: arrows for Procgen, else the number."""
    if env in GAMES and count == len(PROCGEN_ACTIONS):
        return list(PROCGEN_ACTIONS)
    return [str(number) for number in range(count)]


def action_words(env: str, count: int) -> list[str]:
    """The same names in letters: "right + up", "key D", "action 3"."""
    procgen = env in GAMES and count == len(PROCGEN_ACTIONS)
    other = "key" if procgen else "action"
    return [SPOKEN.get(name, f"{other} {name}") for name in action_names(env, count)]


def newest_image(frames: NDArray[Any], frame_stack: int) -> NDArray[Any]:
    """[..., H, W, C * stack] -> [..., H, W, 3]: the newest frame of a stack, grey made RGB."""
    channels = frames.shape[-1] // frame_stack
    newest = frames[..., -channels:]
    return newest[..., :3] if channels >= 3 else np.repeat(newest[..., :1], 3, axis=-1)
