"""The composite Ising matching task (Mazoure et al., ICLR 2022, appendix: behavioural similarity).

Five lattices evolve side by side, each at its own temperature. At every step the agent chooses one,
sees it, and is paid by how well it matches a goal: the last state of a sixth lattice at an unknown
temperature. All lattices move at every step, whichever is chosen.

The seed of an environment moves its lattices. The goal belongs to an *instance* instead, so that
environments played side by side share one, and one can train and evaluate on the same.
"""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from crosstraj.envs.ising.matching import Frames, Games, IsingConfig, State
from crosstraj.envs.levels import Split
from crosstraj.errors import BadInput


class IsingEnv(gymnasium.Env[Frames, np.int64]):
    """One game; frames are uint8 [side, side, 1], 255 for a spin that is up."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # Gymnasium's own form

    def __init__(
        self,
        config: IsingConfig = IsingConfig(),  # noqa: B008  # frozen
        split: Split = "train",
        goal: npt.ArrayLike | None = None,
    ) -> None:
        self.games = Games(config, 1, split, goal)
        self.observation_space, self.action_space = self.games.frame_space, self.games.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frames, dict[str, Any]]:
        super().reset(seed=seed)
        self.games.begin(np.array([0]), [self.np_random])
        return self.games.frames()[0], self._info()

    def step(self, action: np.int64) -> tuple[Frames, float, bool, bool, dict[str, Any]]:
        frames, reward, late = self.games.step(np.asarray(action)[None], [self.np_random])
        return frames[0], float(reward[0]), False, bool(late[0]), self._info()

    def _info(self) -> dict[str, Any]:
        return {name: int(value[0]) for name, value in self.games.info().items()}

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        return self.games.get_state([self.np_random])

    def set_state(self, state: State) -> tuple[Frames, dict[str, Any]]:
        """Continues from a saved state, whatever was played here before; returns as reset()."""
        self.games.set_state(state, [self.np_random])
        return self.games.frames()[0], self._info()


class IsingVectorEnv(VectorEnv[Frames, npt.NDArray[Any], npt.NDArray[Any]]):
    """`num_envs` games at once: game n plays exactly as an IsingEnv with seed + n."""

    def __init__(
        self,
        num_envs: int = 1,
        config: IsingConfig = IsingConfig(),  # noqa: B008  # frozen
        split: Split = "train",
        goal: npt.ArrayLike | None = None,
    ) -> None:
        self.games = Games(config, num_envs, split, goal)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.num_envs = num_envs
        self.single_observation_space = self.games.frame_space
        self.single_action_space = self.games.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rngs = [seeding.np_random(None)[0] for _ in range(num_envs)]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frames, dict[str, Any]]:
        """Begins an episode in each game; without a seed the random numbers go on."""
        if options and "reset_mask" in options:
            raise BadInput("reset_mask: the games begin together; reset all of them")
        super().reset(seed=seed)
        if seed is not None:
            self._rngs = [seeding.np_random(seed + n)[0] for n in range(self.num_envs)]
        self.games.begin(np.arange(self.num_envs), self._rngs)
        return self.games.frames(), self.games.info()

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[Frames, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        frames, reward, late = self.games.step(np.asarray(actions), self._rngs)
        info: dict[str, Any] = {}
        if (rows := np.flatnonzero(late)).size:
            info["final_obs"] = np.full(self.num_envs, None, dtype=object)
            for row in rows:
                info["final_obs"][row] = frames[row]
            self.games.begin(rows, [self._rngs[row] for row in rows])
            frames = self.games.frames()
        return frames, reward, np.zeros_like(late), late, info | self.games.info()

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        """The lattices, what is seen of them, and every game's generator."""
        return self.games.get_state(self._rngs)

    def set_state(self, state: State) -> tuple[Frames, dict[str, Any]]:
        """Continues from a saved state, whatever was played here before; returns as reset()."""
        self.games.set_state(state, self._rngs)
        return self.games.frames(), self.games.info()


gymnasium.register(
    "crosstraj/Ising-v0",
    entry_point="crosstraj.envs.ising.task:IsingEnv",
    vector_entry_point="crosstraj.envs.ising.task:IsingVectorEnv",
)
