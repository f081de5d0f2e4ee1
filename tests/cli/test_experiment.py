"""`crosstraj experiment`: listings, trials, refusals, and a whole experiment."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crosstraj.cli import experiment
from crosstraj.cli.experiment import default_out
from crosstraj.cli.main import main
from crosstraj.errors import BadInput
from crosstraj.experiments.jobs import Job
from crosstraj.experiments.kept import kept_files
from crosstraj.experiments.plan import Experiment
from tests.conftest import TINY
from tests.experiments.files import SMALL, without, write
from tests.experiments.tables.ising_rows import STUDY
from tests.experiments.tables.runs import PPO, fill, judged, plan_of, update


def test_quick_is_the_scale_that_the_file_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.experiment([str(STUDY), "--quick", "--list"])
    listed = capsys.readouterr().out
    assert "# 10 runs" in listed
    assert "--ising.instance 0" in listed
    other = tmp_path / "other.toml"
    other.write_text(STUDY.read_text().replace("quick = ", "# "))
    with pytest.raises(BadInput, match="names no `quick`"):
        experiment.experiment([str(other), "--quick", "--list"])
    other.write_text(STUDY.read_text().replace("quick = 0", "quick = 2"))
    with pytest.raises(BadInput, match=r"quick=2.*must be above 0"):
        experiment.experiment([str(other), "--list"])


def test_a_trial_has_its_own_results() -> None:
    plan = plan_of({"a": PPO})
    assert default_out(plan) == Path("results/e")
    trial = Experiment(**{**vars(plan), "scale": 0.01})
    assert default_out(trial) == Path("results/e-scale-0.01")


def test_the_listing_has_every_command_and_the_frames_in_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    assert main(["experiment", str(path), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands_shown = [line for line in lines if not line.startswith("#")]
    assert len(commands_shown) == 20
    assert commands_shown[0] == (
        "crosstraj train --method ctrl --preset paper --encoder laptop --policy.epochs 2 "
        "--frames 1000 --env bigfish --seed 0"
    )
    assert "20 runs, 28,000 frames in total" in lines[2]
    assert main(["experiment", str(path), "--list", "--only", "frozen/coin", "--runs", "x y"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if not line.startswith("#")] == [
        f"crosstraj train --method ppo --preset default --encoder laptop --encoder-grad none "
        f"--frames 3000 --env coinrun --seed {seed} --saving.runs 'x y'"
        for seed in (0, 3)
    ]


def test_scale_shrinks_budget_games_and_seeds_and_rounds_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    for scale, games, seeds, frames in (("0.5", 1, 1, 500), ("0.51", 2, 2, 510), ("1e-6", 1, 1, 1)):
        assert main(["experiment", str(path), "--list", "--scale", scale]) == 0
        shown = capsys.readouterr().out.splitlines()
        found = [line for line in shown if not line.startswith("#")]
        assert len(found) == 5 * games * seeds
        assert f"--frames {frames} --env bigfish --seed 0" in found[0]
    ten = SMALL.replace("[0, 3]", str(list(range(10))))  # .7 * 10 is 7.000000000000001
    assert main(["experiment", str(write(tmp_path, ten)), "--list", "--scale", "0.7"]) == 0
    assert "--seed 6" in (said := capsys.readouterr().out)
    assert "--seed 7" not in said


LIGHT = """
import sys
from crosstraj.cli.main import main
assert main(["experiment", sys.argv[1], "--list"]) == 0
heavy = {"torch", "numpy", "gymnasium", "rich", "matplotlib"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""


def test_a_reader_who_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    text = SMALL.replace("[0, 3]", str(list(range(500))))  # more than a pipe holds
    words = [sys.executable, "-m", "crosstraj", "experiment", str(write(tmp_path, text)), "--list"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"# small")
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_listing_imports_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIGHT, str(write(tmp_path))]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--scale", "0"], "--scale=0.0"),
        (["--scale", "1.5"], "--scale=1.5"),
        (["--scale", "nan"], "--scale=nan"),
        (["--jobs", "0"], "--jobs=0"),
        (["--jobs", "all"], "--jobs=all: must be auto, or a number"),
        (["--threads", "-1"], "--threads=-1"),
        (["--only", "maze"], "none of 20 runs, such as 'ctrl:paper narrow/bigfish/s0'"),
    ],
)
def test_bad_options_get_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", str(write(tmp_path)), *words]) == 2
    assert sentence in (said := capfd.readouterr().err)
    assert re.fullmatch(r"crosstraj: [^\n]+\n", said)


def test_a_trial_without_a_run_gets_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = without("methods", SMALL[: SMALL.index("[variants")])
    text += '[variants."second"]\nmethod = "ppo"\ngames = ["coinrun"]\n'
    assert main(["experiment", str(write(tmp_path, text)), "--scale", "0.1"]) == 2
    assert "small has no run at scale 0.1" in capfd.readouterr().err


# --- running, in earnest


REAL = """
name = "real"
title = "Two real runs"
reproduces = "Nothing."
frames = 256
games = ["starpilot"]
seeds = [0]
methods = ["ppo"]

[base]
{values}

[variants."rl"]

[variants."frozen"]
encoder_grad = "none"
"""


def real(tmp_path: Path, frames: int = 256) -> list[str]:
    """A command for two tiny runs with the values of the tests' tiny run."""
    pairs = dict(zip(TINY[::2], TINY[1::2], strict=True))
    del pairs["--env"]
    lines = [
        f"{flag[2:].replace('-', '_')} = {value if value.isdigit() else repr(value)}"
        for flag, value in pairs.items()
    ]
    text = REAL.format(values="\n".join(lines))
    path = write(tmp_path, text.replace("frames = 256", f"frames = {frames}"))
    places = ("--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out"))
    return ["experiment", str(path), *places, "--threads", "1"]


def test_an_experiment_runs_makes_its_table_and_is_then_finished(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = real(tmp_path)
    assert main([*command, "--jobs", "2"]) == 0
    said = capfd.readouterr().out
    assert "run 2 of 2, frozen/starpilot/s0, is done" in said
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"table.md", "table.json", "figure.png"}
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    assert [(c["variant"], c["state"]) for c in table["cells"]] == [
        ("rl", "1 of 1, no spread"),
        ("frozen", "1 of 1, no spread"),
    ]
    for run_of, cell in zip(table["runs"], table["cells"], strict=True):
        summary = json.loads((Path(run_of["directory"]) / "summary.json").read_text())
        assert cell["figures"]["unseen_return"]["mean"] == summary["unseen_return"]
        assert cell["figures"]["unseen_return"]["deviation"] is None
    first = (tmp_path / "out" / "table.md").read_bytes()
    (tmp_path / "out" / "table.md").unlink()
    assert main([*command, "--table"]) == 0
    assert (tmp_path / "out" / "table.md").read_bytes() == first
    kept = ["--kept", str(tmp_path / "kept")]
    assert main([*command, *kept, "--keep"]) == 0
    files_of = {path.parent for path in kept_files(tmp_path / "kept")}
    assert files_of == {tmp_path / "kept/real/rl", tmp_path / "kept/real/frozen"}
    shutil.rmtree(tmp_path / "runs")
    capfd.readouterr()
    assert main([*command, *kept]) == 0  # a fresh clone with what was kept has nothing left to do
    said = capfd.readouterr().out
    assert "2 of 2 runs are finished (2 of them kept from before)" in said
    assert "began" not in said
    assert (tmp_path / "out" / "table.md").read_bytes() == first


@pytest.mark.parametrize(
    "words", [["paper/ising.toml"], ["paper/tsne.toml"], ["ours/learn.toml", "--scale", ".1"]]
)
def test_trials_and_what_is_made_of_weights_are_not_kept(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    places = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    words = [f"experiments/{words[0]}", *words[1:]]
    assert main(["experiment", *words, "--table", "--keep", *places]) == 2
    assert "--keep is for whole experiments" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_experiment_saves_exits_as_its_runs_do_and_goes_on(tmp_path: Path) -> None:
    command = real(tmp_path, frames=100_000_000)
    words = [sys.executable, "-m", "crosstraj", *command, "--only", "frozen"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("runs/*/metrics.jsonl")) and time.monotonic() < until:
            time.sleep(0.05)
        (metrics,) = tmp_path.glob("runs/*/metrics.jsonl")
        while not metrics.read_bytes() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 143
    assert error.decode().endswith("the same command goes on from the last checkpoint\n")
    (saved,) = metrics.parent.glob("checkpoints/step-*")
    assert json.loads(metrics.read_bytes().splitlines()[-1])["frames"] == int(saved.name[5:])
    assert not (tmp_path / "out").exists()
    assert main([*command, "--table"]) == 0
    assert (
        "**Partial**: 0 of 2 runs are finished, 1 more have begun"
        in (tmp_path / "out" / "table.md").read_text()
    )


@pytest.mark.parametrize(("words", "played"), [((), 1), (("--table",), 0)])
def test_a_paired_table_is_made_after_random_play_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], played: int
) -> None:
    """One command makes all of it; --table only looks at what there is."""
    text = SMALL.replace("[base]", 'table = "paired"\nbaseline = "frozen"\n\n[base]')
    seen: list[str] = []
    monkeypatch.setattr(experiment, "run", lambda *_, of: seen.append("run"))
    monkeypatch.setattr(experiment, "play_at_random", lambda *_: seen.append("random"))
    monkeypatch.setattr(
        "crosstraj.experiments.tables.make.make_table", lambda *_: seen.append("table") or []
    )
    places = ["--runs", str(tmp_path / "runs"), "--kept", str(tmp_path / "kept")]
    experiment.experiment([str(write(tmp_path, text)), *places, *words])
    assert seen == ["run", "random"] * played + ["table"]


LOOKED_AT = """
name = "final"
title = "A final"
reproduces = "Nothing."
frames = 100
games = ["bigfish", "coinrun", "starpilot"]
seeds = [10, 11, 12, 13, 14]
methods = ["ppo"]
table = "paired"
baseline = "base"

[variants.base]

[variants.ours]
policy.discount = 0.9

[look]
variant = "ours"
seeds = 3
success = 0.005
futility = 0.1
"""


@pytest.mark.parametrize(
    ("scores", "words", "seeds", "says"),
    [
        ({10: 11.0, 11: 12.0, 12: 11.5}, (), [10, 11, 12], "stop: a gain is shown"),
        ({10: 12.0, 11: 9.0, 12: 10.0}, (), [10, 11, 12, 13, 14], "go on to the end"),
        ({10: 10.0, 11: 10.1, 12: 9.9}, (), [10, 11, 12], "stop: more runs would not find"),
        ({10: 11.0, 11: 12.0}, (), [10, 11, 12], "3 of 9 pairs are not finished"),
        ({10: 11.0, 11: 12.0}, (), [10, 11, 12], "No run after the look was begun; --only"),
        ({}, ("--only", "ours"), [10, 11, 12, 13, 14], ""),
        ({}, ("--scale", "0.8"), [10, 11, 12, 13], ""),
    ],
)
def test_a_whole_experiment_stops_at_its_look_if_the_rule_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scores: dict[int, float],
    words: tuple[str, ...],
    seeds: list[int],
    says: str,
) -> None:
    ran: list[int] = []
    asked: set[int] = set()

    def run(_: Experiment, jobs: list[Job], __: object, *, of: int) -> None:
        asked.add(of)
        for job in jobs:
            seed = job.planned.seed
            ran.append(seed)
            score = scores.get(seed) if job.planned.variant == "ours" else 10.0
            fill(job, [update(100), judged(100, score)] if score else [update(50)])

    monkeypatch.setattr(experiment, "run", run)
    monkeypatch.setattr(experiment, "play_at_random", lambda *_: [])
    monkeypatch.setattr("crosstraj.experiments.tables.results.read_chance", lambda *_: 0.0)
    places = ["--runs", str(tmp_path / "runs"), "--kept", str(tmp_path / "kept")]
    path = write(tmp_path, LOOKED_AT)
    experiment.experiment([str(path), *places, "--out", str(tmp_path / "out"), *words])
    assert sorted(set(ran)) == seeds
    assert len(asked) == 1  # by which the threads of all are chosen, before the look and after it
    assert says in capsys.readouterr().out


def test_a_dry_run_has_the_hours_up_to_the_look_and_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--runs", str(tmp_path / "runs"), "--kept", str(tmp_path / "kept")]
    experiment.experiment([str(write(tmp_path, LOOKED_AT)), *places, "--dry-run"])
    early, late = capsys.readouterr().out.split("after it, if it says so:")
    assert "up to the look after 3 seeds:" in early
    assert "18 would run" in early
    assert "12 would run" in late
    assert "s13" in late
    assert "s13" not in early
