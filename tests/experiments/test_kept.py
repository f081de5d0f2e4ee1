"""Kept runs: one file each, found by experiment, variant, game and seed, held to their values."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.cli.main import main
from crosstraj.config.stored import FORMAT, to_dict
from crosstraj.errors import BadInput
from crosstraj.experiments.jobs import Job, keep, prepare, reached
from crosstraj.experiments.kept import file_name, kept_file, kept_files
from crosstraj.experiments.plan import Experiment, Planned, Values
from crosstraj.learning.load import read_config, read_values
from crosstraj.report.comparison import compare
from crosstraj.report.reading import find_runs, read_run
from crosstraj.runs.read import kept_variant, metrics, summary, timing

PPO: Values = {"method": "ppo", "preset": "default", "encoder": "laptop"}


def jobs_of(place: Path, values: Values = PPO, variant: str = "v", seeds: int = 1) -> list[Job]:
    """Runs of an experiment with one variant; the budget is 1000 frames."""
    plan = Experiment(
        "e", "t", "", 1000, ("bigfish",), tuple(range(seeds)), {variant: values}, "returns"
    )
    return prepare(plan.runs(), place / "runs", place / "results" / plan.name)


def write_logs(job: Job, frames: int, budget: int | None = None) -> None:
    job.directory.mkdir(parents=True, exist_ok=True)
    values = {"format": FORMAT, "config": to_dict(job.config) | {"frames": budget or frames}}
    row = {"row": "update", "frames": frames, "loss": math.inf, "x": 0.1}
    judged = {"row": "evaluation", "frames": frames, "seen_return": 1.5, "unseen_return": 0.5}
    (job.directory / "config.json").write_text(json.dumps(values, indent=1))
    (job.directory / "metrics.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(judged)}\n")
    (job.directory / "timing.jsonl").write_text(
        f'{{"frames": {frames}, "seconds": 2.5, "processor": 3.25}}\n'
    )
    (job.directory / "summary.json").write_text(json.dumps({"frames": frames}, indent=1))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("ppo", "ppo"),
        ("slim, 32 minibatches", "slim,_32_minibatches"),
        ("T = 2", "T_=_2"),
        ("ctrl:paper", "ctrl%3Apaper"),
        ("least_rank 8", "least%5Frank_8"),
        ("ALE/Pong-v5", "ALE%2FPong-v5"),
        ("..", "%2E."),
        (".1", "%2E1"),
        ("100 %", "100_%25"),
    ],
)
def test_a_variant_has_a_readable_directory_that_no_other_variant_has(
    words: str, name: str
) -> None:
    assert file_name(words) == name
    file = Path("results/e") / name / "bigfish-s0.jsonl"
    assert kept_variant(file) == words  # so no two can have the same
    assert kept_variant(file.parent / "bigfish-s0") == ""  # a run directory


def test_what_is_kept_is_what_the_directory_had(tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path)
    write_logs(job, 1000)
    keep([job])
    kept = tmp_path / "results/e/v/bigfish-s0.jsonl"
    assert job.kept == kept
    assert kept_file(tmp_path / "results/e", job.planned) == kept
    assert kept_files(tmp_path / "results") == [kept]
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [row["row"] for row in rows] == ["run", "update", "evaluation", "timing"]
    for read in (metrics, timing, summary):
        assert read(kept) == read(job.directory)
    assert timing(kept) == [{"frames": 1000, "seconds": 2.5, "processor": 3.25}]
    there, here = read_values(kept), read_values(job.directory)
    assert there["saving"].pop("runs") == "runs"  # no path of this machine
    assert here["saving"].pop("runs") == str(tmp_path / "runs")
    assert there == here
    assert replace(read_config(kept), saving=job.config.saving) == replace(job.config, frames=1000)


def test_a_report_is_made_of_kept_runs_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    jobs = jobs_of(tmp_path, seeds=2)
    for job in jobs:
        write_logs(job, 1000)
    keep(jobs)
    files = [job.kept for job in jobs if job.kept]
    assert find_runs([tmp_path / "results"]) == files
    assert find_runs(files[:1]) == files[:1]
    data = read_run(files[1])
    assert (data.game, data.seed, data.state) == ("bigfish", 1, "finished")
    assert data.final is not None
    assert data.final.held_out == 0.5
    out = tmp_path / "report"
    assert main(["report", str(tmp_path / "results"), "--out", str(out)]) == 0
    assert "bigfish" in (out / "report.md").read_text()


def test_a_report_calls_kept_runs_as_their_experiment_does(tmp_path: Path) -> None:
    """Two variants of one name, from two experiments, are told apart by their values."""
    for place, values in (("one", PPO), ("two", PPO | {"policy.clip": 0.3})):
        (job,) = jobs_of(tmp_path / place, values, "my | own [x]")
        write_logs(job, 1000)
        keep([job])
    (found,) = compare([read_run(path) for path in find_runs([tmp_path / "one", tmp_path / "two"])])
    first, second = sorted(variant.label for variant in found.variants)
    assert first == "my | own [x]"
    assert "policy.clip=0.3" in second
    (tmp_path / "downloads").mkdir()  # the name of no variant
    for count, place in enumerate(("one", "two")):
        (run,) = kept_files(tmp_path / place / "results")
        shutil.copyfile(run, tmp_path / "downloads" / f"bigfish-s{count}.jsonl")
    (found,) = compare([read_run(path) for path in find_runs([tmp_path / "downloads"])])
    assert all(variant.label.startswith("ppo") for variant in found.variants)


def test_kept_runs_are_not_run_again_and_only_finished_ones_are_kept(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, seeds=2)
    for job, frames in zip(jobs, (1000, 999), strict=True):
        write_logs(job, frames)
    keep(jobs)
    assert kept_files(tmp_path / "results") == [jobs[0].kept]
    assert jobs[0].logs == jobs[0].directory  # which may have gone on meanwhile
    shutil.rmtree(tmp_path / "runs")
    assert [job.finished() for job in jobs] == [True, False]
    assert [job.frames() for job in jobs] == [1000, 0]
    assert [job.logs for job in jobs] == [jobs[0].kept, jobs[1].directory]
    write_logs(jobs[0], 10)  # begun anew
    assert jobs[0].logs == jobs[0].kept
    assert jobs[0].frames() == 1000
    (trial,) = (replace(job, kept=None) for job in jobs[:1])
    assert (trial.logs, trial.finished(), trial.frames()) == (trial.directory, False, 10)


def test_the_longer_log_is_kept_and_one_that_grows_is_not_copied(tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path)
    assert job.kept is not None
    for frames, budget, expected in ((2000, 2000, 2000), (1500, 1500, 2000), (2500, 4000, 2000)):
        write_logs(job, frames, budget)
        keep([job])
        assert reached(job.kept) == expected
    write_logs(job, 4000)
    keep([job])
    assert reached(job.kept) == 4000
    write_logs(job, 5000)
    (job.directory / "timing.jsonl").unlink()
    with pytest.raises(BadInput, match=r"cannot be kept .*: timing.jsonl is missing"):
        keep([job])
    assert reached(job.kept) == 4000


def test_a_kept_run_of_other_values_is_named_and_never_taken_for_the_variant(
    tmp_path: Path,
) -> None:
    (job,) = jobs_of(tmp_path)
    write_logs(job, 1000)
    keep([job])
    for same in ({"machine.piece": 64}, {"saving.snapshots": 3}, {"frames": 2000}):
        jobs_of(tmp_path, PPO | same)  # the same run, elsewhere or for longer
    with pytest.raises(BadInput) as refusal:
        jobs_of(tmp_path, PPO | {"policy.epochs": 2, "encoder": "slim"})
    assert str(refusal.value) == (
        f"{job.kept} was kept of a run with other values (encoder is 'laptop' there, 'slim' here; "
        "policy.epochs is 3 there, 2 here); restore the value, call the variant something else, "
        "or remove the file"
    )
    assert not jobs_of(tmp_path, PPO | {"policy.epochs": 2}, "another name")[0].finished()


def test_a_value_that_a_kept_run_does_not_have_is_named_too(tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path)
    write_logs(job, 1000)
    keep([job])
    assert job.kept is not None
    first, *rest = job.kept.read_text().splitlines(keepends=True)
    values = json.loads(first)
    del values["config"]["policy"]["clip"]
    job.kept.write_text("".join([json.dumps(values) + "\n", *rest]))
    with pytest.raises(BadInput, match=r"policy.clip is 'absent' there, 0.2 here"):
        jobs_of(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]\n", '{"row":"update","frames":1}\n', '{"row":"run"}']
)
def test_a_damaged_kept_file_is_one_sentence(text: str, tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path)
    assert job.kept is not None
    job.kept.parent.mkdir(parents=True)
    job.kept.write_text(text)
    assert reached(job.kept) == 0
    with pytest.raises(BadInput, match=r"bigfish-s0.jsonl is not a kept run: "):
        jobs_of(tmp_path)


def test_a_game_with_a_slash_has_one_file(tmp_path: Path) -> None:
    run = Planned("a/b", "ALE/Pong-v5", 3, {})
    assert kept_file(tmp_path, run) == tmp_path / "a%2Fb" / "ALE%2FPong-v5-s3.jsonl"


def test_whatever_is_kept_in_results_has_every_value() -> None:
    """Whoever adds a value to the configuration adds it here, too: what these runs did is known."""
    runs = find_runs([Path("results")])
    assert len(runs) > 70
    for run in runs:
        read_config(run)
