"""Procgen (Cobbe et al., 2020) as a Gymnasium vector environment that can be saved exactly.

Three things differ from an ordinary Gymnasium environment, all of them forced by the engine:

- It begins the next level inside the step that ends an episode. The frame returned with
  `terminated` already shows the next level and the true last frame never leaves the engine, so
  `info` has no `final_obs`. `level_seed` is the level of the returned frame; `prev_level_seed` the
  level in which the action was played: at an episode's end, the one that has just finished.
- A time-out is an ordinary end of the episode: it is `terminated`; `truncated` is never set.
- It has no reset. `reset()` here puts the very first state back, so that every evaluation plays the
  same levels; another seed makes a new engine, which does not give all its memory back.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from crosstraj.envs import saved_games
from crosstraj.envs.chosen_levels import ChosenLevels
from crosstraj.envs.engine import Engine, Value, default_threads
from crosstraj.envs.levels import Levels, NextLevel, split_levels
from crosstraj.envs.saved_games import State
from crosstraj.errors import BadInput, unknown

Frames = npt.NDArray[np.uint8]  # [N, H, W, C]

GAMES = (
    *("bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot"),
    *("heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder", "starpilot"),
)

# The engine keeps level numbers, and the end of their range, in int32. That wraps around at the
# levels for validation, while its generators take the number as uint32: they are levels of their
# own. A count is always given: it reads 0 as "all levels", and then ignores the first.
LEVEL_LIMIT = 2**31 - 1
SEED_LIMIT = 2**31
ACTIONS = 15
IMAGE = (64, 64, 3)  # height, width, channels
Mode = Literal["easy", "hard", "memory"]
MODES: dict[Mode, int] = {"easy": 0, "hard": 1, "memory": 10}  # the engine's numbers for them
MEMORY_GAMES = ("caveflyer", "dodgeball", "heist", "jumper", "maze", "miner")


@dataclass(frozen=True)
class ProcgenConfig:
    """Which Procgen levels there are and how they look; the defaults are the benchmark's."""

    level_limit: ClassVar[int] = LEVEL_LIMIT
    mode: Mode = "easy"
    """Difficulty of the levels: easy for runs of about 25 M frames, hard for 200 M; memory, in six
    of the games, has larger worlds of which a frame shows a small part."""
    first_level: int = 0
    """Number of the first training level."""
    train_levels: int = 200
    """How many levels to train on (levels); testing uses every level above them."""
    center_agent: bool = True
    """Let the view follow the agent in the games whose level is larger than the screen."""
    use_backgrounds: bool = True
    """Draw the games' background pictures instead of black."""
    use_monochrome_assets: bool = False
    """Draw plain coloured rectangles instead of pictures."""
    restrict_themes: bool = False
    """Use one picture per kind of object instead of several."""
    use_generated_assets: bool = False
    """Draw pictures generated from random shapes; the engine cannot save its state with them."""
    paint_vel_info: bool = False
    """Paint the agent's velocity into the corner of the frame, in the games that have one."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise unknown("Procgen mode", self.mode, MODES)
        if self.first_level < 0:
            raise BadInput(
                f"first_level={self.first_level}: levels are numbered from 0; give 0 or more"
            )
        if self.train_levels < 1:
            raise BadInput(
                f"train_levels={self.train_levels}: at least 1 level is needed to train on; "
                "the benchmark uses 200"
            )
        if self.first_level + self.train_levels >= LEVEL_LIMIT:
            raise BadInput(
                f"first_level={self.first_level} + train_levels={self.train_levels}: the sum must "
                f"stay below {LEVEL_LIMIT}, or no level is left for testing; lower one of them"
            )


class ProcgenVectorEnv(VectorEnv[Frames, npt.NDArray[Any], npt.NDArray[Any]]):
    """`num_envs` copies of one game; frames are uint8 [N, 64, 64, 3].

    `copy=False` hands out the engine's own frame buffer, which the next step overwrites: right for
    a caller who copies the frames at once. All other arrays are fresh at every step.
    """

    def __init__(
        self,
        game: str,
        num_envs: int,
        levels: Levels,
        config: ProcgenConfig,
        seed: int,
        threads: int | None = None,
        copy: bool = True,
        next_level: NextLevel | None = None,
    ) -> None:
        """next_level: says which level each episode plays; otherwise the engine draws them."""
        threads = default_threads(num_envs) if threads is None else threads
        _check_arguments(game, num_envs, levels, threads)
        check_mode(game, config)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.num_envs = num_envs
        self.single_observation_space = Box(0, 255, IMAGE, np.uint8)
        self.single_action_space = Discrete(ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.savable = not config.use_generated_assets
        self._game, self._levels, self._config, self._copy = game, levels, config, copy
        self._threads = threads
        self._start(seed)
        self._chosen: ChosenLevels | None = None
        if next_level is not None:
            self._check_savable()
            self._chosen = ChosenLevels(next_level, game, levels, self._options(seed))

    def _start(self, seed: int) -> None:
        """Makes an engine, which cannot be given a seed later, and keeps its first state."""
        _check_seed(seed)
        super().reset(seed=seed)
        self._seed = seed
        self._engine = Engine(self.num_envs, self._options(seed))
        self._engine.observe()
        self._first_state = self.get_state() if self.savable else {}
        self._fresh = True

    def _options(self, seed: int) -> dict[str, Value]:
        return _options(self._game, self._levels, self._config, seed, self._threads)

    @property
    def observation(self) -> Frames:
        """The frames the next action will answer."""
        return self._engine.frames.copy() if self._copy else self._engine.frames

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frames, dict[str, Any]]:
        """Goes back to the first state of `seed`, or of the last seed given.

        Where levels are chosen, the first ones are the next that are chosen.
        """
        if options and "reset_mask" in options:
            raise BadInput("reset_mask: Procgen cannot reset some games only; reset all of them")
        if seed is not None and seed != self._seed:
            self._start(seed)
        elif not self._fresh:
            self._rewind()
        self._begin_chosen(range(self.num_envs))
        return self.observation, self._begin_info()

    def _begin_chosen(self, rows: Iterable[int]) -> None:
        """Where levels are chosen, not drawn: the next ones in these games."""
        if self._chosen is not None:
            self._fresh = False
            self._chosen.begin(self._engine, rows)

    def _rewind(self) -> None:
        if self.savable:
            self.set_state(self._first_state)
        else:
            self._start(self._seed)

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[Frames, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        actions = np.asarray(actions)
        # The engine takes -1 for "give up this level" and does not check the rest.
        if actions.shape != (self.num_envs,) or actions.min() < 0 or actions.max() >= ACTIONS:
            raise BadInput(
                f"actions={actions!r}: {self.num_envs} numbers from 0 to {ACTIONS - 1} are needed"
            )
        self._fresh = False
        self._engine.act(actions)
        self._engine.observe()
        reward, terminated = self._engine.reward.copy(), self._engine.first.copy()
        truncated = np.zeros(self.num_envs, np.bool_)
        before = self._before_info()
        self._begin_chosen(map(int, np.flatnonzero(terminated)))
        return self.observation, reward, terminated, truncated, self._begin_info() | before

    def _begin_info(self) -> dict[str, npt.NDArray[Any]]:
        # No prev_* here: before the first step the engine reports 0, which is a level's number too.
        return {"level_seed": _numbers(self._engine.info["level_seed"])}

    def _before_info(self) -> dict[str, npt.NDArray[Any]]:
        info = self._engine.info
        return {
            "prev_level_seed": _numbers(info["prev_level_seed"]),
            "prev_level_complete": info["prev_level_complete"].astype(np.bool_),
        }

    def get_state(self) -> dict[str, npt.NDArray[Any]]:
        """The games as arrays: about 20 to 50 kB each, plus the frame."""
        self._check_savable()
        return saved_games.join(self._engine.get_state(), self._engine.frames)

    def set_state(self, state: State) -> tuple[Frames, dict[str, Any]]:
        """Continues from a saved state, whatever was played here before; returns as reset()."""
        self._check_savable()
        settings = f"{self._levels}, {self._config}"
        games = saved_games.check(state, self._first_state, self._game, settings)
        self._fresh = False
        self._engine.set_state(games)
        # The engine draws the frame anew, equal on the platform that saved it; elsewhere the saved
        # one is what the agent saw.
        self._engine.frames[:] = state["frames"]
        return self.observation, self._begin_info()

    def _check_savable(self) -> None:
        if not self.savable:
            raise BadInput(
                "use_generated_assets=True: the engine cannot save generated pictures; "
                "use_generated_assets=False can be saved and resumed"
            )

    def close_extras(self, **kwargs: Any) -> None:
        self._engine.close()
        if self._chosen is not None:
            self._chosen.close()


def _numbers(level_seed: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The engine's level numbers as a fresh array; those for validation are above its int32."""
    return level_seed.view(np.uint32).astype(np.int64)


def _check_arguments(game: str, num_envs: int, levels: Levels, threads: int) -> None:
    """What the engine would answer by ending the process, or by playing other levels."""
    if game not in GAMES:
        raise unknown("game", game, GAMES)
    if num_envs < 1:
        raise BadInput(f"num_envs={num_envs}: at least 1 environment is needed")
    if threads < 0:
        raise BadInput(f"threads={threads}: give 0 (the caller's own thread) or more")
    inside = levels.first >= 0 and levels.count >= 1 and levels.stop <= LEVEL_LIMIT
    if not inside and levels != split_levels(ProcgenConfig(), "validation"):
        raise BadInput(
            f"{levels}: at least one level is needed, and all of them between 0 and "
            f"{LEVEL_LIMIT - 1}; give such a range"
        )


def check_mode(game: str, config: ProcgenConfig) -> None:
    """The engine would end the process."""
    if config.mode == "memory" and game not in MEMORY_GAMES:
        raise BadInput(
            f"procgen.mode=memory is not for {game}: only {', '.join(MEMORY_GAMES)} have it; "
            "choose one of them, or procgen.mode=easy"
        )


def _check_seed(seed: int) -> None:
    if not 0 <= seed < SEED_LIMIT:
        raise BadInput(f"seed={seed}: the engine takes a seed from 0 to {SEED_LIMIT - 1}")


def _options(
    game: str, levels: Levels, config: ProcgenConfig, seed: int, threads: int
) -> dict[str, Value]:
    """What the engine is told, by its own names; those of the look are ours as well."""
    look = asdict(config)
    for ours in ("mode", "first_level", "train_levels"):
        del look[ours]
    return {
        "env_name": game,
        "start_level": int(levels.first),
        "num_levels": int(levels.count),
        "distribution_mode": MODES[config.mode],
        "rand_seed": int(seed),
        "num_threads": int(threads),
        **look,
    }
