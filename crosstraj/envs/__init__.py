"""Environments: Procgen, Ising and any Gymnasium id behind one door, `make_envs`."""

from crosstraj.envs.frame_stack import FrameStack, Savable, savable
from crosstraj.envs.ising.matching import IsingConfig
from crosstraj.envs.ising.task import IsingEnv, IsingVectorEnv
from crosstraj.envs.make import (
    NAMES,
    check_env_name,
    check_envs,
    image_and_actions,
    level_seeds,
    make_envs,
    shown_by,
)
from crosstraj.envs.procgen import (
    GAMES,
    Levels,
    ProcgenConfig,
    ProcgenVectorEnv,
    Split,
    split_levels,
)

__all__ = [
    "GAMES",
    "NAMES",
    "FrameStack",
    "IsingConfig",
    "IsingEnv",
    "IsingVectorEnv",
    "Levels",
    "ProcgenConfig",
    "ProcgenVectorEnv",
    "Savable",
    "Split",
    "check_env_name",
    "check_envs",
    "image_and_actions",
    "level_seeds",
    "make_envs",
    "savable",
    "shown_by",
    "split_levels",
]
