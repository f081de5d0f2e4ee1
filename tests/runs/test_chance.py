"""Random play is known by its game, its levels and the looks of both."""

from dataclasses import replace

from crosstraj.config.values import Config
from crosstraj.envs import GymnasiumConfig, ProcgenConfig
from crosstraj.runs.shipped import file_of, random_return

BOSSFIGHT = Config(env="bossfight")


def test_what_is_trained_on_changes_random_play_on_these_levels_alone() -> None:
    """Of two thousand million others a few hundred more or less are nothing; a half of them is."""
    few = replace(BOSSFIGHT, procgen=ProcgenConfig(first_level=40, train_levels=500))
    half = replace(BOSSFIGHT, procgen=ProcgenConfig(train_levels=2**30))
    one = Config(env="CartPole-v1", gymnasium=GymnasiumConfig(train_levels=10))
    several = replace(one, gymnasium=GymnasiumConfig(train_levels=200))
    for levels in ("unseen", "validation"):
        assert file_of(few, levels) == file_of(BOSSFIGHT, levels)
        assert file_of(half, levels) != file_of(BOSSFIGHT, levels)
        assert file_of(one, levels) == file_of(several, levels)
        assert random_return(few, levels).measured  # of the usual 200, by results/random
    assert file_of(few, "seen") != file_of(BOSSFIGHT, "seen")
    assert file_of(one, "seen") != file_of(several, "seen")
    without_split = replace(one, gymnasium=GymnasiumConfig())
    assert file_of(without_split, "unseen") != file_of(one, "unseen")
