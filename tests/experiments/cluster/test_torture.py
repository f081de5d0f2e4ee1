"""The judge of `make torture-cluster`: what it would call lost."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import Job, prepare
from tests.experiments.cluster.stand_ins import FILE
from tests.torture_cluster import trial
from tests.torture_cluster.stand_ins import faults_of
from tests.torture_cluster.trial import Result, judged

ENDED = "\nfiles:\n  config.json\n"


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Two runs that went well."""
    (tmp_path / "file.toml").write_text(FILE)
    jobs = prepare(read(tmp_path / "file.toml").runs(), tmp_path / "runs", None)[:2]
    for job in jobs:
        job.directory.mkdir(parents=True)
        (job.directory / "summary.json").write_text(json.dumps({"frames": 1000}))
        job.log.write_text(f"begins{ENDED}")
    monkeypatch.setattr(
        trial, "fingerprint", lambda run: {"all": (run / "summary.json").read_text()}
    )
    return jobs


def verdict(jobs: list[Job]) -> tuple[int, int, list[str]]:
    whole = {"all": json.dumps({"frames": 1000})}
    given: Any = SimpleNamespace(jobs=jobs)
    return judged(given, {job.directory.name: whole for job in jobs})


def test_runs_that_are_as_they_should_be(jobs: list[Job]) -> None:
    jobs[0].log.write_text(f"resuming{ENDED}{jobs[0].directory} is done{ENDED}")  # looked again
    assert verdict(jobs) == (2, 2, [])


def test_a_run_that_is_not_finished_is_lost(jobs: list[Job]) -> None:
    (jobs[1].directory / "summary.json").unlink()
    assert verdict(jobs) == (1, 1, ["ppo/bigfish/s1 is lost at 0 of 1,000 frames"])


def test_a_byte_that_differs_is_a_fault(jobs: list[Job]) -> None:
    (jobs[1].directory / "summary.json").write_text(json.dumps({"frames": 1000}) + " ")
    assert verdict(jobs) == (2, 1, ["ppo/bigfish/s1: all differ"])


def test_a_run_that_was_trained_to_its_end_twice_is_a_fault(jobs: list[Job]) -> None:
    jobs[0].log.write_text(f"begins{ENDED}begins{ENDED}")
    assert verdict(jobs) == (2, 2, ["ppo/bigfish/s0 was run to its end 2 times"])


def test_only_a_whole_result_without_a_fault_is_good() -> None:
    good = Result("real runs", "", runs=2, finished=2, equal=2, resumed=1, faults=(), seconds=1.0)
    assert good.good
    for change in ({"finished": 1}, {"equal": 1}, {"faults": ("process 1 was left",)}):
        assert not good._replace(**change).good  # type: ignore[arg-type]


def test_stand_ins_are_judged_by_what_the_driver_computes() -> None:
    few = {"runs": 360, "driver_ms_per_run": 20.0, "restart_processor_seconds": 2.0}
    assert faults_of(few, few) == ()
    for change, word in (
        ({"driver_ms_per_run": 51.0}, "at most 50"),
        ({"driver_ms_per_run": 31.0}, "at most 1.5"),
        ({"restart_processor_seconds": 10.0}, "below 10"),
    ):
        assert any(word in fault for fault in faults_of(few | change, few))
