"""Which levels are for training, which for testing, and which to make choices by.

One rule for everything that has levels: Procgen's games, and Gymnasium ids by their reset seeds.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, assert_never

Split = Literal["train", "test", "validation"]
NextLevel = Callable[[], int]  # asked at the beginning of each episode for its level
VALIDATION_LEVELS = 2**20


class Levels(NamedTuple):
    """The levels [first, first + count); an environment draws from them uniformly."""

    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which no one calls on a pair

    @property
    def stop(self) -> int:
        return self.first + self.count


class LevelConfig(Protocol):
    """The values that say which levels are trained on."""

    @property
    def first_level(self) -> int: ...
    @property
    def train_levels(self) -> int: ...
    @property
    def level_limit(self) -> int:
        """Where the levels for training and testing end."""
        ...


def split_levels(config: LevelConfig, split: Split) -> Levels:
    """The training levels, every level above them, or those for validation.

    Those for validation begin where the others end, so no configuration can mix them up, and none
    of the others changes because of them: a level is drawn as first + random % count, and another
    count would draw other levels.
    """
    train = Levels(config.first_level, config.train_levels)
    match split:
        case "train":
            return train
        case "test":
            return Levels(train.stop, config.level_limit - train.stop)
        case "validation":
            return Levels(config.level_limit, VALIDATION_LEVELS)
        case other:
            assert_never(other)
