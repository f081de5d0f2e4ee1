"""One way to load a run: the very networks that it trained, and those that its seed drew."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.envs import GAMES, image_and_actions, make_envs, shown_by
from crosstraj.errors import BadInput
from crosstraj.learning.learner import Learner
from crosstraj.learning.load import load, read_config, read_weights, untrained
from crosstraj.randomness import Streams
from tests.conftest import Trained


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> bool:
    return found.keys() == expected.keys() and all(
        torch.equal(found[name], expected[name]) for name in expected
    )


def envs_of(config: Config, count: int = 1) -> Any:
    return make_envs(
        config.env,
        count,
        levels="train",
        procgen=config.procgen,
        ising=config.ising,
        seed=0,
        frame_stack=config.frame_stack,
    )


@pytest.mark.parametrize(
    ("method", "env", "encoder", "frame_stack"),
    [
        ("ctrl", "bigfish", "laptop", 2),
        ("daac", "coinrun", "laptop", 1),
        ("spr", "ising", "slim", 1),
    ],
)
def test_untrained_networks_are_those_that_a_learner_begins_with(method, env, encoder, frame_stack):
    config = replace(plain(method), env=env, encoder=encoder, frame_stack=frame_stack, seed=5)
    learner, found = Learner(config, envs_of(config), Streams(5)), untrained(config)
    assert same(found.agent.state_dict(), learner.agent.state_dict())
    assert same(found.objective.state_dict(), learner.objective.state_dict())
    assert (found.configuration, found.frames) == (config, 0)
    assert not same(untrained(replace(config, seed=6)).agent.state_dict(), found.agent.state_dict())


def test_what_an_environment_shows_is_known_without_its_engine(monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("the engine was started")

    ising = replace(plain("ctrl"), env="ising", frame_stack=2)
    games = [replace(plain("ctrl"), env=env, frame_stack=3) for env in GAMES[:2]]
    expected = {config.env: image_and_actions(envs_of(config, 2)) for config in (ising, *games)}
    monkeypatch.setattr("crosstraj.envs.make.ProcgenVectorEnv", refuse)
    for config in (ising, *games):
        shown = shown_by(config.env, ising=config.ising, frame_stack=config.frame_stack)
        assert shown == expected[config.env]


def test_a_loaded_run_has_the_weights_of_the_step_and_rests_in_evaluation_mode(trained: Trained):
    newest, early = load(trained.directory), load(trained.directory, 256)
    assert (newest.frames, early.frames) == (512, 256)
    for found in (newest, early):
        weights, _ = read_weights(trained.directory, found.frames)
        assert same(found.agent.state_dict(), weights["agent"])
        assert same(found.objective.state_dict(), weights.get("objective", {}))
        assert found.configuration == read_config(trained.directory)
        assert not found.agent.training
        assert not found.objective.training
    assert not same(newest.agent.state_dict(), early.agent.state_dict())


def test_a_run_is_loaded_onto_the_machine_that_is_asked_for(trained: Trained):
    machine = replace(read_config(trained.directory).machine, precision="bf16")
    assert load(trained.directory, machine=machine).agent.encoder.autocast
    assert not load(trained.directory).agent.encoder.autocast


def test_weights_of_other_networks_are_refused_by_the_name_of_the_run(trained: Trained, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained.directory, run)
    stored = json.loads((run / "config.json").read_text())
    stored["config"]["encoder"] = "impala" if stored["config"]["encoder"] == "slim" else "slim"
    (run / "config.json").write_text(json.dumps(stored))
    with pytest.raises(BadInput, match=rf"{run}: the weights do not fit the run's config\.json"):
        load(run)
    with pytest.raises(BadInput, match="is not a run directory"):
        load(Path(tmp_path / "nothing"))


def test_weights_that_a_dying_save_has_set_aside_are_read(trained: Trained, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained.directory, tmp_path / "run"))
    (run / "checkpoints/step-512").rename(run / "checkpoints/step-512.old")
    assert read_weights(run)[1] == 512


def test_a_run_kept_without_checkpoints_is_read_from_its_newest_snapshot(
    clustered: Path, tmp_path: Path
) -> None:
    run = tmp_path / "kept"
    shutil.copytree(clustered, run)
    whole, frames = read_weights(run)
    shutil.rmtree(run / "checkpoints")
    kept, at = read_weights(run)
    assert at == frames == 768
    assert kept.keys() == whole.keys()
    assert all(same(kept[part], whole[part]) for part in whole)
    for snapshot in (run / "snapshots").iterdir():
        if snapshot.name != "step-256":
            shutil.rmtree(snapshot)
    assert read_weights(run)[1] == 256


def test_a_run_whose_checkpoints_are_broken_is_not_read_from_an_older_snapshot(
    clustered: Path, tmp_path: Path
) -> None:
    run = tmp_path / "broken"
    shutil.copytree(clustered, run)
    for weights in run.glob("checkpoints/*/weights.safetensors"):
        weights.write_bytes(b"")
    with pytest.raises(BadInput, match="has no valid checkpoint"):
        read_weights(run)
