"""One door to every environment: a Procgen game or `ising` by its name, or any Gymnasium id."""

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorWrapper

from crosstraj.envs.by_id import NAMES, is_image, make_by_id, only_as_vector
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
from crosstraj.envs.level_envs import LevelEnvs
from crosstraj.envs.levels import NextLevel, Split, split_levels
from crosstraj.envs.procgen import (
    ACTIONS,
    GAMES,
    IMAGE,
    ProcgenConfig,
    ProcgenVectorEnv,
)
from crosstraj.envs.reset_seeds import GymnasiumConfig, check_seeds
from crosstraj.errors import BadInput, unknown

GYMNASIUM_MARKS = "-/:"  # one of them is in every Gymnasium id, and in no game's name


def make_envs(
    env: str,
    count: int,
    *,
    levels: Split,
    procgen: ProcgenConfig,
    seed: int,
    ising: IsingConfig = IsingConfig(),  # noqa: B008  # frozen
    gymnasium: GymnasiumConfig = GymnasiumConfig(),  # noqa: B008  # frozen
    frame_stack: int = 1,
    processes: bool = False,
    copy: bool = True,
    next_level: NextLevel | None = None,
) -> AnyEnvs:
    """`count` copies of `env` with observations uint8 [count, H, W, C] and n discrete actions.

    `reset()` begins at `seed`, each time. Procgen's train, test and validation levels are disjoint,
    and so are those of a Gymnasium id with `gymnasium.train_levels`; without it they differ in
    their seeds only. `processes` plays each environment of a Gymnasium id in its own process. With
    `copy=False` the next step overwrites the observations of this one. `next_level` says which
    level each episode plays, where there are levels; otherwise they are drawn uniformly.
    """
    if count < 1:
        raise BadInput(f"count={count}: at least 1 environment is needed")
    if frame_stack < 1:
        raise BadInput(f"frame_stack={frame_stack}: at least 1 frame is needed")
    copy = copy and frame_stack == 1  # a stack copies the frames in any case
    envs: AnyEnvs
    if env in GAMES:
        chosen = split_levels(procgen, levels)
        envs = ProcgenVectorEnv(env, count, chosen, procgen, seed, copy=copy, next_level=next_level)
    elif env != "ising" and gymnasium.train_levels:
        envs = _with_levels(
            env, count, levels, gymnasium, seed, next_level, processes=processes, copy=copy
        )
    elif next_level is not None:
        raise BadInput(f"{env} has no levels to choose from; see --levels")
    elif env == "ising":
        envs = SeededEnvs(IsingVectorEnv(count, ising, levels), seed, levels)
    else:
        same = AutoresetMode.SAME_STEP
        made = make_by_id(env, count, autoreset=same, processes=processes, copy=copy)
        envs = SeededEnvs(made, seed, levels)
    return envs if frame_stack == 1 else FrameStack(envs, frame_stack)


def _with_levels(
    env: str,
    count: int,
    levels: Split,
    config: GymnasiumConfig,
    seed: int,
    next_level: NextLevel | None,
    *,
    processes: bool,
    copy: bool,
) -> LevelEnvs:
    """Environments whose levels are reset seeds; refused where the seed decides no level."""
    if only_as_vector(env):
        raise BadInput(
            f"{env} has no levels to split: it is one vector environment, whose episodes cannot be "
            "begun one by one; leave out --levels (gymnasium.train_levels=0)"
        )
    off = AutoresetMode.DISABLED
    alone = make_by_id(env, 1, autoreset=off)
    try:
        check_envs(LevelEnvs(alone, split_levels(config, levels), seed))
        check_seeds(alone, env, config)
    finally:
        alone.close()
    made = make_by_id(env, count, autoreset=off, processes=processes, copy=copy)
    return LevelEnvs(made, split_levels(config, levels), seed, next_level)


def check_env_name(
    name: str,
    gymnasium: GymnasiumConfig = GymnasiumConfig(),  # noqa: B008  # frozen
) -> None:
    """Refuses what cannot be trained on before anything is written; Gymnasium's is made once."""
    if name in NAMES:
        return
    if not any(mark in name for mark in GYMNASIUM_MARKS):
        raise unknown("game", name, NAMES)
    make_envs(name, 1, levels="train", procgen=ProcgenConfig(), gymnasium=gymnasium, seed=0).close()


def check_envs(envs: AnyEnvs) -> None:
    """Refuses a vector environment that cannot be trained on, with the reason and the way out."""
    require_same_step(envs)
    observation, action = envs.single_observation_space, envs.single_action_space
    if not is_image(observation, rank=3):
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
        return self.env.reset(seed=environment_seed(self._seed, self._levels), options=options)

    @property
    def savable(self) -> bool:
        return savable(self.env)

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        return as_savable(self.env).get_state()

    def set_state(self, state: Mapping[str, npt.NDArray[Any]]) -> tuple[Frames, dict[str, Any]]:
        return as_savable(self.env).set_state(state)


def environment_seed(seed: int, split: Split) -> int:
    """The seed that environments are given: a stream of its own for each split."""
    if seed < 0:
        raise BadInput(f"seed={seed}: seeds are counted from 0")
    # 31 bits: Gymnasium adds an environment's index to it, and some simulators keep it in int32.
    stream = get_args(Split).index(split)
    return int(np.random.SeedSequence((seed, stream)).generate_state(1)[0] >> 1)
