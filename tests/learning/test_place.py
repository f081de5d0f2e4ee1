"""Opening a run: what of the machine has to be equal for it to go on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.config.groups import SavingConfig
from crosstraj.config.presets import plain
from crosstraj.config.stored import UNSAID, to_dict
from crosstraj.config.values import Config
from crosstraj.envs import load_engine
from crosstraj.envs.load_engine import engine_name
from crosstraj.errors import BadInput
from crosstraj.learning import place
from crosstraj.learning.display import Plain
from crosstraj.learning.place import open_run
from crosstraj.runs import checkpoint


def ppo(runs: Path, env: str) -> Config:
    return replace(plain("ppo"), env=env, saving=SavingConfig(runs=runs))


def test_a_run_of_one_build_of_the_engine_goes_on_with_another_only_if_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config, display, here = ppo(tmp_path, "coinrun"), Plain(1), engine_name()
    with open_run(config, display) as run:
        assert run.facts["engine"] == here
        run.save({"weights": {}}, 1)
    with open_run(config, display) as run:
        assert run.restore() == {"weights": {}}
    monkeypatch.setattr(place, "engine_name", lambda: "procgen-other 1.0")
    different = f"engine is '{here}' there, 'procgen-other 1.0' here"
    with open_run(config, display) as run, pytest.raises(BadInput, match=different):
        run.restore()
    assert capfd.readouterr().err == ""
    with open_run(config, display, allow_inexact=True) as run:
        assert run.restore() == {"weights": {}}
    assert different in capfd.readouterr().err


def test_a_run_without_the_engine_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_engine, "PACKAGES", {})
    with open_run(ppo(tmp_path, "ising"), Plain(1)) as run:
        assert "engine" not in run.facts
    with pytest.raises(BadInput, match="engine is not installed"):
        open_run(ppo(tmp_path, "coinrun"), Plain(1))
    assert len([*tmp_path.iterdir()]) == 1  # refused before anything was made


def begun_before(config: Config, identity: str) -> Path:
    """A run of these values as the first format has it, under a name of its own."""
    values = to_dict(config)
    for name in UNSAID[1] | UNSAID[2]:
        part, _, inner = name.rpartition(".")
        (values.get(part, {}) if part else values).pop(inner, None)
    values["machine"]["bfloat16"] = False
    place = config.saving.runs / f"ppo-coinrun-s0-{identity[:8]}"
    place.mkdir()
    stored = {"format": 1, "identity": identity, "config": values}
    (place / "config.json").write_text(json.dumps(stored))
    checkpoint.write(place / "checkpoints", 1, {"weights": {}, "logs": {}}, {"identity": identity})
    return place


def test_a_run_that_an_earlier_version_began_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = ppo(tmp_path, "coinrun")
    begun = begun_before(config, "5" * 64)
    (tmp_path / "ppo-coinrun-s0-damaged0").mkdir()
    (tmp_path / "ppo-coinrun-s0-damaged0" / "config.json").write_text("{")
    (tmp_path / "ppo-coinrun-s0-damaged1").mkdir()
    odd = {"format": 2, "config": {"frames": 1, "machine": 3, "objective": "x"}}
    (tmp_path / "ppo-coinrun-s0-damaged1" / "config.json").write_text(json.dumps(odd))
    longer = replace(config, frames=2 * config.frames)
    for wanted in (config, longer, longer):
        with open_run(wanted, Plain(1)) as run:
            assert run.directory == begun
            assert run.restore() == {"weights": {}}
            run.save({"weights": {}}, 1)
    assert json.loads((begun / "config.json").read_text())["config"]["frames"] == longer.frames
    assert "does not say with which" in capfd.readouterr().err  # engine, kernels ...
    other = replace(config, policy=replace(config.policy, clip=0.1))
    with open_run(other, Plain(1)) as run:
        assert run.directory != begun
        assert run.restore() is None
