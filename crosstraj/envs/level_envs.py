"""Gymnasium environments that begin each episode at a level (`reset_seeds.py`) which is drawn here.

An environment never chooses by its own generator. And since a seed and the actions after it decide
all that follows, such environments can be saved without their help: by the seed and the actions of
the present episode, which are played again.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorWrapper

from crosstraj.envs.frame_stack import AnyEnvs, Frames
from crosstraj.envs.levels import Levels, NextLevel
from crosstraj.envs.reset_seeds import drawn_level
from crosstraj.errors import BadInput

State = Mapping[str, npt.NDArray[Any]]


class LevelEnvs(VectorWrapper[Frames, Any, Frames, Any, Any]):
    """Environments that begin the next level of a stream in the step that ends an episode.

    `env` must leave beginnings to its caller (AutoresetMode.DISABLED). `info` is that of Procgen:
    `level_seed` of the returned frame, `prev_level_seed` of the action, and `final_obs`. Where an
    episode ends, what else the environments say of this step is in `final_info`.
    """

    def __init__(
        self, env: AnyEnvs, levels: Levels, seed: int, next_level: NextLevel | None = None
    ) -> None:
        """next_level: says which level each episode plays, instead of the stream of `seed`."""
        super().__init__(env)
        self._chosen = next_level
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._levels, self._seed, self._drawn = levels, seed, 0
        self._level = np.full(self.num_envs, levels.first, np.int64)
        self._actions: list[list[int]] = [[] for _ in range(self.num_envs)]  # of present episodes
        self._frames: Frames = np.zeros(env.observation_space.shape or (), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frames, dict[str, Any]]:
        """The stream of `seed`, or of the last seed given, from its first draw on."""
        if options and "reset_mask" in options:
            raise BadInput("reset_mask: levels begin together; reset all environments")
        self._seed = self._seed if seed is None else seed
        if self._seed < 0:
            raise BadInput(f"seed={self._seed}: seeds are counted from 0")
        self._drawn = 0
        return self._new_episodes()

    def _new_episodes(self) -> tuple[Frames, dict[str, Any]]:
        """The next levels of the stream, in every environment."""
        self._level = np.array([self._next_level() for _ in range(self.num_envs)], np.int64)
        self._actions = [[] for _ in range(self.num_envs)]
        self._frames = self._begin(np.ones(self.num_envs, np.bool_))
        return self._frames, self._info()

    def _next_level(self) -> int:
        if self._chosen is not None:
            return self._chosen()
        self._drawn += 1
        return drawn_level(self._levels, self._seed, self._drawn - 1)

    def _begin(self, rows: npt.NDArray[np.bool_]) -> Frames:
        """The first frames of the present levels there, and the present frames elsewhere."""
        frames: Frames
        seeds: Any = self._level.tolist()
        frames, _ = self.env.reset(seed=seeds, options={"reset_mask": rows})
        return frames

    def _info(self) -> dict[str, Any]:
        return {"level_seed": self._level.copy()}

    def step(self, actions: Any) -> tuple[Frames, Any, Any, Any, dict[str, Any]]:
        before = self._level.copy()
        frames, reward, terminated, truncated, info = self.env.step(actions)
        for past, action in zip(self._actions, np.asarray(actions).tolist(), strict=True):
            past.append(action)
        done = terminated | truncated
        if done.any():
            info = {"final_obs": _finals(frames, done), "final_info": info}
            for row in np.flatnonzero(done):
                self._level[row] = self._next_level()
                self._actions[row] = []
            frames = self._begin(done)
        self._frames = frames
        return (
            frames,
            reward,
            terminated,
            truncated,
            info | self._info() | {"prev_level_seed": before},
        )

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        """The stream, and the levels and actions of the present episodes."""
        return {
            "stream": np.array([self._seed, self._drawn], np.int64),
            "levels": self._level.copy(),
            "lengths": np.array([len(past) for past in self._actions], np.int64),
            "actions": np.array([action for past in self._actions for action in past], np.int64),
            "frames": self._frames.copy(),
        }

    def set_state(self, state: State) -> tuple[Frames, dict[str, Any]]:
        """Plays the saved episodes again up to where they were; returns as reset().

        Where that leads elsewhere, the environment follows more than its seed. Then the next levels
        of the stream begin, and `info` has `new_episodes`.
        """
        self._check(state)
        self._seed, self._drawn = map(int, state["stream"])
        self._level = state["levels"].copy()
        ends = np.cumsum(state["lengths"])[:-1]
        self._actions = [part.tolist() for part in np.split(state["actions"], ends)]
        self._frames, straight = self._play_again()
        if straight and (self._frames == state["frames"]).all():
            return self._frames, self._info()
        frames, info = self._new_episodes()
        return frames, info | {"new_episodes": True}

    def _play_again(self) -> tuple[Frames, bool]:
        """Brings all environments to their last frame at once, the longest episode first.

        Those whose turn has not come play anything. False: an episode ended before its time.
        """
        longest = max(map(len, self._actions))
        begins = np.array([longest - len(past) for past in self._actions])
        frames = self._begin(np.ones(self.num_envs, np.bool_))
        ended = np.zeros(self.num_envs, np.bool_)
        for time in range(longest):
            due = (begins == time) | ended
            if due.any():
                frames = self._begin(due)
            actions = [
                past[time - begin] if time >= begin else 0
                for past, begin in zip(self._actions, begins, strict=True)
            ]
            frames, _, terminated, truncated, _ = self.env.step(np.array(actions, np.int64))
            ended = terminated | truncated
            if (ended & (begins <= time)).any():
                break
        else:
            if (waiting := begins == longest).any():
                frames = self._begin(waiting)
            return frames, True
        return frames, False

    def _check(self, state: State) -> None:
        mine = self.get_state()
        alike = mine.keys() <= state.keys() and all(
            state[key].dtype == mine[key].dtype for key in mine
        )
        alike = alike and all(
            state[key].shape == mine[key].shape for key in mine if key != "actions"
        )
        if not alike or not self._possible(state):
            raise BadInput(
                f"a saved state with {sorted(state)} does not fit {self.num_envs} environments "
                f"with {self._levels}, or is damaged; restore it into environments made alike"
            )

    def _possible(self, state: State) -> bool:
        levels, lengths, actions = state["levels"], state["lengths"], state["actions"]
        known = (levels >= self._levels.first) & (levels < self._levels.stop)
        whole = (lengths >= 0).all() and actions.shape == (int(lengths.sum()),)
        space = self.single_action_space
        assert isinstance(space, Discrete)  # check_envs has seen to it
        inside = ((actions >= 0) & (actions < space.n)).all()
        return bool(known.all() and whole and inside and (state["stream"] >= 0).all())


def _finals(frames: Frames, done: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Gymnasium's form: an object array with an image where an episode ended and None elsewhere."""
    finals = np.full(len(frames), None, dtype=object)
    for row in np.flatnonzero(done):
        finals[row] = frames[row].copy()
    return finals
