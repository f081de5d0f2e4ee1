"""Environments that show which seed they were given; importing them loads nothing heavy."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import SyncVectorEnv, VectorEnv

from crosstraj.envs import GymnasiumConfig, ProcgenConfig, make_envs

Array = npt.NDArray[Any]
FIVE = GymnasiumConfig(train_levels=5)


class Corridor(gymnasium.Env[Any, int]):
    """Shows its seed in four bytes, its time, and the sum of its actions; the seed is its length.

    Ends after 1 + seed % 4 steps, every third seed by truncation.
    """

    observation_space = Box(0, 255, (8, 8, 3), np.uint8)
    action_space = Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        assert seed is not None  # an episode is never begun by the environment's own choice
        self.seed, self.time, self.sum = seed, 0, 0
        return self.picture(), {"level_seed": -5}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.time += 1
        self.sum += int(action) + 1
        end, late = self.time > self.seed % 4, self.seed % 3 == 0
        return self.picture(), float(self.sum), end and not late, end and late, {"level_seed": -5}

    def picture(self) -> Array:
        frame = np.zeros((8, 8, 3), np.uint8)
        frame[0, :4, 0] = np.array([self.seed], "<u4").view(np.uint8)
        frame[1, :2, 0] = self.time, self.sum % 256
        return frame


class Deaf(Corridor):
    """Begins anywhere, whatever its seed."""

    count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, Any]:
        Deaf.count += 1
        return super().reset(seed=Deaf.count)


class Same(Corridor):
    """Begins in the same way with every seed."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, Any]:
        return super().reset(seed=3)


class Alike(Corridor):
    """Three seeds at a time begin alike: a coincidence, no reason to refuse it."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, Any]:
        assert seed is not None
        return super().reset(seed=seed // 3 * 3)


class Restless(Corridor):
    """Obeys its seed at the beginning, and later does as it likes."""

    count = 0

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        Restless.count += 1
        self.sum += Restless.count
        return super().step(action)


def corridors(num_envs: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([Corridor] * num_envs, autoreset_mode="SameStep")


for kind in (Corridor, Deaf, Same, Alike, Restless):
    gymnasium.register(f"{kind.__name__}-v0", entry_point=kind, disable_env_checker=True)
gymnasium.register("Corridors-v0", vector_entry_point=corridors)


@contextmanager
def made(env: str = "Corridor-v0", count: int = 3, **changes: Any) -> Iterator[Any]:
    values: dict[str, Any] = {"levels": "train", "gymnasium": FIVE, "seed": 1} | changes
    envs = make_envs(env, count, procgen=ProcgenConfig(), **values)
    try:
        yield envs
    finally:
        envs.close()


def shown_seed(frame: Array) -> int:
    return int(np.ascontiguousarray(frame[0, :4, -3]).view("<u4")[0])


def digest(envs: Any, steps: int, seed: int) -> list[tuple[bytes, list[int]]]:
    rng, rows = np.random.default_rng(seed), []
    for _ in range(steps):
        frames, *_, info = envs.step(rng.integers(0, 3, envs.num_envs))
        rows.append((frames.tobytes(), info["level_seed"].tolist()))
    return rows


def levels_played() -> list[list[int]]:
    with made(seed=6) as envs:
        envs.reset()
        return [row[1] for row in digest(envs, 30, seed=0)]
