"""The split of levels: three kinds that follow each other and never meet."""

import pytest

from crosstraj.envs import GymnasiumConfig, ProcgenConfig
from crosstraj.envs.levels import LevelConfig, Levels, split_levels


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (ProcgenConfig(train_levels=200, first_level=10), 2**31 - 1),
        (GymnasiumConfig(train_levels=200, first_level=10), 2**30),
    ],
)
def test_the_three_kinds_follow_each_other_and_never_meet(config: LevelConfig, limit: int) -> None:
    assert split_levels(config, "train") == Levels(10, 200)
    assert split_levels(config, "test") == Levels(210, limit - 210)
    assert split_levels(config, "validation") == Levels(limit, 2**20)


def test_reset_seeds_are_all_below_int32() -> None:
    assert split_levels(GymnasiumConfig(), "validation").stop < 2**31
