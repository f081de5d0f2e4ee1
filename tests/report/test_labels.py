"""Which runs are one variant, and what it is called."""

from dataclasses import replace
from typing import Any

import pytest

from crosstraj.config.presets import preset
from crosstraj.config.stored import to_dict
from crosstraj.report.labels import changed_values, label_of, variant_of

PPO = preset("ppo", "default")


def test_runs_of_one_variant_differ_in_game_seed_and_machine_alone() -> None:
    one = variant_of(to_dict(PPO))
    same = replace(PPO, env="maze", seed=3, machine=replace(PPO.machine, threads=7))
    assert variant_of(to_dict(same)) == one
    for other in (preset("ctrl", "default"), replace(PPO, envs=32)):
        assert variant_of(to_dict(other)) != one
    clipped = replace(PPO, policy=replace(PPO.policy, clip=0.3))
    assert variant_of(to_dict(clipped)) != one
    assert variant_of(to_dict(clipped), "policy.clip") == variant_of(to_dict(PPO), "policy.clip")


@pytest.mark.parametrize(
    ("changed", "label"),
    [
        ({}, "ctrl paper"),
        ({"objective.clusters": 50}, "ctrl paper, clusters=50"),
        ({"a": 1, "b": 2, "c": 3}, "ctrl paper, a=1, b=2, c=3"),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, "ctrl paper, a=1, b=2 and 2 more"),
        (None, "ctrl paper #012345"),
    ],
)
def test_a_label_names_what_was_changed_from_the_preset(
    changed: dict[str, Any] | None, label: str
) -> None:
    config = to_dict(preset("ctrl", "paper"))
    assert label_of(config, changed, "0123456789") == label


def test_only_values_that_are_not_the_presets_count_as_changed() -> None:
    config = to_dict(replace(preset("ctrl", "paper"), env="maze", envs=8))
    assert changed_values(config) == {"envs": 8}
    assert changed_values(config | {"preset": "of another version"}) is None
