"""Environments: Procgen, Ising and any Gymnasium id behind one door, `make_envs`."""

from crosstraj.envs.ising import IsingEnv, IsingVectorEnv
from crosstraj.envs.matching import IsingConfig
from crosstraj.envs.procgen import (
    GAMES,
    Levels,
    ProcgenConfig,
    ProcgenVectorEnv,
    Split,
    split_levels,
)
from crosstraj.envs.registry import NAMES, check_envs, level_seeds, make_envs
from crosstraj.envs.stack import FrameStack, Savable, savable

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
    "check_envs",
    "level_seeds",
    "make_envs",
    "savable",
    "split_levels",
]
