"""The Procgen games under ids of Gymnasium's: `crosstraj/Procgen-bigfish-v0` and so on.

    gymnasium.make_vec("crosstraj.envs:crosstraj/Procgen-bigfish-v0", num_envs=8, levels="test")

The part before the colon makes Gymnasium import this package, which registers the ids. They have no
single environment: the engine plays many games at once. `crosstraj/Ising-v0` is in `ising/task.py`.
"""

from typing import Any

import gymnasium

from crosstraj.envs.by_id import PROCGEN_IDS
from crosstraj.envs.frame_stack import AnyEnvs
from crosstraj.envs.levels import Split
from crosstraj.envs.make import make_envs
from crosstraj.envs.procgen import GAMES, ProcgenConfig


def procgen_games(
    num_envs: int,
    game: str,
    *,
    levels: Split = "train",
    seed: int = 0,
    frame_stack: int = 1,
    **values: Any,
) -> AnyEnvs:
    """Games on the levels of one split; `values` are those of `ProcgenConfig`."""
    config = ProcgenConfig(**values)
    return make_envs(
        game, num_envs, levels=levels, procgen=config, seed=seed, frame_stack=frame_stack
    )


for game in GAMES:
    gymnasium.register(
        f"{PROCGEN_IDS}{game}-v0",
        vector_entry_point="crosstraj.envs.ours:procgen_games",
        kwargs={"game": game},
    )
