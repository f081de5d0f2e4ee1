"""Stored configurations: whole, there and back; an earlier format is read as what its runs did."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from crosstraj.config.dotted import identity_of
from crosstraj.config.methods import METHODS
from crosstraj.config.presets import plain, preset
from crosstraj.config.stored import (
    FORMAT,
    OPTIONAL,
    UNSAID,
    completed,
    from_dict,
    identity,
    stored_identity,
    telling,
    to_dict,
)
from crosstraj.data.level_replay import ReplayConfig
from crosstraj.envs import GymnasiumConfig
from crosstraj.errors import BadInput
from crosstraj.learning.load import read_config, read_values
from crosstraj.objectives.atc import ATCConfig
from crosstraj.report.labels import changed_values


def through_json(values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(values))
    return found


def as_format_1(values: dict[str, Any]) -> dict[str, Any]:
    """The same as a file of format 1 has it: without what is as it was before the value came."""
    plain = through_json(values)
    for name, before in UNSAID[1].items():
        part, _, inner = name.rpartition(".")
        holder = plain.get(part, {}) if part else plain
        if holder.get(inner) == before:
            del holder[inner]
    plain["machine"]["bfloat16"] = plain["machine"].pop("precision", "fp32") == "bf16"
    return {name: value for name, value in plain.items() if name != "gymnasium" or value}


@pytest.mark.parametrize("method", METHODS)
def test_every_value_is_stored_and_comes_back(method: str) -> None:
    for name in ("default", "paper", "source"):
        config = preset(method, name)
        values = to_dict(config)
        # It plays a game, has no memory, and starts from random weights.
        left_out = {"ising", "gymnasium", *(name for names in OPTIONAL.values() for name in names)}
        assert values.keys() == asdict(config).keys() - left_out
        for part in ("policy", "objective", "representation", "evaluation", "machine", "saving"):
            assert values[part].keys() == asdict(config)[part].keys()
        assert from_dict(through_json(values)) == config


@pytest.mark.parametrize("method", METHODS)
def test_a_file_of_format_1_is_read_as_what_its_run_did(method: str, tmp_path: Path) -> None:
    """Also where the default is another by now, as in five methods."""
    before = plain(method)
    changes = {
        name.partition(".")[2]: value
        for name, value in UNSAID[1].items()
        if name.startswith("objective.") and hasattr(before.objective, name.partition(".")[2])
    }
    differs = changes != {name: getattr(before.objective, name) for name in changes}
    assert differs == (method in ("atc", "ctrl", "diayn", "pse", "spr"))
    before = replace(before, objective=replace(before.objective, **changes))
    old = as_format_1(to_dict(before))
    assert "pooling" not in old
    stored = {"format": 1, "identity": "0" * 64, "config": old}
    (tmp_path / "config.json").write_text(json.dumps(stored))
    assert read_config(tmp_path) == before
    assert read_values(tmp_path) == through_json(to_dict(before))
    assert completed(to_dict(before), 1) == through_json(to_dict(before))  # nothing is overwritten
    if differs:
        with pytest.raises(BadInput, match=f"objective.{next(iter(changes))} is missing"):
            from_dict(old | {k: v for k, v in to_dict(before).items() if k != "objective"})


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("levels", [0, 20])
@pytest.mark.parametrize("env", ["A-v0", "ising"])
def test_other_environments_and_precisions_are_read_too(
    env: str, levels: int, precision: Literal["fp32", "bf16"]
) -> None:
    config = plain("ppo")
    machine = replace(config.machine, precision=precision)
    config = replace(config, env=env, machine=machine)
    if env != "ising":
        config = replace(config, gymnasium=GymnasiumConfig(train_levels=levels))
    values = to_dict(config)
    assert ("ising" in values, "gymnasium" in values) == (env == "ising", env != "ising")
    assert from_dict(completed(as_format_1(values), 1)) == config
    assert from_dict(through_json(values)) == config


def test_a_missing_or_unknown_value_is_named() -> None:
    values = through_json(to_dict(plain("proto")))
    for change, words in (
        ({"envs": None}, "envs is missing"),
        ({"policy": {**values["policy"], "clip": None}}, "policy.clip is missing"),
        ({"policy": {**values["policy"], "speed": 1}}, "policy.speed is not known to it"),
        ({"colour": "red"}, "colour is not known to it"),
        ({"phases": [{"share": 1.0}]}, "phases.encoder_grad is missing"),
    ):
        changed = {k: v for k, v in (values | change).items() if v is not None}
        for part in [v for v in changed.values() if isinstance(v, dict)]:
            for name in [k for k, v in part.items() if v is None]:
                del part[name]
        with pytest.raises(BadInput, match=f"does not fit this version: {words}"):
            from_dict(changed)


def test_a_format_that_is_not_known_is_left_as_it_is() -> None:
    values = through_json(to_dict(preset("ctrl", "paper")))
    del values["pooling"]
    for version in (FORMAT, FORMAT + 1, None, "1", [1]):
        assert completed(values, version) == values
    assert completed({"method": "mine"}, 1) == {"method": "mine"}


def test_every_value_that_tells_runs_apart_does_and_a_report_names_it() -> None:
    paper = preset("ctrl", "paper")
    assert changed_values(to_dict(paper)) == {}
    pooled = replace(paper, pooling="mean")
    assert changed_values(to_dict(pooled)) == {"pooling": "mean"}
    default = preset("ctrl", "default")
    fast = replace(default, policy=replace(default.policy, head_rate=4.0))
    assert changed_values(to_dict(fast)) == {"policy.head_rate": 4.0}
    names = {identity(config) for config in (paper, pooled, default, fast)}
    assert len(names) == 4
    coarse = replace(paper, machine=replace(paper.machine, precision="bf16"))
    assert identity(coarse) not in names  # other rounding, other run
    assert identity(replace(paper, frames=1, machine=replace(paper.machine, piece=1))) in names


def test_a_configuration_survives_json():
    for method in ("ppo", "ctrl"):
        for name in ("default", "paper", "literal", "procgen"):
            config = preset(method, name)
            assert from_dict(to_dict(config)) == config


def test_a_value_that_tells_no_runs_apart_may_be_missing_from_any_run():
    config = plain("ppo")
    values = through_json(to_dict(config))
    for name in UNSAID[FORMAT]:
        part, _, inner = name.partition(".")
        values.get(part, {}).pop(inner, None)  # PPO has no objective's, and chooses no levels
    for version in (1, FORMAT):
        assert from_dict(completed(values, version)) == config


def test_choosing_levels_is_another_run_and_not_doing_so_is_what_it_was():
    config = preset("ppo", "default")
    assert "replay" not in to_dict(config)
    chosen = replace(config, replay=ReplayConfig(levels=True, staleness=0.2))
    assert from_dict(through_json(to_dict(chosen))) == chosen
    assert identity(chosen) != identity(config)
    assert changed_values(to_dict(chosen)) == {"replay.levels": True, "replay.staleness": 0.2}


def test_a_run_that_chose_levels_before_there_was_a_bound_keeps_its_name_and_is_read() -> None:
    chosen = replace(preset("ppo", "default"), replay=ReplayConfig(levels=True))
    before = through_json(to_dict(chosen))
    del before["replay"]["least_seen"]
    assert from_dict(completed(before, FORMAT)) == chosen
    assert stored_identity(before, FORMAT) == identity(chosen)
    assert identity_of(telling(before), ()) == identity(chosen)
    bounded = replace(chosen, replay=ReplayConfig(levels=True, least_seen=1.0))
    assert identity(bounded) != identity(chosen)


def test_starting_from_other_weights_is_another_run_and_not_doing_so_is_what_it_was():
    config = plain("ppo")
    assert "start" not in to_dict(config)
    started = replace(config, start="ab" * 32)
    assert to_dict(started)["start"] == "ab" * 32
    assert from_dict(to_dict(started)) == started
    assert identity(started) != identity(config)


def test_a_target_kl_is_another_run_and_none_is_what_it_was():
    config = preset("ppo", "procgen")
    bounded = replace(config, policy=replace(config.policy, target_kl=0.02))
    assert identity(bounded) != identity(config)
    older = through_json(to_dict(config))
    del older["policy"]["target_kl"]
    assert identity_of(telling(older), ()) == identity(config)
    assert from_dict(completed(older, 2)) == config
    assert from_dict(through_json(to_dict(bounded))) == bounded


def test_an_atc_of_before_had_rectified_features_and_keeps_its_name():
    default = plain("atc")
    assert isinstance(default.objective, ATCConfig)
    before = replace(default, objective=replace(default.objective, rectified=True))
    older = through_json(to_dict(before))
    del older["objective"]["rectified"]
    for version in (1, 2):
        assert from_dict(completed(older, version)) == before
    assert identity_of(telling(older), ()) == identity(before) != identity(default)


def test_what_is_quiet_in_one_method_tells_runs_of_another_apart():
    """SPR had the value in every file of this format, so that either of its values has a name."""
    spr = through_json(to_dict(plain("spr")))
    for rectified in (False, True):
        values = spr | {"objective": spr["objective"] | {"rectified": rectified}}
        assert telling(values)["objective"]["rectified"] == rectified
