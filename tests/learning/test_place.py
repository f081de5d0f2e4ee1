"""Opening a run: what of the machine has to be equal for it to go on."""

from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.config.groups import SavingConfig
from crosstraj.config.presets import preset
from crosstraj.config.values import Config
from crosstraj.envs import load_engine
from crosstraj.envs.load_engine import engine_name
from crosstraj.errors import BadInput
from crosstraj.learning import place
from crosstraj.learning.display import Plain
from crosstraj.learning.place import open_run


def ppo(runs: Path, env: str) -> Config:
    return replace(preset("ppo", "default"), env=env, saving=SavingConfig(runs=runs))


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
