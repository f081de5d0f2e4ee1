"""Many runs at a time: failures, exit codes, cores and signals."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from crosstraj.experiments import processes as batch
from crosstraj.experiments.jobs import Job
from crosstraj.learning.signals import Interrupted
from tests.experiments.files import jobs_of


def stand_in(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """`program` runs instead of training, with the seed and the run directory as arguments."""

    def start(job: Job, threads: int, allow_inexact: bool) -> subprocess.Popen[bytes]:
        job.directory.mkdir(parents=True, exist_ok=True)
        with job.log.open("ab") as log:
            words = [sys.executable, "-c", program, str(job.planned.seed), str(job.directory)]
            return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    monkeypatch.setattr(batch, "_start", start)
    monkeypatch.setattr(batch, "LOOK", 0.02)


FINISH = """
import json, pathlib, sys
place = pathlib.Path(sys.argv[2])
(place / "metrics.jsonl").write_text('{"row":"update","frames":1024}\\n')
(place / "summary.json").write_text(json.dumps({"frames": 1024}))
"""


def run(jobs: list[Job], at_once: int = 1) -> batch.Failed | None:
    return batch.run_all(jobs, at_once, threads=0, allow_inexact=False, title="small")


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
