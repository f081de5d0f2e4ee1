"""Environments that tests open and play: those of Procgen, and clocks of ours."""

import hashlib
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import SyncVectorEnv, VectorEnv

from crosstraj.envs import Levels, ProcgenConfig, ProcgenVectorEnv, make_envs, split_levels

Array = npt.NDArray[Any]
EASY, HARD = ProcgenConfig(), ProcgenConfig(mode="hard")
INFO = ("level_seed", "prev_level_seed", "prev_level_complete")


def procgen(
    game: str,
    count: int = 4,
    config: ProcgenConfig = EASY,
    levels: Levels | None = None,
    seed: int = 1,
    threads: int | None = None,
    copy: bool = True,
) -> ProcgenVectorEnv:
    levels = levels or split_levels(config, "train")
    return ProcgenVectorEnv(game, count, levels, config, seed, threads, copy)


def played(envs: VectorEnv[Any, Any, Any], steps: int, seed: int = 0) -> list[tuple[Array, ...]]:
    """Frames, reward, ends and level information of random play."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(steps):
        frames, reward, terminated, truncated, info = envs.step(rng.integers(0, 15, envs.num_envs))
        rows.append((frames.copy(), reward, terminated, truncated, *(info[key] for key in INFO)))
    return rows


def digest(rows: list[tuple[Array, ...]]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for row in rows for array in row)).hexdigest()


# ---- other environments, through Gymnasium's registry ----


class Clock(gymnasium.Env[Any, int]):
    """Shows the number of its episode and step; ends after 3 to 6 steps, at 5 by its time limit."""

    def __init__(self, space: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> None:
        self.observation_space, self.action_space = space, actions
        self.episode = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.episode = int(self.np_random.integers(16))
        self.episode += 1
        self.time, self.length = 0, int(self.np_random.integers(3, 7))
        return self.picture(self.observation_space), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        ended = self.time >= self.length
        return self.picture(self.observation_space), float(action), ended, False, {}

    def picture(self, space: gymnasium.Space[Any]) -> Any:
        if isinstance(space, Dict):
            return {key: self.picture(part) for key, part in space.items()}
        assert isinstance(space, Box)
        return np.full(space.shape, 8 * self.episode % 256 + self.time, space.dtype)


IMAGE = Box(0, 255, (5, 4, 3), np.uint8)
GREY = Box(0, 255, (5, 4), np.uint8)
FLOAT = Box(0, 255, (5, 4, 3), np.float32)
FOUR = Discrete(4)
CLOCKS: dict[str, tuple[gymnasium.Space[Any], gymnasium.Space[Any]]] = {
    "Clock-v0": (IMAGE, FOUR),
    "GreyClock-v0": (GREY, FOUR),
    "DictClock-v0": (Dict({"picture": IMAGE, "grey": GREY, "float": FLOAT}), FOUR),
    "TwoClock-v0": (Dict({"left": IMAGE, "right": IMAGE}), FOUR),
    "FloatClock-v0": (FLOAT, FOUR),
    "TurnedClock-v0": (Box(0, 255, (3, 8, 8), np.uint8), FOUR),
    "PushClock-v0": (IMAGE, Box(-1, 1, (2,), np.float32)),
    "LateClock-v0": (IMAGE, Discrete(4, start=1)),
}


def clock(**options: Any) -> Clock:
    return Clock(**options)


def lost_clock(**options: Any) -> Clock:
    raise gymnasium.error.DependencyNotInstalled("run `pip install clockwork`")


def next_step_clocks(**options: Any) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([lambda: Clock(IMAGE, FOUR)] * options["num_envs"])


# At import, as any package that brings environments does.
for name, (space, actions) in CLOCKS.items():
    options = {"space": space, "actions": actions}
    gymnasium.register(name, entry_point=clock, max_episode_steps=5, kwargs=options)
gymnasium.register("LostClock-v0", entry_point=lost_clock)
gymnasium.register("NextStepClock-v0", vector_entry_point=next_step_clocks)


def made(env: str, count: int = 3, **changes: Any) -> VectorEnv[Any, Any, Any]:
    arguments: dict[str, Any] = {"levels": "train", "procgen": EASY, "seed": 1} | changes
    return make_envs(env, count, **arguments)
