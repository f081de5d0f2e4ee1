"""Reset seeds as levels: any Gymnasium environment that obeys its seed has a level for each.

Which of them a run draws, and the refusal of environments whose seed decides nothing; `levels.py`
says which are for training, testing and validation, and `level_envs.py` plays them.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crosstraj.envs.frame_stack import AnyEnvs, Frames
from crosstraj.envs.levels import Levels, split_levels
from crosstraj.errors import BadInput

LIMIT = 2**30  # those for validation are below 2^31, too: some simulators keep a seed in int32
TRIED = 4  # seeds of each kind that are tried before an environment is believed to obey them


@dataclass(frozen=True)
class GymnasiumConfig:
    """Levels of a Gymnasium environment: its reset seeds."""

    level_limit: ClassVar[int] = LIMIT
    train_levels: int = 0
    """How many reset seeds to train on (levels); testing uses every seed above them. 0: no split,
    and training never repeats a level on purpose."""
    first_level: int = 0
    """The first training seed."""

    def __post_init__(self) -> None:
        if self.train_levels < 0 or self.first_level < 0:
            raise BadInput(
                f"gymnasium.train_levels={self.train_levels}, gymnasium.first_level="
                f"{self.first_level}: neither can be below 0; 0 levels mean no split"
            )
        if self.first_level + self.train_levels >= LIMIT:
            raise BadInput(
                f"gymnasium.first_level={self.first_level} + gymnasium.train_levels="
                f"{self.train_levels}: the sum must stay below {LIMIT}, or no seed is left for "
                "testing; lower one of them"
            )


def drawn_level(levels: Levels, seed: int, number: int) -> int:
    """The level of the stream's draw with this number; each is equally likely.

    It depends on nothing else, so a run that goes on draws what it would have drawn.
    """
    word = np.random.SeedSequence((seed, number)).generate_state(1, np.uint64)[0]
    return levels.first + int(word) % levels.count


def check_seeds(envs: AnyEnvs, name: str, config: GymnasiumConfig) -> None:
    """Refuses an environment, given alone, whose levels its reset seed does not decide."""
    train, test = split_levels(config, "train"), split_levels(config, "test")
    seeds = [level for part in (train, test) for level in range(part.first, part.stop)[:TRIED]]
    once = {seed: _first_frame(envs, seed) for seed in seeds}
    again = {seed: _first_frame(envs, seed) for seed in reversed(seeds)}
    why = f"{name} has no levels to split: "
    fix = "; leave out --levels (gymnasium.train_levels=0)"
    for seed in seeds:
        if once[seed] != again[seed]:
            raise BadInput(f"{why}two resets with seed {seed} begin with different frames{fix}")
    if len(set(once.values())) == 1:
        raise BadInput(f"{why}the seeds {seeds} all begin with the same frame{fix}")


def _first_frame(envs: AnyEnvs, seed: int) -> bytes:
    """What the seed begins with; the step after it shows whether anything is left of it later."""
    frames: Frames = envs.reset(seed=[seed])[0].copy()  # type: ignore[arg-type]  # one for each
    envs.step(np.zeros(1, np.int64))
    return frames.tobytes()
