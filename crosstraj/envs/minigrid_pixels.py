"""MiniGrid and BabyAI in pixels: `crosstraj/MiniGrid-DoorKey-6x6-v0` and so on, one for each id.

What the agent sees of the grid, 7 x 7 fields, is drawn with 9 pixels a field, and gets a black line
below and at the right: uint8 64 x 64 x 3, as a frame of Procgen has, and as our own kernels take.
MiniGrid's own ids show three numbers a field instead, which no encoder for pictures can read.
"""

from typing import Any

import gymnasium
import minigrid
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import TransformObservation
from minigrid.wrappers import RGBImgPartialObsWrapper

FIELD, SIDE = 9, 64  # pixels


def make(of: str, **options: Any) -> Any:
    """The environment of that id, with a view in pixels."""
    drawn = RGBImgPartialObsWrapper(gymnasium.make(of, **options), tile_size=FIELD)
    seen = drawn.observation_space
    assert isinstance(seen, Dict)
    height, width, _ = seen["image"].shape or (0, 0, 0)
    lines = ((0, SIDE - height), (0, SIDE - width), (0, 0))

    def framed(parts: dict[str, Any]) -> dict[str, Any]:
        return {**parts, "image": np.pad(parts["image"], lines)}

    image = Box(0, 255, (SIDE, SIDE, 3), np.uint8)
    space = Dict({**seen.spaces, "image": image})
    return TransformObservation(drawn, framed, space)


gymnasium.register_envs(minigrid)  # importing it has registered its ids
for name in [name for name in gymnasium.registry if name.startswith(("MiniGrid-", "BabyAI-"))]:
    gymnasium.register(
        f"crosstraj/{name}",
        entry_point="crosstraj.envs.minigrid_pixels:make",
        kwargs={"of": name},
        order_enforce=False,  # the inner environment has both already
        disable_env_checker=True,
    )
