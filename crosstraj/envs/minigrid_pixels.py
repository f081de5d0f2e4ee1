"""MiniGrid and BabyAI in pixels: `crosstraj/MiniGrid-DoorKey-6x6-v0` and so on, one for each id.

What the agent sees of the grid, 7 x 7 fields, is drawn with 9 pixels a field: uint8 63 x 63 x 3.
MiniGrid's own ids show three numbers a field instead, which no encoder for pictures can read.
"""

from typing import Any

import gymnasium
import minigrid
from minigrid.wrappers import RGBImgPartialObsWrapper

FIELD = 9  # pixels; 7 fields are then about as large as a frame of Procgen


def make(of: str, **options: Any) -> Any:
    """The environment of that id, with a view in pixels."""
    return RGBImgPartialObsWrapper(gymnasium.make(of, **options), tile_size=FIELD)


gymnasium.register_envs(minigrid)  # importing it has registered its ids
for name in [name for name in gymnasium.registry if name.startswith(("MiniGrid-", "BabyAI-"))]:
    gymnasium.register(
        f"crosstraj/{name}",
        entry_point="crosstraj.envs.minigrid_pixels:make",
        kwargs={"of": name},
        order_enforce=False,  # the inner environment has both already
        disable_env_checker=True,
    )
