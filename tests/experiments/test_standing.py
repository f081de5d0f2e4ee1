"""The display of an experiment: runs finished and failed, and the table so far."""

import json
from pathlib import Path

import pytest

from crosstraj.experiments import standing
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import Job, prepare
from crosstraj.experiments.standing import Bars, Lines, Standing
from tests.experiments.files import jobs_of

FILE = """
name = "many"
title = "Many"
reproduces = "Nothing."
frames = 1_000
games = ["bigfish", "coinrun"]
seeds = [0, 1, 2, 3, 4, 5, 6]
methods = ["ppo", "curl"]
"""


@pytest.fixture
def jobs(tmp_path: Path) -> dict[str, Job]:
    (tmp_path / "file.toml").write_text(FILE)
    made = prepare(read(tmp_path / "file.toml").runs(), tmp_path / "runs", None)
    return {job.planned.name: job for job in made}


def finish(job: Job, **summary: float) -> None:
    job.directory.mkdir(parents=True)
    (job.directory / "summary.json").write_text(json.dumps({"frames": 1000, **summary}))
    (job.directory / "metrics.jsonl").write_text('{"row": "update", "frames": 1000}\n')


def test_the_table_so_far_is_the_mean_of_finished_runs(jobs: dict[str, Job]) -> None:
    finish(jobs["ppo/bigfish/s0"], unseen_return=1.0)
    standing = Standing(list(jobs.values()))
    assert standing.words() == "1 of 28 runs finished"
    finish(jobs["ppo/bigfish/s1"], unseen_return=2.5)
    finish(jobs["ppo/coinrun/s0"], validation_return=7.0)
    finish(jobs["curl/coinrun/s0"])  # was evaluated on seen levels alone
    for name in ("ppo/bigfish/s1", "ppo/coinrun/s0", "curl/coinrun/s0"):
        standing.ended(jobs[name], 0)
    standing.ended(jobs["curl/bigfish/s0"], 70)
    assert standing.words() == "4 of 28 runs finished, 1 failed"
    assert standing.rows() == [
        ["return so far", "bigfish", "coinrun"],
        ["ppo", "1.75 (2)", "7.00 (1)"],
        ["random play", "0.99", "2.97"],  # of unseen levels, by results/random
    ]
    assert Standing([jobs["curl/bigfish/s0"]]).rows() == []


def test_random_play_is_of_the_levels_that_are_played_and_left_out_where_nobody_knows(
    tmp_path: Path,
) -> None:
    returns = {}
    for levels, name, value in (
        ('levels = "validation"', "evaluation.held_out", '"validation"'),
        ("", "procgen.mode", '"hard"'),
    ):
        text = f"{levels}{FILE}[base]\n{name} = {value}\n"
        (tmp_path / "file.toml").write_text(text)
        jobs = prepare(read(tmp_path / "file.toml").runs(), tmp_path / name, None)
        finish(jobs[0], validation_return=1.0)
        returns[name] = [row[:2] for row in Standing(jobs).rows()[1:]]
    known = [["ppo", "1.00 (1)"], ["random play", "1.00"]]
    assert returns == {"evaluation.held_out": known, "procgen.mode": known[:1]}


def test_lines_name_a_few_runs_and_count_the_rest(
    jobs: dict[str, Job], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(standing, "SPEAK", 0.0)
    monkeypatch.setattr(standing, "TABULATE", 0.0)
    lines = Lines(list(jobs.values()), "many")
    finish(jobs["ppo/bigfish/s0"], unseen_return=1.0)
    lines.ended(jobs["ppo/bigfish/s0"], 0)
    lines.show(list(jobs.values())[1:16])
    line, *table = capsys.readouterr().out.splitlines()
    assert line.startswith("1,000/28,000 frames  ")
    assert "  1 of 28 runs finished  (run 2 of 28, curl/bigfish/s0, 0; " in line
    assert line.endswith("; and 3 more)")
    assert table[:2] == ["return so far  bigfish  coinrun", "ppo  1.00 (1)  -"]


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


def test_a_variants_label_stays_text_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    label = "ours [red]"
    (tmp_path / "file.toml").write_text(
        FILE.replace('methods = ["ppo", "curl"]', f'[variants."{label}"]\nmethod = "ppo"')
    )
    jobs = prepare(read(tmp_path / "file.toml").runs(), tmp_path / "runs", None)
    finish(jobs[0], unseen_return=1.0)
    with Bars(jobs, "many [/x]") as bars:
        bars.show(jobs[1:3])
    out = capsys.readouterr().out
    assert "many [/x]" in out
    assert f"{label}/" in out  # a run that is under way
    assert f"│ {label} " in out  # a row of the table so far
