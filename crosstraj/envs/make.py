"""One door to every environment: a Procgen game or `ising` by its name, or any Gymnasium id.

A Gymnasium environment trains when it shows uint8 images and takes one of n actions. What it shows
otherwise is a matter of plain Gymnasium registration. MiniGrid in pixels, for example, is a module
`pixels.py` with

    def make(**options):
        return RGBImgPartialObsWrapper(gymnasium.make("MiniGrid-DoorKey-6x6-v0", **options))

    gymnasium.register("PixelDoorKey-v0", entry_point=make)

and the name `pixels:PixelDoorKey-v0`.
"""

import difflib
import importlib
from collections.abc import Mapping
from typing import Any, assert_never

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, Space
from gymnasium.vector import AutoresetMode, VectorWrapper
from gymnasium.wrappers import TransformObservation

from crosstraj.envs.frame_stack import (
    AnyEnvs,
    Frames,
    FrameStack,
    as_savable,
    require_same_step,
    savable,
)
from crosstraj.envs.ising.matching import IsingConfig
from crosstraj.envs.ising.task import IsingVectorEnv
from crosstraj.envs.procgen import (
    ACTIONS,
    GAMES,
    IMAGE,
    ProcgenConfig,
    ProcgenVectorEnv,
    Split,
    split_levels,
)
from crosstraj.errors import BadInput, unknown

GYMNASIUM_MARKS = "-/:"  # one of them is in every Gymnasium id, and in no game's name
NAMES = (*GAMES, "ising")  # what can be trained by name; everything else is an id of Gymnasium's

# Packages that register ids when imported: how those ids begin, the module, its name for pip.
PACKAGES = (
    ("ALE/", "ale_py", "ale-py"),
    ("BabyAI-", "minigrid", "minigrid"),
    ("MiniGrid-", "minigrid", "minigrid"),
)


def make_envs(
    env: str,
    count: int,
    *,
    levels: Split,
    procgen: ProcgenConfig,
    seed: int,
    ising: IsingConfig = IsingConfig(),  # noqa: B008  # frozen
    frame_stack: int = 1,
    copy: bool = True,
) -> AnyEnvs:
    """`count` copies of `env` with observations uint8 [count, H, W, C] and n discrete actions.

    `reset()` begins at `seed`, each time. Procgen's train, test and validation levels are disjoint;
    Gymnasium has no level split in general, so there they differ in their seeds only. With
    `copy=False` the next step overwrites the observations of this one.
    """
    if count < 1:
        raise BadInput(f"count={count}: at least 1 environment is needed")
    if frame_stack < 1:
        raise BadInput(f"frame_stack={frame_stack}: at least 1 frame is needed")
    copy = copy and frame_stack == 1  # a stack copies the frames in any case
    envs: AnyEnvs
    if env in GAMES:
        chosen = split_levels(procgen, levels)
        envs = ProcgenVectorEnv(env, count, chosen, procgen, seed, copy=copy)
    elif env == "ising":
        envs = SeededEnvs(IsingVectorEnv(count, ising, levels), seed, levels)
    else:
        envs = SeededEnvs(_make_gymnasium(env, count, copy), seed, levels)
    return envs if frame_stack == 1 else FrameStack(envs, frame_stack)


def check_env_name(name: str) -> None:
    """Refuses what cannot be trained on before anything is written; Gymnasium's is made once."""
    if name in NAMES:
        return
    if not any(mark in name for mark in GYMNASIUM_MARKS):
        raise unknown("game", name, NAMES)
    make_envs(name, 1, levels="train", procgen=ProcgenConfig(), seed=0).close()


def check_envs(envs: AnyEnvs) -> None:
    """Refuses a vector environment that cannot be trained on, with the reason and the way out."""
    require_same_step(envs)
    observation, action = envs.single_observation_space, envs.single_action_space
    if not _is_image(observation, rank=3):
        raise BadInput(
            f"{envs} shows {observation}: uint8 images [H, W, C] or [H, W], or a Dict with exactly "
            "one image [H, W, C], are needed; register it with a wrapper that gives one"
        )
    height, _, channels = observation.shape or (0, 0, 0)
    if height <= 4 < channels:
        raise BadInput(
            f"{envs} shows {observation}, which looks like [C, H, W]: [H, W, C] is needed; "
            "register it with a wrapper that moves the first axis last"
        )
    if not isinstance(action, Discrete) or action.start != 0:
        raise BadInput(
            f"{envs} takes {action}: Discrete actions counted from 0 are needed; register it with "
            "a wrapper that gives them"
        )


def image_and_actions(envs: AnyEnvs) -> tuple[tuple[int, int, int], int]:
    """Height, width and channels of a frame, and the number of actions."""
    frame, action = envs.single_observation_space, envs.single_action_space
    assert isinstance(frame, Box)  # make_envs has seen to it
    assert isinstance(action, Discrete)
    height, width, channels = frame.shape
    return (height, width, channels), int(action.n)


def shown_by(env: str, *, ising: IsingConfig, frame_stack: int) -> tuple[tuple[int, int, int], int]:
    """The same by the name of an environment, whose levels are of no matter here.

    Procgen's is known: its engine takes a while to start, and never gives its memory back.
    """
    if env in GAMES:
        return (*IMAGE[:2], IMAGE[2] * frame_stack), ACTIONS
    procgen = ProcgenConfig()
    envs = make_envs(
        env, 1, levels="train", procgen=procgen, seed=0, ising=ising, frame_stack=frame_stack
    )
    try:
        return image_and_actions(envs)
    finally:
        envs.close()


def level_seeds(info: dict[str, Any], count: int) -> npt.NDArray[np.int64]:
    """The level of each observation; -1 where the environment does not tell."""
    return np.asarray(info.get("level_seed", np.full(count, -1)), np.int64)


class SeededEnvs(VectorWrapper[Frames, Any, Frames, Any, Any]):
    """Gymnasium environments whose reset() begins at a given seed instead of a random one.

    The seed the environments receive is drawn from (seed, split), so that training and testing with
    one seed play differently, and neighbouring seeds share no environment.
    """

    def __init__(self, env: AnyEnvs, seed: int, levels: Split) -> None:
        super().__init__(env)
        check_envs(env)
        self._seed, self._levels = seed, levels

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frames, dict[str, Any]]:
        self._seed = self._seed if seed is None else seed
        return self.env.reset(seed=split_seed(self._seed, self._levels), options=options)

    @property
    def savable(self) -> bool:
        return savable(self.env)

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        return as_savable(self.env).get_state()

    def set_state(self, state: Mapping[str, npt.NDArray[Any]]) -> tuple[Frames, dict[str, Any]]:
        return as_savable(self.env).set_state(state)


def split_seed(seed: int, levels: Split) -> int:
    match levels:
        case "train":
            stream = 0
        case "test":
            stream = 1
        case "validation":
            stream = 2
        case other:
            assert_never(other)
    if seed < 0:
        raise BadInput(f"seed={seed}: seeds are counted from 0")
    # 31 bits: Gymnasium adds an environment's index to it, and some simulators keep it in int32.
    return int(np.random.SeedSequence((seed, stream)).generate_state(1)[0] >> 1)


def _make_gymnasium(env: str, count: int, copy: bool) -> AnyEnvs:
    name = _registered(env)
    try:
        if gymnasium.spec(name).entry_point is None:
            return gymnasium.make_vec(name, count, vectorization_mode="vector_entry_point")
        return gymnasium.make_vec(
            name,
            count,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP, "copy": copy},
            wrappers=(_as_image,),
        )
    except (gymnasium.error.Error, ModuleNotFoundError) as error:  # a missing package, most often
        raise BadInput(f"{env} is registered, but cannot be made: {error}") from error


def _registered(env: str) -> str:
    """The id in Gymnasium's registry, after importing the package that puts it there."""
    module, _, name = env.rpartition(":")
    if not module and name not in gymnasium.registry:
        module = next((module for start, module, _ in PACKAGES if name.startswith(start)), "")
    if module:
        _import(module, env)
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


def _is_image(space: Space[Any], rank: int) -> bool:
    return isinstance(space, Box) and space.dtype == np.uint8 and len(space.shape) == rank


def _as_image(env: gymnasium.Env[Any, Any]) -> TransformObservation[Any, Any, Any]:
    """Takes a Dict's only image, and gives a grey image its channel axis; else changes nothing."""
    space = env.observation_space
    if isinstance(space, Dict):
        images = [key for key, part in space.items() if _is_image(part, rank=3)]
        if len(images) == 1:
            return TransformObservation(env, lambda parts: parts[images[0]], space[images[0]])
    if isinstance(space, Box) and _is_image(space, rank=2):
        grey = Box(space.low[..., None], space.high[..., None], dtype=np.uint8)
        return TransformObservation(env, lambda image: image[..., None], grey)
    return TransformObservation(env, lambda observation: observation, space)
