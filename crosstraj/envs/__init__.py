"""Environments: Procgen, Ising and any Gymnasium id behind one door, `make_envs`.

Start with `make.py` (the door), then `procgen.py` (the games, their levels and splits) or `ising/`.
`frame_stack.py` shows several frames as one. May import: errors, randomness, cores.
"""

from crosstraj.envs.by_id import NAMES
from crosstraj.envs.cue import Cue
from crosstraj.envs.frame_stack import FrameStack, Savable, began_anew, savable
from crosstraj.envs.ising.matching import IsingConfig
from crosstraj.envs.ising.task import IsingEnv, IsingVectorEnv
from crosstraj.envs.levels import GymnasiumConfig
from crosstraj.envs.make import (
    check_env_name,
    check_envs,
    image_and_actions,
    level_seeds,
    make_envs,
    shown_by,
)
from crosstraj.envs.ours import procgen_games
from crosstraj.envs.procgen import (
    GAMES,
    Levels,
    ProcgenConfig,
    ProcgenVectorEnv,
    Split,
    check_mode,
    split_levels,
)

__all__ = [
    "GAMES",
    "NAMES",
    "Cue",
    "FrameStack",
    "GymnasiumConfig",
    "IsingConfig",
    "IsingEnv",
    "IsingVectorEnv",
    "Levels",
    "ProcgenConfig",
    "ProcgenVectorEnv",
    "Savable",
    "Split",
    "began_anew",
    "check_env_name",
    "check_envs",
    "check_mode",
    "image_and_actions",
    "level_seeds",
    "make_envs",
    "procgen_games",
    "savable",
    "shown_by",
    "split_levels",
]
