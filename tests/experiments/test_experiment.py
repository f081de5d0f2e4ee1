"""Experiments: what a file stands for, how its runs are run, and what a bad file is told."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.main import main
from crosstraj.cli.train import train
from crosstraj.errors import BadInput
from crosstraj.experiments import processes as batch
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import Job, configure, prepare
from crosstraj.experiments.kept import kept_files
from crosstraj.experiments.standing import Lines
from crosstraj.experiments.tables.kinds import TABLES
from crosstraj.learning.signals import Interrupted
from crosstraj.policies.daac import DAACConfig
from tests.conftest import TINY

FILES = sorted(Path("experiments").glob("*/*.toml"))

SMALL = """
name = "small"
title = "A small one"
reproduces = "Nothing."
frames = 1_000
games = ["bigfish", "coinrun"]
seeds = [0, 3]
methods = ["ctrl:paper", "ppo"]

[base]
encoder = "laptop"

[variants."narrow"]
policy.epochs = 2

[variants."wide"]
policy.epochs = 3
procgen.train_levels = 50

[variants."frozen"]
method = "ppo"
encoder_grad = "none"
frames = 3_000
"""


def write(tmp_path: Path, text: str = SMALL) -> Path:
    path = tmp_path / "file.toml"
    path.write_text(text)
    return path


def without(key: str, text: str = SMALL) -> str:
    return re.sub(rf"^{key} = .*\n", "", text, flags=re.MULTILINE)


# --- what a file stands for


def test_runs_are_the_product_and_seeds_come_last(tmp_path: Path) -> None:
    runs = read(write(tmp_path)).runs()
    labels = [f"{m} {v}" for v in ("narrow", "wide") for m in ("ctrl:paper", "ppo")] + ["frozen"]
    expected = [f"{v}/{g}/s{s}" for s in (0, 3) for g in ("bigfish", "coinrun") for v in labels]
    assert [run.name for run in runs] == expected
    assert [run.frames for run in runs[:5]] == [1000] * 4 + [3000]
    assert runs[2].values == {
        "method": "ctrl",
        "preset": "paper",
        "encoder": "laptop",
        "policy.epochs": 3,
        "procgen.train_levels": 50,
        "frames": 1000,
    }


def test_a_variant_may_be_for_some_games_and_seeds_alone(tmp_path: Path) -> None:
    runs = read(write(tmp_path, SMALL + 'games = ["coinrun"]\nseeds = [3]')).runs()
    assert len(runs) == 4 * 4 + 1
    (frozen,) = (run for run in runs if run.variant == "frozen")
    assert frozen.name == "frozen/coinrun/s3"
    assert not {"games", "seeds"} & frozen.values.keys()


def test_without_variants_each_method_is_one_and_with_one_method_a_variant_has_its_own_name(
    tmp_path: Path,
) -> None:
    plain = SMALL[: SMALL.index("[variants")]
    assert list(read(write(tmp_path, plain)).variants) == ["ctrl:paper", "ppo"]
    one = SMALL.replace('"ctrl:paper", "ppo"', '"ppo"')
    assert list(read(write(tmp_path, one)).variants) == ["narrow", "wide", "frozen"]
    beside = plain + '[variants."frozen"]\nmethod = "ppo"\nencoder_grad = "none"'
    assert list(read(write(tmp_path, beside)).variants) == ["ctrl:paper", "ppo", "frozen"]


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


# --- bad files


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name = ", "is not TOML"),
        (SMALL + '\n[extra]\nkey = "x"', "unknown key 'extra'"),
        (SMALL.replace("title", "titel"), "unknown key 'titel': did you mean 'title'?"),
        (without("title"), "title is missing"),
        (without("games"), "games is missing"),
        (SMALL.replace('"ppo"]', '"pop"]'), "unknown method 'pop': did you mean 'ppo'?"),
        (SMALL.replace("ctrl:paper", "ctrl:papre"), "unknown preset 'papre'"),
        (SMALL.replace("[0, 3]", "[]"), "seeds is an empty list"),
        (SMALL.replace('["bigfish", "coinrun"]', "[]"), "games is an empty list"),
        (SMALL.replace('["ctrl:paper", "ppo"]', "[]"), "methods is an empty list"),
        (SMALL.replace("[0, 3]", '["0"]'), "entry of seeds='0': must be a whole number"),
        (SMALL.replace("[0, 3]", "[true]"), "entry of seeds=True: must be a whole number"),
        (SMALL.replace("[0, 3]", "[0, 0]"), "names something twice"),
        (SMALL.replace("[0, 3]", "3"), "seeds=3: must be a list"),
        (SMALL.replace("1_000", '"many"'), "frames='many': must be a whole number"),
        (SMALL.replace("1_000", "0"), "frames=0: must be at least 1"),
        (SMALL.replace("3_000", "3.5"), "frames=3.5: must be a whole number"),
        (SMALL.replace('"small"', '"../small"'), "names a directory"),
        (SMALL.replace("policy.epochs = 2", "env = 'maze'"), "this is said by games"),
        (SMALL.replace("policy.epochs = 2", "seed = 1"), "this is said by seeds"),
        (SMALL.replace("policy.epochs = 2", "policy.epochs = 1979-05-27"), "must be a number"),
        (SMALL.replace('"narrow"', '"a/b"'), "a name has no slash"),
        (without("methods"), "variant 'narrow' names no method"),
        (SMALL.replace('"frozen"', '"ppo narrow"'), "has the name of a method in the list"),
        (without("methods", SMALL[: SMALL.index("[variants")]), "nothing to run"),
        (SMALL.replace("seeds", "table = 'x'\nseeds"), "unknown table 'x'"),
        (SMALL.replace("seeds", "judge = 'frosen'\nseeds"), "did you mean 'frozen'?"),
        (SMALL.replace("seeds", "baseline = 'frozen'\nseeds"), "baseline is for table = 'paired'"),
        (SMALL.replace("seeds", "table = 'paired'\nseeds"), "needs `baseline`"),
        (SMALL.replace("seeds", "levels = 'validtion'\nseeds"), "did you mean 'validation'?"),
        (SMALL.replace("seeds", "levels = 'validation'\nseeds"), "held_out = 'both'"),
        (SMALL.replace("seeds", "judge = 'frozen'\ntable = 'health'\nseeds"), "leave it out"),
        (SMALL + 'games = ["maze"]', "variants.frozen.games: 'maze' is not in games above"),
        (SMALL + "seeds = [1]", "variants.frozen.seeds: 1 is not in seeds above"),
        (SMALL.replace("seeds", "table = 'split'\nseeds"), "named `X joint` and `X split`"),
        # what only the configuration knows
        (SMALL.replace("policy.epochs = 2", "policy.epoch = 2"), "did you mean 'policy.epochs'?"),
        (SMALL.replace("policy.epochs = 2", "policy.epochs = 2.5"), "must be a whole number"),
        (SMALL.replace("policy.epochs = 2", "policy.epochs = true"), "must be a whole number"),
        (SMALL.replace("policy.epochs = 2", "policy.epochs = 0"), "policy.epochs=0"),
        (SMALL.replace('"laptop"', '"laptpo"'), "must be one of impala, laptop"),
        (SMALL.replace("policy.epochs = 2", "policy.clip = true"), "must be a number"),
        (SMALL.replace('"laptop"', "3"), "must be one of impala, laptop"),
        (SMALL.replace('"bigfish"', '"bigfis"'), "did you mean 'bigfish'?"),
        (SMALL.replace("epochs = 2", "epochs = 3\nprocgen.train_levels = 50"), "the same values"),
        (SMALL.replace("policy.epochs = 2", "phases = [0.5, 0.5]"), "phases is not given"),
    ],
)
def test_a_bad_file_gets_one_sentence_and_starts_nothing(
    text: str, sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, runs = write(tmp_path, text), tmp_path / "runs"
    assert main(["experiment", str(path), "--runs", str(runs), "--out", str(tmp_path / "o")]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"crosstraj: [^\n]+\n", said.err), said.err
    assert sentence in said.err
    assert list(tmp_path.iterdir()) == [path]


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


def test_a_file_that_is_not_there_gets_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "no/such.toml"]) == 2
    assert capfd.readouterr().err == (
        "crosstraj: no/such.toml cannot be read: No such file or directory\n"
    )


# --- the configuration of a run


def parsed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The configuration that the command line makes of a command's words."""
    caught: list[Any] = []

    def keep(config: Any, *_: object, **__: object) -> None:
        caught.append(config)
        raise BadInput("caught")

    with monkeypatch.context() as patch:
        patch.setattr("crosstraj.learning.place.open_run", keep)
        with pytest.raises(BadInput, match="caught"):
            train(words)
    return caught[0]


def test_every_kind_of_value_means_the_same_in_a_file_and_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SMALL.replace('"ctrl:paper", "ppo"', '"ctrl"').replace(
        "policy.epochs = 2",
        "objective.temperature = 1\nobjective.swap_codes = false\nfeature_norm = 'none'\n"
        "representation.learning_rate = 1e-4\nevaluation.envs = 2\nevaluation.episodes = 6",
    )
    run = read(write(tmp_path, text)).runs()[0]
    config = configure(run, tmp_path)
    words = run.command({"saving.runs": str(tmp_path)})[1:]
    assert config == parsed(words, monkeypatch)
    assert repr(config.objective.temperature) == "1.0"  # type: ignore[union-attr]
    assert (config.evaluation.envs, config.evaluation.episodes) == (2, 6)


def test_a_variant_may_have_another_policy_with_that_policys_own_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = "policy.kind = 'daac'\npolicy.value_epochs = 2"
    text = SMALL.replace('"ctrl:paper", "ppo"', '"ctrl"').replace("policy.epochs = 2", values)
    run = read(write(tmp_path, text)).runs()[0]
    config = configure(run, tmp_path)
    assert config.policy == DAACConfig(value_epochs=2)
    assert config == parsed(run.command({"saving.runs": str(tmp_path)})[1:], monkeypatch)
    bad = read(write(tmp_path, text.replace("'daac'", "'dac'"))).runs()
    with pytest.raises(BadInput, match="did you mean 'daac'"):
        prepare(bad, tmp_path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_in_experiments_stands_for_valid_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read(path)
    assert plan.name == path.stem
    runs = plan.runs()
    jobs = prepare(runs, Path("runs"))  # all of them valid, and no two the same
    assert {run.variant for run in runs} == set(plan.variants)
    if not any({"games", "seeds"} & values.keys() for values in plan.variants.values()):
        assert len(jobs) == len(plan.variants) * len(plan.games) * len(plan.seeds)
    first = {run.variant: run for run in reversed(runs)}
    for run in first.values():
        assert configure(run, Path("runs")) == parsed(run.command({})[1:], monkeypatch)


def test_there_is_a_file_for_each_table_and_figure() -> None:
    paper = {"main_table", "curves_25m", "ablations", "clusters", "keypoints", "temperature"}
    paper |= {"split", "ising", "tsne", "temporal", "samples", "pse_grid"}
    assert {path.stem for path in FILES if path.parent.name == "paper"} == paper
    assert {path.parent.name for path in FILES} == {"paper", "ours"}
    for path in FILES:
        assert read(path).reproduces.startswith("CTRL paper") == (path.parent.name == "paper")


def test_the_words_for_tables_are_the_makers_there_are() -> None:
    from crosstraj.experiments.tables.make import MAKERS

    assert MAKERS.keys() == TABLES.keys()


# --- running, with stand-ins for training


def jobs_of(tmp_path: Path, count: int) -> list[Job]:
    text = without("methods", SMALL).replace("[0, 3]", str(list(range(count))))
    text = text[: text.index("[variants")] + "\n[variants.v]\nmethod = 'ppo'"
    text = text.replace('["bigfish", "coinrun"]', '["bigfish"]')
    return prepare(read(write(tmp_path, text)).runs(), tmp_path / "runs", tmp_path / "kept")


def stand_in(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """`program` runs instead of training, with the seed and the run directory as arguments."""

    def start(job: Job, threads: int, allow_inexact: bool) -> subprocess.Popen[bytes]:
        job.directory.mkdir(parents=True, exist_ok=True)
        with job.log.open("ab") as log:
            words = [sys.executable, "-c", program, str(job.planned.seed), str(job.directory)]
            return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    monkeypatch.setattr(batch, "_start", start)
    monkeypatch.setattr(batch, "LOOK", 0.02)


def run(jobs: list[Job], at_once: int = 1) -> batch.Failed | None:
    return batch.run_all(jobs, at_once, threads=0, allow_inexact=False, title="small")


FINISH = """
import json, pathlib, sys
place = pathlib.Path(sys.argv[2])
(place / "metrics.jsonl").write_text('{"row":"update","frames":1024}\\n')
(place / "summary.json").write_text(json.dumps({"frames": 1024}))
"""


def test_one_that_fails_does_not_stop_the_others_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, f"import sys\nif sys.argv[1] == '1': sys.exit('no luck')\n{FINISH}")
    jobs = jobs_of(tmp_path, 3)
    failed = run(jobs)
    assert failed is not None
    assert failed.exit_code == 1
    assert str(failed).startswith("1 of 3 runs failed: v/bigfish/s1 (exit code 1)")
    assert [job.finished() for job in jobs] == [True, False, True]
    said = capsys.readouterr().out
    assert "run 2 of 3, v/bigfish/s1, ended with exit code 1: no luck" in said
    stand_in(monkeypatch, FINISH)
    assert run(jobs) is None
    said = capsys.readouterr().out
    assert "2 of 3 runs are finished" in said
    assert said.count("began") == 1  # the finished ones are not started again


def test_the_exit_code_is_that_of_the_runs_where_they_agree() -> None:
    assert batch.Failed({"a": 75, "b": 75}, 3).exit_code == 75
    assert batch.Failed({"a": 75, "b": 2}, 3).exit_code == 1


def test_at_most_so_many_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = """
import os, sys, time
log = os.path.join(os.path.dirname(sys.argv[2]), "when")
for word in ("begin", "end"):
    with open(log, "a") as file: file.write(word + chr(10))
    time.sleep(0.1 if word == "begin" else 0)
"""
    stand_in(monkeypatch, note + FINISH)
    assert run(jobs_of(tmp_path, 5), at_once=2) is None
    now, most = 0, 0
    for word in (tmp_path / "runs" / "when").read_text().split():
        now += 1 if word == "begin" else -1
        most = max(most, now)
    assert most == 2


def test_auto_packs_one_run_per_core_as_far_as_runs_and_memory_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch, "usable_cores", lambda: 8)
    for gib, packed in ((64.0, [1, 2, 8, 8]), (10.0, [1, 2, 3, 3]), (1.0, [1, 1, 1, 1])):
        monkeypatch.setattr(batch, "memory", lambda gib=gib: gib)
        assert [batch.packed(runs) for runs in (1, 2, 8, 100)] == packed


def test_cores_are_divided_among_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "usable_cores", lambda: 8)
    assert [batch.share_threads(jobs, 0) for jobs in (1, 2, 3, 100)] == [0, 4, 2, 1]
    assert batch.share_threads(1, 3) == batch.share_threads(4, 3) == 3


def test_a_signal_is_handed_on_once_and_its_exit_code_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = """
import pathlib, signal, sys, time
came = []
signal.signal(signal.SIGTERM, lambda *_: came.append(1))
pathlib.Path(sys.argv[2], "ready").touch()
while not came: time.sleep(0.01)
time.sleep(0.3)
pathlib.Path(sys.argv[2], "came").write_text(str(len(came)))
sys.exit(143)
"""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    stand_in(monkeypatch, count)
    jobs = jobs_of(tmp_path, 3)

    def send() -> None:
        while not all((job.directory / "ready").exists() for job in jobs[:2]):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        with pytest.raises(Interrupted) as stopped:
            run(jobs, at_once=2)
    finally:
        thread.join()
        signal.signal(signal.SIGTERM, before)
    assert stopped.value.exit_code == 143
    assert [(job.directory / "came").read_text() for job in jobs[:2]] == ["1", "1"]
    assert not jobs[2].directory.exists()


def test_progress_counts_frames_of_the_whole(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, 2)
    for job, frames in zip(jobs, (5000, 256), strict=True):
        job.directory.mkdir(parents=True)
        rows = [json.dumps({"row": "update", "frames": n}) + "\n" for n in (128, frames)]
        (job.directory / "metrics.jsonl").write_text("".join(rows) + '{"row": "upd')
    assert [job.frames() for job in jobs] == [1000, 256]  # at most the budget; no half row
    lines = Lines(jobs, "small")
    assert lines.measure(jobs)[0] == 1256
    assert lines.budget == 2000


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
