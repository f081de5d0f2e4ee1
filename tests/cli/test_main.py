"""The command line: refusals are one sentence and exit code 2, and leave everything as it was."""

import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crosstraj.cli import doctor
from crosstraj.cli.main import COMMANDS, main
from crosstraj.config.dotted import identity_of
from crosstraj.config.groups import MachineConfig, SavingConfig
from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.presets import preset
from crosstraj.config.stored import NOT_IDENTITY, to_dict
from crosstraj.config.values import Config
from crosstraj.errors import BadInput, check_range
from crosstraj.learning.display import Plain, Terminal, clock, spared
from crosstraj.learning.load import read_config, read_weights
from crosstraj.learning.place import open_run
from crosstraj.report.curves import curves_figure
from crosstraj.runs.directory import run_directory
from tests.conftest import Trained

Capture = pytest.CaptureFixture[str]


def answer(capfd: Capture, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    capfd.readouterr()
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    said = capfd.readouterr()
    return code, said.out, said.err


def refusal(capfd: Capture, *arguments: str) -> str:
    """What a refused command says: one line on standard error, and nothing else."""
    code, out, error = answer(capfd, *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"crosstraj: [^\n]+\n", error), error
    return error


def tree(directory: Path) -> dict[str, bytes]:
    """Every file but the lock, in which an owner leaves its number."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "owner.lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


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


def test_output_on_a_full_disk_costs_the_lines_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115  # closing it would fail, too
    monkeypatch.setattr("sys.stdout", full)
    monkeypatch.setattr("sys.stderr", full)
    with pytest.raises(OSError, match="No space left"):
        print("a disk that is full", flush=True)
    display = Plain(10)
    display.show(5, {})
    display.say("a sentence")
    with spared():
        full.close()


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
        ("evaluate", "RUN is missing: A run directory; give it, as `crosstraj evaluate --help`"),
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
    identity = identity_of(to_dict(config), NOT_IDENTITY)
    run = run_directory(tmp_path, config.method, config.env, config.seed, identity)
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


# --- evaluate


def test_evaluate_refuses_what_is_no_run(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "config.json").write_text('{"config": 3}')
    for place in (tmp_path, tmp_path / "nowhere"):
        assert f"{place} is not a run directory" in refusal(capfd, "evaluate", str(place))
    file = tmp_path / "config.json"
    assert f"{file} is not a kept run" in refusal(capfd, "evaluate", str(file))


def test_evaluate_refuses_a_run_without_a_checkpoint(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    shutil.copy(trained.directory / "config.json", tmp_path)
    assert f"{tmp_path} has no valid checkpoint" in refusal(capfd, "evaluate", str(tmp_path))


def test_evaluate_refuses_an_unknown_step_and_lists_those_there_are(
    trained: Trained, capfd: Capture
) -> None:
    said = refusal(capfd, "evaluate", str(trained.directory), "--step", "7")
    assert "no snapshot or checkpoint at 7 frames; it has 256, 512" in said


def test_evaluate_refuses_unequal_quotas(trained: Trained, capfd: Capture) -> None:
    said = refusal(capfd, "evaluate", str(trained.directory), "--episodes", "3", "--envs", "2")
    assert "episodes=3 is not a multiple of evaluation.envs=2" in said


def test_evaluate_takes_environments_that_divide_the_episodes(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[Config] = []

    def stop_there(config: Config, splits: Any) -> Any:
        played.append(config)
        raise BadInput("enough")

    monkeypatch.setattr("crosstraj.cli.evaluate.Examiner", stop_there)
    for episodes in ("128", "10", "130"):
        assert main(["evaluate", str(trained.directory), "--episodes", episodes]) == 2
    assert [config.evaluation.envs for config in played] == [64, 10, 26]


SAME = ("--episodes", "2", "--envs", "2", "--seed", "5")  # as the run itself was evaluated


def test_evaluate_prints_both_splits_as_the_run_itself_measured_them(
    trained: Trained, capfd: Capture
) -> None:
    before = tree(trained.directory)
    summary = json.loads((trained.directory / "summary.json").read_text())
    code, out, error = answer(capfd, "evaluate", str(trained.directory), *SAME)
    assert (code, error) == (0, "")
    assert "ppo on starpilot after 512 frames" in out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    low, high = 2.5, 64.0
    for split in ("seen", "unseen"):
        (row,) = [row for row in rows if row[:1] == [split]]
        score = summary[f"{split}_return"]
        assert row[1:3] == [f"{score:.2f}", f"{summary[f'{split}_stderr']:.2f}"]
        assert row[3] == f"{(score - low) / (high - low):.3f}"
    assert tree(trained.directory) == before


def test_evaluate_gives_the_very_numbers_of_the_run_from_checkpoint_and_snapshot(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "crosstraj.cli.evaluate.print_results", lambda _, summary: printed.append(summary)
    )
    summary = json.loads((trained.directory / "summary.json").read_text())
    for more in ((), ("--step", "512"), ("--step", "256")):
        assert main(["evaluate", str(trained.directory), *SAME, *more]) == 0
    names = [f"{split}_{what}" for split in ("seen", "unseen") for what in ("return", "length")]
    own, again, earlier = ([figures[name] for name in names] for figures in (summary, *printed[:2]))
    assert own == again == earlier
    assert [figures["frames"] for figures in printed] == [512, 512, 256]
    assert [printed[2][name] for name in names] != own  # other weights, another stream


def test_evaluate_plays_the_splits_it_is_asked_for(
    trained: Trained, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    printed: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "crosstraj.cli.evaluate.print_results", lambda _, summary: printed.append(summary)
    )
    summary = json.loads((trained.directory / "summary.json").read_text())
    for split in (("validation",), ("validation", "unseen")):
        assert main(["evaluate", str(trained.directory), *SAME, "--split", *split]) == 0
    alone, two = ({n for n in found if n.endswith("_return")} for found in printed)
    assert (alone, two) == ({"validation_return"}, {"validation_return", "unseen_return"})
    assert printed[0]["validation_length"] == printed[1]["validation_length"]
    assert printed[1]["unseen_return"] == summary["unseen_return"]
    for words in ("seen seen", ""):
        code, _, error = answer(
            capfd, "evaluate", str(trained.directory), "--split", *words.split()
        )
        assert code == 2
        assert "name one or several, each once" in error


def test_weights_that_a_dying_save_has_set_aside_are_read(trained: Trained, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained.directory, tmp_path / "run"))
    (run / "checkpoints/step-512").rename(run / "checkpoints/step-512.old")
    assert read_weights(run)[1] == 512


# --- help, methods, doctor


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


def test_doctor_finds_nothing_wrong_here(capfd: Capture) -> None:
    code, out, _ = answer(capfd, "doctor", "--seconds", "0.1", "--training", "0")
    assert code == 0
    assert re.search(r"^engine +fine: [\d,]+ frames/s", out, re.MULTILINE)
    assert re.search(r"^torch +\d", out, re.MULTILINE)
    assert not re.search(r"^training", out, re.MULTILINE)


def test_doctor_names_what_is_missing_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    absent = ("torch", "ale-py")
    monkeypatch.setattr(doctor, "_version", lambda package: None if package in absent else "1")
    code, out, error = answer(capfd, "doctor")
    assert code == 1
    assert "missing: pip install torch" in out
    assert "pip install 'crosstraj[atari]'" in out
    assert error == "crosstraj: something is missing or broken: see above\n"


def test_doctor_says_why_the_engine_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    def broken(seconds: float) -> tuple[float, bool, int]:
        raise OSError("libGL.so.1: cannot open shared object file")

    monkeypatch.setattr(doctor, "_play", broken)
    code, out, _ = answer(capfd, "doctor")
    assert code == 1
    assert "broken: OSError: libGL.so.1" in out


def test_doctor_does_not_call_an_engine_fine_in_which_nothing_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for outcome in ((1e4, False, 3), (1e4, True, 0)):
        monkeypatch.setattr(doctor, "_play", lambda seconds, outcome=outcome: outcome)
        assert main(["doctor"]) == 1


# --- curves


def test_curves_draws_a_png_of_one_panel_per_kind_of_figure(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    out = tmp_path / "drawn.png"
    code, said, _ = answer(capfd, "curves", str(trained.directory), "--out", str(out))
    assert (code, said) == (0, f"{out}\n")
    picture = out.read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    # PPO has returns, ranks and a policy: three panels of 4.2 by 3.3 inches, 110 dots each.
    assert struct.unpack(">II", picture[16:24]) == (1386, 363)


def test_curves_carry_the_name_of_the_run_and_no_empty_panel() -> None:
    figures = ("train_return", "entropy", "view_cosine", "feature_rank")
    rows = [{"row": "update", "frames": 10 * n, **dict.fromkeys(figures, 0.5)} for n in (1, 2)]
    figure = curves_figure(rows, "ppo-maze-s0")
    assert figure is not None
    assert figure.get_suptitle() == "ppo-maze-s0"
    assert sum(axes.axison for axes in figure.axes) == sum(bool(a.lines) for a in figure.axes) == 4


def test_a_run_draws_its_own_curves(trained: Trained) -> None:
    assert (trained.directory / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_curves_refuses_what_it_cannot_read_or_write(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    run = str(trained.directory)
    assert str(tmp_path) in refusal(capfd, "curves", str(tmp_path))
    assert "nowhere/a.png" in refusal(
        capfd, "curves", run, "--out", str(tmp_path / "nowhere/a.png")
    )
    assert "a.nonsense" in refusal(capfd, "curves", run, "--out", str(tmp_path / "a.nonsense"))
    (tmp_path / "metrics.jsonl").write_text('{"frames":1,"other":2}\n')
    assert str(tmp_path) in refusal(capfd, "curves", str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl"]


# --- What a person sees


def test_seconds_are_shown_as_hours_minutes_and_seconds() -> None:
    assert [clock(s) for s in (0, 59.9, 61, 3600, 36_061)] == [
        "0:00:00",
        "0:00:59",
        "0:01:01",
        "1:00:00",
        "10:01:01",
    ]


def test_rate_and_time_left_count_from_where_this_process_began(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    now = iter([0.0, 100.0, 100.0, 110.0])
    monkeypatch.setattr("crosstraj.learning.display.time.monotonic", lambda: next(now))
    display = Plain(4000)
    display.show(1000, {"train_return": 1.5})
    display.show(2000, {"entropy": 2.5})  # 1000 frames in 10 seconds, 2000 to go
    first, second = capfd.readouterr().out.splitlines()
    assert " ".join(first.split()) == "1,000/4,000 0/s -:--:-- left train 1.5"
    assert " ".join(second.split()) == "2,000/4,000 100/s 0:00:20 left train 1.5 entropy 2.5"


def test_the_terminal_shows_figures_and_says_sentences_word_for_word(capfd: Capture) -> None:
    with Terminal(4000, "ppo on starpilot") as display:
        display.say("runs [old] is done")
        display.show(1000, {"seen_return": 3.25})
    out = capfd.readouterr().out
    assert "runs [old] is done" in out
    assert "1,000/4,000 frames" in out
    assert "3.25" in out


def test_threads_of_a_run_are_those_it_was_told(trained: Trained) -> None:
    config = read_config(trained.directory)
    assert config.threads == 1
    every = replace(config, machine=MachineConfig())
    assert every.threads == len(os.sched_getaffinity(0))


# --- Limits


@pytest.mark.parametrize(
    ("value", "limits", "rule"),
    [
        (0, {"at_least": 1}, "at least 1"),
        (0.0, {"above": 0}, "above 0"),
        (1.0, {"at_least": 0, "below": 1}, "at least 0 and below 1"),
        (1.5, {"above": 0, "at_most": 1}, "above 0 and at most 1"),
        (math.nan, {"at_least": 0}, "at least 0"),
    ],
)
def test_a_value_beyond_a_limit_is_refused_and_one_at_it_only_if_it_is_open(value, limits, rule):
    with pytest.raises(BadInput) as refused:
        check_range(SimpleNamespace(wrong=value), "place.", "wrong", **limits)
    assert str(refused.value) == f"place.wrong={value}: must be {rule}"


def test_values_within_their_limits_are_taken_the_closed_ends_too():
    values = SimpleNamespace(low=0, high=1.0)
    check_range(values, "", "low", "high", at_least=0, at_most=1)
    check_range(values, "", "high", above=0)
