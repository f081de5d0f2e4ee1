"""Kills nodes and drivers under real runs on a cluster: python -m tests.torture_cluster

Three nodes on this machine, 24 short runs, five node deaths and two driver deaths at random
moments, with a shared directory and with a shelf. Every run has to end with the bytes of a run that
was never touched; none may be trained by two processes at once or run to its end twice; no process
may be left. Exit code 1 if anything was lost.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import Job, prepare
from tests.torture.runs import different, fingerprint
from tests.torture_cluster.watch import Watch, processes_of

FILE = """
name = "torture"
title = "Short runs"
reproduces = "Nothing."
frames = {frames}
games = ["starpilot"]
seeds = {seeds}
methods = ["ppo"]

[base]
envs = 8
rollout_steps = 32
encoder = "laptop"
policy.minibatches = 2
evaluation.episodes = 2
evaluation.envs = 2
saving.checkpoint_seconds = 0
"""

# Not the head's address: a driver belongs to a node of its own address, which must be the head.
NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.2"}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture_cluster", description=__doc__)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--frames", type=int, default=2048)
    parser.add_argument("--node-kills", type=int, default=5)
    parser.add_argument("--driver-kills", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    modes = ["shared", "shelf"]
    parser.add_argument("--only", nargs="+", choices=modes, default=modes)
    return parser.parse_args()


def command(file: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "crosstraj", "experiment", str(file), "--threads", "1", *words]


def reference(file: Path, place: Path) -> dict[str, dict[str, str]]:
    """The fingerprints of the runs as local processes that nothing happens to."""
    words = ("--runs", str(place / "untouched"), "--out", str(place / "out"), "--jobs", "2")
    subprocess.run(command(file, *words), check=True, stdout=subprocess.DEVNULL)
    return {job.directory.name: fingerprint(job.directory) for job in jobs_in(file, words[1])}


def jobs_in(file: Path, runs: str) -> list[Job]:
    return prepare(read(file).runs(), Path(runs), None)


class Trial:
    """One experiment on a cluster that falls apart and is mended."""

    def __init__(self, file: Path, place: Path, mode: str, rng: random.Random) -> None:
        from ray.cluster_utils import Cluster

        self.file, self.place, self.rng = file, place, rng
        self.runs = place / mode
        self.words = ("--shelf" if mode == "shelf" else "--runs", str(self.runs))
        self.jobs = jobs_in(file, str(self.runs))
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.nodes = [self.cluster.add_node(**NODE, wait=False) for _ in range(3)]
        self.cluster.wait_for_nodes()
        self.driver = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        more = ("--ray", self.cluster.address, *self.words, "--out", str(self.place / "out"))
        with (self.place / "driver.log").open("ab") as log:
            return subprocess.Popen(command(self.file, *more), stdout=log, stderr=log)

    def progress(self) -> float:
        return sum(job.frames() for job in self.jobs) / sum(j.planned.frames for j in self.jobs)

    def strike(self, what: str) -> None:
        if what == "node":
            victim = self.nodes.pop(self.rng.randrange(len(self.nodes)))
            self.cluster.remove_node(victim, allow_graceful=False)
            self.nodes.append(self.cluster.add_node(**NODE))
        else:
            self.driver.kill()
            self.driver.wait()
            time.sleep(self.rng.uniform(0, 3))
            self.driver = self.start()
        print(f"    {what} killed at {self.progress():.0%}", flush=True)

    def carry_out(self, strikes: list[str], minutes: float) -> list[str]:
        """Strike at random parts of the whole, wait for the end; what is wrong."""
        moments = sorted(self.rng.uniform(0.02, 0.95) for _ in strikes)
        due, end = list(zip(moments, strikes, strict=True)), time.monotonic() + 60 * minutes
        with Watch(self.place) as watch:
            while time.monotonic() < end:
                while due and self.progress() >= due[0][0]:
                    self.strike(due.pop(0)[1])
                if self.driver.poll() is not None:
                    break
                time.sleep(0.2)
        wrong = [f"{what} was not killed: all was done before" for _, what in due]
        if self.driver.poll() != 0:
            log = (self.place / "driver.log").read_text()
            wrong.append(f"the driver ended with {self.driver.poll()}: {log[-800:]}")
            self.driver.kill()
        return wrong + watch.twice

    def close(self) -> list[str]:
        """End the cluster; the processes that are left."""
        before = processes_of(self.place)  # all runs have ended: nothing may train any more
        self.cluster.shutdown()
        return [f"process {pid} was left: {words}" for pid, words in before.items()]


def ended_twice(job: Job) -> str:
    """Each process that leaves well lists its files; one that had nothing to do says so."""
    said = job.log.read_text()
    trained = said.count("\nfiles:") - said.count(" is done")
    return f"{job.planned.name} was run to its end {trained} times" if trained > 1 else ""


def attempt(mode: str, given: argparse.Namespace, file: Path, place: Path,
            untouched: dict[str, dict[str, str]]) -> bool:  # fmt: skip
    began, rng = time.monotonic(), random.Random(given.seed)
    strikes = ["node"] * given.node_kills + ["driver"] * given.driver_kills
    rng.shuffle(strikes)
    trial = Trial(file, place, mode, rng)
    try:
        wrong = trial.carry_out(strikes, minutes=28)
    finally:
        left = trial.close()
    finished = [job for job in trial.jobs if job.finished()]
    for job in finished:
        if found := different(fingerprint(job.directory), untouched[job.directory.name]):
            wrong.append(f"{job.planned.name}: {found}")
        wrong += filter(None, [ended_twice(job)])
    resumed = sum("resuming" in job.log.read_text() for job in finished)
    print(
        f"{mode}: {len(finished)} of {len(trial.jobs)} runs finished, {resumed} of them resumed, "
        f"{len(wrong) + len(left)} faults, {time.monotonic() - began:.0f} s"
    )
    for sentence in wrong + left:
        print(f"    LOST: {sentence}", flush=True)
    return not wrong + left and len(finished) == len(trial.jobs)


def main() -> int:
    given = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="torture-cluster-") as root:
        place = Path(root)
        os.environ["TMPDIR"] = root  # where nodes without a shared disk keep their runs
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        file = place / "torture.toml"
        file.write_text(FILE.format(frames=given.frames, seeds=list(range(given.runs))))
        began = time.monotonic()
        untouched = reference(file, place)
        print(f"{len(untouched)} untouched runs, {time.monotonic() - began:.0f} s", flush=True)
        good = [attempt(mode, given, file, place, untouched) for mode in given.only]
        print(f"{(time.monotonic() - began) / 60:.1f} minutes in all")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
