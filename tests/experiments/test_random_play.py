"""Random play: measured on the levels asked for, kept by task, read back."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.cli.main import main
from crosstraj.config.dotted import changed
from crosstraj.config.groups import EvaluationConfig
from crosstraj.config.presets import preset
from crosstraj.config.values import Config
from crosstraj.envs import ProcgenConfig
from crosstraj.errors import BadInput
from crosstraj.experiments import random_play as chance
from crosstraj.experiments.expert_runs import random_play
from crosstraj.runs.shipped import file_of

BOSSFIGHT = Config(env="bossfight")


def test_random_play_is_measured_once_and_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chance, "EPISODES", 4)
    monkeypatch.setattr(chance, "ENVS", 2)
    assert math.isnan(chance.read(BOSSFIGHT, "validation", tmp_path))
    path = chance.measure(BOSSFIGHT, "validation", tmp_path)
    played = replace(BOSSFIGHT, evaluation=EvaluationConfig(episodes=4, envs=2))
    mean, stderr = random_play(played, "validation")
    assert chance.read(BOSSFIGHT, "validation", tmp_path) == mean
    stored = json.loads(path.read_text())
    assert (stored["game"], stored["levels"], stored["episodes"]) == ("bossfight", "validation", 4)
    assert stored["stderr"] == stderr
    assert random_play(played, "unseen") != (mean, stderr)
    path.write_text(json.dumps(stored | {"return": 7.0}))
    assert chance.measure(BOSSFIGHT, "validation", tmp_path) == path  # kept, not measured again
    assert chance.read(BOSSFIGHT, "validation", tmp_path) == 7.0
    path.write_text("{")
    with pytest.raises(BadInput, match="is damaged"):
        chance.read(BOSSFIGHT, "validation", tmp_path)


def test_the_command_measures_each_game_of_a_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []

    def played(config: Config, levels: str) -> tuple[float, None]:
        measured.append(f"{config.env} {levels} {config.seed} {config.evaluation.episodes}")
        return 1.5, None

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("crosstraj.experiments.expert_runs.random_play", played)
    Path("e.toml").write_text(
        "name = 'e'\ntitle = 't'\nreproduces = ''\nframes = 9\ngames = ['bigfish', 'coinrun']\n"
        "seeds = [4, 5]\nmethods = ['ppo', 'ctrl']\nlevels = 'validation'\n"
        "[base]\nevaluation.held_out = 'validation'\n"
    )
    for _ in range(2):
        assert main(["experiment", "e.toml", "--random"]) == 0
        out = capsys.readouterr().out
        assert out.count("bigfish, validation levels, 1.500\n") == 1
        assert out.count("\n") == 2
    assert measured == [f"{game} validation 0 512" for game in ("bigfish", "coinrun")]


def test_a_task_is_its_game_levels_and_looks_and_nothing_about_the_method() -> None:
    """Every method is above the same random play; in hard mode there is another."""
    same = [BOSSFIGHT, replace(BOSSFIGHT, seed=3, envs=64, frames=10, encoder="laptop")]
    other = [
        replace(BOSSFIGHT, env="coinrun"),
        replace(BOSSFIGHT, procgen=ProcgenConfig(mode="hard")),
    ]
    files = {file_of(config, "unseen") for config in same}
    assert len(files) == 1
    for config in other:
        files.add(file_of(config, "unseen"))
    files.add(file_of(BOSSFIGHT, "validation"))
    assert len(files) == 4


def test_the_levels_played_are_those_of_the_file_whoever_measures_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chance, "EPISODES", 4)
    monkeypatch.setattr(chance, "ENVS", 2)
    more = replace(BOSSFIGHT, procgen=ProcgenConfig(train_levels=500))
    pse = replace(preset("pse", "default"), env="bossfight", procgen=more.procgen)
    many = changed(pse, {"objective.levels": 300})  # which 200 levels would not do for
    texts = {
        chance.measure(config, "unseen", tmp_path / name).read_text()
        for name, config in (("a", BOSSFIGHT), ("b", more), ("c", many))
    }
    assert len(texts) == 1
