"""One experiment of real runs on a cluster of three nodes that falls apart and is mended."""

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import Job, prepare
from tests.torture.runs import different, fingerprint
from tests.torture_cluster.watch import Watch, processes_of

Fingerprints = dict[str, dict[str, str]]  # by the name of the run directory

# Not the head's address: a driver belongs to a node of its own address, which must be the head.
NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.2"}
SPEAK = 20.0  # seconds between two lines of progress


class Result(NamedTuple):
    trial: str
    tried: str  # what was done to it
    runs: int
    finished: int
    equal: int | None  # to the byte, with a run that was never touched; None: stand-ins
    resumed: int | None
    faults: tuple[str, ...]
    seconds: float

    @property
    def good(self) -> bool:
        return not self.faults and self.runs == self.finished and self.equal in (None, self.runs)


def command(file: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "crosstraj", "experiment", str(file), "--threads", "1", *words]


def jobs_in(file: Path, runs: Path) -> list[Job]:
    return prepare(read(file).runs(), runs, None)


def untouched_runs(file: Path, place: Path) -> Fingerprints:
    """The fingerprints of the runs as local processes that nothing happens to."""
    runs = place / "untouched"
    words = ("--runs", str(runs), "--out", str(place / "out"), "--jobs", "2")
    subprocess.run(command(file, *words), check=True, stdout=subprocess.DEVNULL)
    return {job.directory.name: fingerprint(job.directory) for job in jobs_in(file, runs)}


class Trial:
    """The cluster and the driver while it is open."""

    def __init__(self, mode: str, file: Path, place: Path, rng: random.Random) -> None:
        self.mode, self.file, self.place, self.rng = mode, file, place, rng
        runs = place / mode
        self.words = ("--shelf" if mode == "shelf" else "--runs", str(runs))
        self.log = place / f"{mode}-driver.log"
        self.jobs = jobs_in(file, runs)
        self.whole = sum(job.planned.frames for job in self.jobs)
        self.driver: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Trial":
        from ray.cluster_utils import Cluster

        self.cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.nodes = [self.cluster.add_node(**NODE, wait=False) for _ in range(3)]
        self.cluster.wait_for_nodes()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.driver is not None:
            self.driver.kill()
            self.driver.wait()
        self.cluster.shutdown()

    def start(self) -> None:
        more = ("--ray", self.cluster.address, *self.words, "--out", str(self.place / "out"))
        with self.log.open("ab") as log:
            self.driver = subprocess.Popen(command(self.file, *more), stdout=log, stderr=log)

    def progress(self) -> float:
        return sum(job.frames() for job in self.jobs) / self.whole

    def strike(self, what: str) -> None:
        """Kill, and start again after a while."""
        print(f"    {what} killed at {self.progress():.0%}", flush=True)
        if what == "node":
            victim = self.nodes.pop(self.rng.randrange(len(self.nodes)))
            self.cluster.remove_node(victim, allow_graceful=False)
            self.nodes.append(self.cluster.add_node(**NODE))
        else:
            assert self.driver is not None
            self.driver.kill()
            self.driver.wait()
            time.sleep(self.rng.uniform(0, 3))
            self.start()

    def carry_out(self, strikes: list[str], end: float) -> list[str]:
        """Strike at random parts of the whole and wait for the driver; what went wrong."""
        moments = sorted(self.rng.uniform(0.02, 0.95) for _ in strikes)
        due, spoke = list(zip(moments, strikes, strict=True)), time.monotonic()
        with Watch(self.place) as watch:
            while self.driver is not None and self.driver.poll() is None:
                if time.monotonic() > end:
                    return [*watch.twice, f"not done in time, at {self.progress():.0%}"]
                if due and self.progress() >= due[0][0]:
                    self.strike(due.pop(0)[1])
                if time.monotonic() - spoke > SPEAK:
                    spoke = time.monotonic()
                    done = sum(job.finished() for job in self.jobs)
                    print(f"    {self.progress():.0%}, {done} runs finished", flush=True)
                time.sleep(0.2)
        wrong = [f"a {what} was not killed: all was done before" for _, what in due]
        if self.driver is None or self.driver.returncode != 0:
            said = self.log.read_text()[-800:]
            wrong.append(f"the driver ended with {self.driver and self.driver.returncode}: {said}")
        # The driver has ended well, so all runs have: nothing may train any more.
        left = processes_of(self.place).items()
        return [*watch.twice, *wrong, *(f"process {pid} was left: {words}" for pid, words in left)]


def endings(said: str) -> int:
    """How often a run was trained to its end, by what its processes said.

    Each that leaves well lists its files; one that had nothing to do says so.
    """
    return said.count("\nfiles:") - said.count(" is done")


def judged(trial: Trial, untouched: Fingerprints) -> tuple[int, int, list[str]]:
    """How many runs are finished, how many of them equal, and every fault in a sentence."""
    finished = [job for job in trial.jobs if job.finished()]
    faults = [
        f"{job.planned.name} is lost at {job.frames():,} of {job.planned.frames:,} frames"
        for job in trial.jobs
        if job not in finished
    ]
    unlike = 0
    for job in finished:
        if found := different(fingerprint(job.directory), untouched[job.directory.name]):
            unlike += 1
            faults.append(f"{job.planned.name}: {found}")
        if (times := endings(said_by(job))) > 1:
            faults.append(f"{job.planned.name} was run to its end {times} times")
    return len(finished), len(finished) - unlike, faults


def attempt(trial: Trial, strikes: list[str], untouched: Fingerprints, end: float) -> Result:
    """Carry a trial out until the clock's `end`, and judge it."""
    began = time.monotonic()
    trial.rng.shuffle(strikes)
    with trial:
        faults = trial.carry_out(strikes, end)
    left = processes_of(trial.place).items()
    faults += [f"process {pid} outlived the cluster: {words}" for pid, words in left]
    finished, equal, wrong = judged(trial, untouched)
    return Result(
        f"{len(trial.jobs)} real runs, {trial.mode}",
        f"{strikes.count('node')} nodes and {strikes.count('driver')} drivers killed",
        runs=len(trial.jobs),
        finished=finished,
        equal=equal,
        resumed=sum("resuming" in said_by(job) for job in trial.jobs),
        faults=(*faults, *wrong),
        seconds=time.monotonic() - began,
    )


def said_by(job: Job) -> str:
    return job.log.read_text() if job.log.exists() else ""
