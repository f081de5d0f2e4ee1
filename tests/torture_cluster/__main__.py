"""Kills nodes and drivers under real runs on a cluster: python -m tests.torture_cluster

Three nodes on this machine, 24 short runs, five node deaths and two driver deaths at random
moments, with a shared directory and with a shelf. Every run has to end with the bytes of a run that
was never touched; none may be trained by two processes at once or run to its end twice; no process
may be left. Then stand-ins for 360 and 1,440 runs: what a driver costs for each, and what it costs
to start one again. 16 minutes on two cores, and never more than 30. Exit code 1 if anything was
lost; the table is left in results/ when all of it was tried.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.cluster import SIZES
from tests.torture.runs import ROOT
from tests.torture_cluster.stand_ins import stand_ins
from tests.torture_cluster.trial import Result, Trial, attempt, untouched_runs

MINUTES = 29.0  # for everything; what is not done by then is lost
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
WHOLE = {"runs": 24, "frames": 4096, "node_kills": 5, "driver_kills": 2, "stand_ins": [360, 1440]}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture_cluster", description=__doc__)
    for name in ("runs", "frames", "node_kills", "driver_kills"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=WHOLE[name])
    parser.add_argument(
        "--stand-ins", type=int, nargs="+", default=WHOLE["stand_ins"], choices=list(SIZES)
    )
    parser.add_argument("--seed", type=int, default=0)
    modes = ["shared", "shelf", "stand-ins"]
    parser.add_argument("--only", nargs="+", choices=modes, default=modes)
    parser.add_argument("--out", type=Path, help="where the table goes, also of a part of it")
    given = parser.parse_args()
    if given.out is None and given.only == modes and WHOLE.items() <= vars(given).items():
        given.out = ROOT / "results"
    return given


def table(results: list[Result], minutes: float) -> str:
    lines = [
        "| trial | what was done to it | runs | finished | equal to the byte | resumed | faults |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in results:
        equal = "-" if row.equal is None else str(row.equal)
        resumed = "-" if row.resumed is None else str(row.resumed)
        lines.append(
            f"| {row.trial} | {row.tried} | {row.runs} | {row.finished} | {equal} | {resumed} | "
            f"{len(row.faults)} |"
        )
    faults = [f"- {row.trial}: {fault}" for row in results for fault in row.faults]
    return "\n".join([*lines, "", f"{minutes:.0f} minutes in all.", *([""] if faults else []),
                      *faults])  # fmt: skip


def real_runs(given: argparse.Namespace, place: Path, end: float) -> list[Result]:
    modes = [mode for mode in given.only if mode != "stand-ins"]
    if not modes:
        return []
    file = place / "torture.toml"
    file.write_text(FILE.format(frames=given.frames, seeds=list(range(given.runs))))
    print(f"{given.runs} runs that nothing happens to", flush=True)
    untouched = untouched_runs(file, place)
    results = []
    for mode in modes:
        print(f"{mode}: {given.runs} runs on three nodes", flush=True)
        strikes = ["node"] * given.node_kills + ["driver"] * given.driver_kills
        trial = Trial(mode, file, place, random.Random(given.seed))
        results.append(told(attempt(trial, strikes, untouched, end)))
    return results


def told(result: Result) -> Result:
    print(
        f"{result.trial}: {result.finished} of {result.runs} finished, {len(result.faults)} "
        f"faults, {result.seconds:.0f} s"
    )
    for fault in result.faults:
        print(f"    LOST: {fault}", flush=True)
    return result


def main() -> int:
    given, began = parse(), time.monotonic()
    end = began + 60 * MINUTES
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory(prefix="torture-cluster-") as root:
        os.environ["TMPDIR"] = root  # where nodes without a shared disk keep their runs
        results = real_runs(given, Path(root), end)
        if "stand-ins" in given.only:
            results += [told(result) for result in stand_ins(given.stand_ins, end)]
    minutes = (time.monotonic() - began) / 60
    text = table(results, minutes)
    print(f"\n{text}")
    if given.out:
        values = {"rows": [row._asdict() for row in results], "minutes": round(minutes, 1)}
        (given.out / "torture_cluster.md").write_text(f"# make torture-cluster\n\n{text}\n")
        (given.out / "torture_cluster.json").write_text(json.dumps(values, indent=1) + "\n")
    return 0 if results and all(row.good for row in results) else 1


if __name__ == "__main__":
    sys.exit(main())
