"""Any environment that Gymnasium knows by an id, as a vector of uint8 images.

It trains when it shows uint8 images and takes one of n actions. What it shows otherwise is a matter
of plain Gymnasium registration, as in `minigrid_pixels.py`: a module of your own that registers an
id, and the name `module:Id-v0`.
"""

import difflib
import functools
import importlib
import multiprocessing
import os
import signal
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TransformObservation

from crosstraj.envs.frame_stack import AnyEnvs
from crosstraj.envs.procgen import GAMES
from crosstraj.errors import BadInput, unknown

PROCGEN_IDS = "crosstraj/Procgen-"  # how the games' ids begin (ours.py)
NAMES = (*GAMES, "ising")  # what can be trained by name; everything else is an id of Gymnasium's

# Packages that register ids when imported: how those ids begin, the module, its name for pip.
PACKAGES = (
    ("ALE/", "ale_py", "ale-py"),
    ("BabyAI-", "minigrid", "minigrid"),
    ("MiniGrid-", "minigrid", "minigrid"),
    ("crosstraj/BabyAI-", "crosstraj.envs.minigrid_pixels", "minigrid"),
    ("crosstraj/MiniGrid-", "crosstraj.envs.minigrid_pixels", "minigrid"),
)


def make_by_id(
    env: str, count: int, *, autoreset: AutoresetMode, processes: bool = False, copy: bool = True
) -> AnyEnvs:
    """`count` environments in this process, or each in one of its own, with the same frames.

    An id that has nothing but a vector environment of its own begins episodes by its own rules.
    """
    name = _registered(env)
    vector: dict[str, Any] = {"autoreset_mode": autoreset, "copy": copy}
    wrappers: list[Any] = [_as_image]
    if processes:
        # Not forked from this process, whose threads may be holding locks just now.
        vector["context"] = "forkserver"
        multiprocessing.get_context("forkserver").set_forkserver_preload(["crosstraj.envs"])
        wrappers.append(functools.partial(_deaf_to_ctrl_c, parent=os.getpid()))
    try:
        if only_as_vector(env):
            return gymnasium.make_vec(name, count, vectorization_mode="vector_entry_point")
        return gymnasium.make_vec(
            name,
            count,
            vectorization_mode="async" if processes else "sync",
            vector_kwargs=vector,
            wrappers=wrappers,
        )
    except (gymnasium.error.Error, ModuleNotFoundError) as error:  # a missing package, most often
        raise BadInput(f"{env} is registered, but cannot be made: {error}") from error


def only_as_vector(env: str) -> bool:
    """Whether the id has a vector environment of its own, and no single one."""
    return gymnasium.spec(_registered(env)).entry_point is None


def _deaf_to_ctrl_c(env: gymnasium.Env[Any, Any], parent: int) -> Any:
    """Ctrl-C reaches every process of a terminal, but the run saves itself before it stops."""
    if os.getpid() != parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return env


def _registered(env: str) -> str:
    """The id in Gymnasium's registry, after importing the package that puts it there."""
    module, _, name = env.rpartition(":")
    if not module and name not in gymnasium.registry:
        module = next((module for start, module, _ in PACKAGES if name.startswith(start)), "")
    if module:
        _import(module, env)
    if name.startswith(PROCGEN_IDS):
        game = name.removeprefix(PROCGEN_IDS).removesuffix("-v0")
        raise BadInput(
            f"{env} is an id for gymnasium.make_vec, which always plays one set of levels; "
            f"to train and judge on different ones, use --env {game}"
        )
    if name in gymnasium.registry:
        return name
    close = difflib.get_close_matches(name, gymnasium.registry, n=5, cutoff=0.5)
    raise unknown("environment", env, (*NAMES, *close))


def _import(module: str, env: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = next((pip for _, known, pip in PACKAGES if known == module), module)
        raise BadInput(
            f"{env} needs the module {error.name!r}, which is not installed: pip install {package}"
        ) from error
    except (ImportError, TypeError, ValueError) as error:
        raise BadInput(f"{env}: {module!r} cannot be imported: {error}") from error


def is_image(space: Space[Any], rank: int) -> bool:
    return isinstance(space, Box) and space.dtype == np.uint8 and len(space.shape) == rank


def _as_image(env: gymnasium.Env[Any, Any]) -> TransformObservation[Any, Any, Any]:
    """Takes a Dict's only image, and gives a grey image its channel axis; else changes nothing."""
    space = env.observation_space
    if isinstance(space, Dict):
        images = [key for key, part in space.items() if is_image(part, rank=3)]
        if len(images) == 1:
            return TransformObservation(env, lambda parts: parts[images[0]], space[images[0]])
    if isinstance(space, Box) and is_image(space, rank=2):
        grey = Box(space.low[..., None], space.high[..., None], dtype=np.uint8)
        return TransformObservation(env, lambda image: image[..., None], grey)
    return TransformObservation(env, lambda observation: observation, space)
