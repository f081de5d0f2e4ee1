"""The command line: refusals are one sentence and exit code 2, and leave everything as it was."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.main import COMMANDS, main
from crosstraj.config.groups import MachineConfig, SavingConfig
from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.presets import preset
from crosstraj.config.stored import identity
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.learning.display import Plain
from crosstraj.learning.load import read_config
from crosstraj.learning.place import open_run
from crosstraj.runs.directory import run_directory
from tests.cli.answers import Capture, answer, refusal, tree
from tests.conftest import Trained

# --- Bad input


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--env bigfis", "unknown game 'bigfis': did you mean 'bigfish'?"),
        ("--method ctr", "unknown method 'ctr': did you mean 'ctrl'?"),
        ("--method=ctr", "unknown method 'ctr': did you mean 'ctrl'?"),
        ("--preset papre", "unknown preset 'papre': did you mean 'paper'?"),
        ("--preset paper --objective.keypoints 257", "objective.keypoints=257"),
        ("--objective.keypoints 129", "objective.keypoints=129"),  # two sets in 256 steps
        ("--objective.keypoints 0", "objective.keypoints=0"),
        ("--objective.clusters 1", "objective.clusters=1"),
        ("--envs 0", "envs=0"),
        ("--envs -1", "envs=-1"),
        ("--rollout-steps 0", "rollout_steps=0"),
        ("--frames 0", "frames=0"),
        ("--seed -1", "seed=-1"),
        ("--frame-stack 0", "frame_stack=0"),
        ("--policy.minibatches 0", "policy.minibatches=0"),
        ("--representation.epochs 0", "representation.epochs=0"),
        ("--evaluation.episodes 3 --evaluation.envs 2", "evaluation.episodes=3"),
        ("--procgen.train-levels 0", "train_levels=0"),
        ("--machine.piece 0", "machine.piece=0"),
        ("--machine.threads -1", "machine.threads=-1"),
        ("--machine.device gpu", "machine.device=gpu: must be cpu, cuda or cuda:NUMBER"),
        ("--machine.device cuda:99", "machine.device=cuda:99: torch finds no such device"),
        ("--saving.checkpoint-seconds nan", "saving.checkpoint_seconds=nan"),
        ("--saving.snapshots -1", "saving.snapshots=-1"),
        ("--env ./pixels:Door-v0", "./pixels:Door-v0: './pixels' cannot be imported"),
        ("--allow-inexact --envs 0", "envs=0"),  # what refusals ask for is understood
        ("--allow-inexact True --envs 0", "envs=0"),
    ],
)
def test_a_bad_value_is_named_in_one_sentence_and_nothing_is_made(
    arguments: str, sentence: str, tmp_path: Path, capfd: Capture
) -> None:
    said = refusal(capfd, "train", *arguments.split(), "--saving.runs", str(tmp_path / "runs"))
    assert sentence in said
    assert list(tmp_path.iterdir()) == []


def test_of_a_flag_given_twice_the_last_decides_the_defaults_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[Config] = []

    def stop_there(config: Config, *_: Any, **__: Any) -> Any:
        opened.append(config)
        raise BadInput("enough")

    monkeypatch.setattr("crosstraj.learning.place.open_run", stop_there)
    words = ("--method", "ppo", "--preset", "paper", "--method=ctrl", "--preset", "default")
    assert main(["train", *words]) == 2
    assert opened == [preset("ctrl", "default")]


def test_an_unknown_command_is_refused_with_the_nearest(capfd: Capture) -> None:
    assert "unknown command 'trian': did you mean 'train'?" in refusal(capfd, "trian")


def test_nothing_is_suggested_for_a_command_that_none_is_like(capfd: Capture) -> None:
    said = refusal(capfd, "resume")
    assert "unknown command 'resume': There are: analyse," in said
    assert "did you mean" not in said


def test_an_unknown_gymnasium_id_is_refused(tmp_path: Path, capfd: Capture) -> None:
    arguments = ("train", "--env", "CartPoll-v1", "--saving.runs", str(tmp_path))
    assert "'CartPoll-v1'" in refusal(capfd, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_environment_without_images_is_refused_before_anything_is_written(
    tmp_path: Path, capfd: Capture
) -> None:
    arguments = ("train", "--env", "CartPole-v1", "--saving.runs", str(tmp_path))
    assert "uint8 images" in refusal(capfd, *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("train --envs many", "--envs many: must be a whole number, such as 250000, 250k or 1e6"),
        ("train --nonsense 1", "unknown flag --nonsense; `crosstraj train --help-all` lists"),
        ("train --frame 9", "unknown flag --frame: did you mean --frames?"),
        ("train bigfish", "'bigfish' belongs to no flag"),
        ("train --seed", "--seed has no value; write --seed N"),
        ("evaluate", "RUN is missing: A run directory, or an agent that comes with crosstraj"),
        ("probe runs", "--expert is missing: The run whose play is the standard"),
        ("experiment", "FILE is missing: A TOML file"),
        ("experiment a.toml --jobs two", "--jobs=two: must be auto, or a number of at least 1"),
        ("experiment a.toml --quick --scale .5", "give either --quick or --scale"),
        ("doctor --seconds soon", "--seconds soon: must be a number"),
        ("theory nonsense", "nonsense: must be one of statements, situations"),
        ("methods --all", "unknown flag --all"),
    ],
)
def test_a_wrong_word_of_any_command_is_refused_in_one_sentence(
    words: str, sentence: str, capfd: Capture
) -> None:
    assert sentence in refusal(capfd, *words.split())


def test_a_refusal_of_a_real_process_is_one_line_and_exit_code_2() -> None:
    command = [sys.executable, "-m", "crosstraj", "train", "--objective.clusters", "1"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr == "crosstraj: objective.clusters=1: must be at least 2\n"


@pytest.mark.parametrize("below", [".", "deeper/still"])
def test_an_output_directory_that_is_a_file_or_below_one_is_refused(
    below: str, tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "file").write_text("precious")
    place = tmp_path / "file" / below
    said = refusal(capfd, "train", "--saving.runs", str(place))
    assert str(place) in said
    assert "cannot be used" in said
    assert tree(tmp_path) == {"file": b"precious"}


def test_a_run_directory_that_is_a_file_is_refused(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / trained.directory.name).write_text("precious")
    said = refusal(capfd, *trained.command, "--saving.runs", str(tmp_path))
    assert str(tmp_path / trained.directory.name) in said
    assert tree(tmp_path) == {trained.directory.name: b"precious"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_output_directory_that_cannot_be_written_is_refused(
    tmp_path: Path, capfd: Capture
) -> None:
    tmp_path.chmod(0o500)
    assert "Permission denied" in refusal(capfd, "train", "--saving.runs", str(tmp_path))


def test_a_place_where_nothing_can_be_made_is_refused(capfd: Capture) -> None:
    assert "/proc/runs" in refusal(capfd, "train", "--saving.runs", "/proc/runs")


def test_a_directory_of_another_configuration_is_refused_and_left_alone(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    run = tmp_path / trained.directory.name
    shutil.copytree(trained.directory, run)
    stored = json.loads((run / "config.json").read_text())
    stored["config"]["policy"]["learning_rate"] = 0.125
    (run / "config.json").write_text(json.dumps(stored | {"identity": "0" * 64}))
    before = tree(tmp_path)
    said = refusal(capfd, *trained.command, "--frames", "9999", "--saving.runs", str(tmp_path))
    assert "holds another configuration" in said
    assert "policy.learning_rate is 0.125 there, 0.0005 here" in said
    assert tree(tmp_path) == before


def test_a_checkpoint_of_another_configuration_is_refused_and_left_alone(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    config = replace(read_config(trained.directory), seed=6)
    run = run_directory(tmp_path, config.method, config.env, config.seed, identity(config))
    shutil.copytree(trained.directory / "checkpoints", run / "checkpoints")
    before = tree(run / "checkpoints")
    said = refusal(capfd, *trained.command, "--seed", "6", "--saving.runs", str(tmp_path))
    assert f"{run}/checkpoints/step-512 is of another configuration" in said
    assert tree(run / "checkpoints") == before


def test_a_run_that_another_owner_holds_is_refused_with_75(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    config = replace(read_config(trained.directory), saving=SavingConfig(runs=tmp_path))
    with open_run(config, Plain(0)) as run:
        before = tree(tmp_path)
        code, _, error = answer(capfd, *trained.command, "--saving.runs", str(tmp_path))
        assert code == 75
        assert f"process {os.getpid()} is writing {run.directory}" in error
        assert tree(tmp_path) == before


# --- help and methods


LIGHT = """
import sys
from crosstraj.cli.main import main
for words in (["--help"], [], ["methods"], ["--version"]):
    assert main(words) == 0
assert main(["nonsense"]) == 2
heavy = {"torch", "numpy", "gymnasium", "procgen", "rich", "matplotlib"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""


def test_help_and_methods_import_nothing_heavy() -> None:
    process = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_help_names_every_command(capfd: Capture) -> None:
    code, out, _ = answer(capfd, "--help")
    assert code == 0
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\w", out, re.MULTILINE)
    assert answer(capfd)[1] == out  # no command: the same


def test_methods_lists_every_method_and_preset_with_its_source(capfd: Capture) -> None:
    code, out, _ = answer(capfd, "methods")
    assert code == 0
    for name, entry in (METHODS | PRESETS).items():
        assert re.search(rf"^  {name} +{re.escape(entry.summary)}$", out, re.MULTILINE)
        assert f"[{entry.source}]" in out


def test_threads_of_a_run_are_those_it_was_told(trained: Trained) -> None:
    config = read_config(trained.directory)
    assert config.threads == 1
    every = replace(config, machine=MachineConfig())
    assert every.threads == len(os.sched_getaffinity(0))
