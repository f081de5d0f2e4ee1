"""The rows of `make bench-full`."""

import pytest

pytest.importorskip("stable_baselines3")  # the extra `bench`

from benchmarks.full import methods
from crosstraj.config.methods import METHODS
from crosstraj.policies.ppg import PPGConfig


def test_every_method_is_timed_beside_ppo_and_so_is_what_changes_ppo() -> None:
    rows = methods()
    assert next(iter(rows)) == "ppo"
    assert {config.method for config in rows.values()} == METHODS.keys()
    assert [name for name, config in rows.items() if config.replay.levels] == [
        "ppo, levels replayed (PLR)"
    ]
    assert [name for name, config in rows.items() if config.pooling == "mean"] == [
        "ppo, mean of the map (Impoola)"
    ]
    assert [name for name, config in rows.items() if config.memory == "gru"] == ["ppo, GRU"]


def test_each_turn_that_is_timed_has_an_auxiliary_phase() -> None:
    policy = methods()["ppg"].policy
    assert isinstance(policy, PPGConfig)
    assert policy.auxiliary_every == 1
