"""Environments: Procgen, Ising and any Gymnasium id behind one door, `make_envs`.

Start with `make.py` (the door), then `procgen.py` (the games) or `ising/`, and `levels.py` (which
levels are for training and which for testing). `load_engine.py` finds and loads the C library of
Procgen, `engine.py` plays the games with it. `frame_stack.py` shows several frames as one.
May import: errors, randomness, cores.
"""

from crosstraj.envs.by_id import NAMES
from crosstraj.envs.cue import Cue
from crosstraj.envs.frame_stack import FrameStack, Savable, began_anew, savable
from crosstraj.envs.ising.matching import IsingConfig
from crosstraj.envs.ising.task import IsingEnv, IsingVectorEnv
from crosstraj.envs.levels import Levels, Split, split_levels
from crosstraj.envs.make import (
    check_env_name,
    check_envs,
    image_and_actions,
    level_seeds,
    make_envs,
    shown_by,
)
from crosstraj.envs.ours import procgen_games
from crosstraj.envs.procgen import GAMES, ProcgenConfig, ProcgenVectorEnv, check_mode
from crosstraj.envs.reset_seeds import GymnasiumConfig

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
