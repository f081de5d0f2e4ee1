"""Small programs that save and resume as runs do, and a driver that is given them."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crosstraj.experiments.cluster import driver
from crosstraj.experiments.cluster.needs import Needs
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import Job, prepare
from crosstraj.experiments.processes import Failed

LEASE = 8.0  # seconds
FILE = """
name = "many"
title = "Many"
reproduces = "Nothing."
frames = 1_000
games = ["bigfish"]
seeds = [0, 1, 2, 3, 4, 5]
methods = ["ppo"]
"""
# A run of ten steps: it saves after each, goes on from its save, saves and leaves on SIGTERM, and
# tells in a diary when it did what. A file NAME.do beside the shared directory has a last word.
STAND_IN = """
import json, os, pathlib, signal, sys, time
name, diary, seconds, _, place = sys.argv[1:]
diary, seconds = pathlib.Path(diary), float(seconds)
run = pathlib.Path(place) / name
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
def note(what):
    with diary.open("a") as file:
        file.write(json.dumps([what, os.getpid(), os.getppid(), time.time(), place]) + "\\n")
def save(step):
    building = run / f".tmp-{step}"
    building.mkdir()
    (building / "state.json").write_text(str(step))
    building.rename(run / "checkpoints" / f"step-{step}")
(run / "checkpoints").mkdir(parents=True, exist_ok=True)
steps = [int(path.name[5:]) for path in run.glob("checkpoints/step-*")]
step = max(steps, default=0)
note(f"from {step}")
orders = diary.with_suffix(".do")
if orders.exists():
    code = int(orders.read_text())
    if code == 75:
        orders.unlink()
    print(f"leaves with {code}")
    sys.exit(code)
while step < 10:
    time.sleep(seconds)
    step += 1
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"frames": 100 * step}) + "\\n")
    save(step)
    if stop:
        note("stopped")
        sys.exit(143)
(run / "summary.json").write_text(json.dumps({"frames": 1000, "unseen_return": 2.5}))
note("done")
"""


class Diaries:
    """What the stand-ins wrote."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        (place / "run.py").write_text(STAND_IN)

    def path(self, job: Job) -> Path:
        return self.place / job.directory.name

    def rows(self, job: Job) -> list[list[Any]]:
        path = self.path(job)
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def words(self, job: Job) -> list[str]:
        return [row[0] for row in self.rows(job)]

    def wait_for(self, job: Job, step: int = 1) -> None:
        """Until it has saved so many steps in the shared directory."""
        until(lambda: (job.directory / f"checkpoints/step-{step}").exists())


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def node(kind: str) -> dict[str, Any]:
    """Not at the head's address: a driver belongs to a node of its own, which must be the head."""
    address = "127.0.0.2"
    labels = {"kind": kind}
    return {"num_cpus": 1, "node_ip_address": address, "resources": {kind: 1}, "labels": labels}


class Bench:
    def __init__(self, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file.toml").write_text(FILE)
        self.cluster, self.diaries = cluster, Diaries(tmp_path / "diaries")
        self.jobs = prepare(read(tmp_path / "file.toml").runs(), tmp_path / "runs", None)
        self.seconds = 0.1
        monkeypatch.setattr(driver, "command_of", self.command)

    def command(self, job: Job, threads: int, allow_inexact: bool) -> list[str]:
        diary = self.diaries.path(job)
        program = str(self.diaries.place / "run.py")
        return ["python", program, job.directory.name, str(diary), str(self.seconds)]

    def run(self, count: int, needs: Needs | None = None, **more: Any) -> Failed | None:
        address = self.cluster.address
        cluster = driver.Cluster(address, needs or Needs(), lease=LEASE, **more)
        return driver.run_all(self.jobs[:count], cluster, allow_inexact=False, title="many")

    def beside(self, act: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=act)
        thread.start()
        return thread
