"""What a driver costs on a cluster as the number of runs grows: python -m benchmarks.cluster

Stand-ins take the place of runs: they sleep and write a summary, so that what is measured is the
handing out, the waiting and the finding of one's place. For each number of runs a fresh driver (a
process of its own) runs them on a simulated cluster on this machine, and another is started when
they are done. Ten minutes on two cores.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GAMES = (
    *("bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot"),
    *("heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder", "starpilot"),
)
METHODS = ("ppo", "daac", "ctrl", "curl", "spr", "driml", "dbc", "proto", "diayn")
# Games and seeds, times nine methods.
SIZES = {36: (2, 2), 360: (8, 5), 720: (16, 5), 1440: (16, 10)}
FRAMES = 8_000_000
STAND_IN = """
mkdir -p "$2/$0" && sleep {seconds} &&
echo '{{"row": "update", "frames": {frames}}}' > "$2/$0/metrics.jsonl" &&
echo '{{"frames": {frames}, "unseen_return": 1.0}}' > "$2/$0/summary.json"
"""


def experiment(place: Path, runs: int) -> Path:
    games, seeds = SIZES[runs]
    file = place / "scale.toml"
    file.write_text(
        f'name = "scale"\ntitle = "Stand-ins"\nreproduces = "Nothing."\nframes = {FRAMES}\n'
        f"games = {json.dumps(GAMES[:games])}\nseeds = {list(range(seeds))}\n"
        f"methods = {json.dumps(METHODS)}\n"
    )
    return file


def drive(file: Path, address: str, seconds: float) -> dict[str, float]:
    """One driver's life; what it cost until it knew its place, and in all."""
    began = time.monotonic()  # nothing heavy is imported yet
    from crosstraj.experiments.cluster import driver
    from crosstraj.experiments.file import read
    from crosstraj.experiments.jobs import Job, prepare

    def command(job: Job, threads: int, allow_inexact: bool) -> list[str]:
        script = STAND_IN.format(seconds=seconds, frames=FRAMES)
        return ["sh", "-c", script, job.directory.name]

    jobs = prepare(read(file).runs(), file.parent / "runs", None)
    left = sum(not job.finished() for job in jobs)
    found = time.monotonic() - began
    driver.command_of = command
    before, started = time.process_time(), time.monotonic()
    trouble = driver.run_all(jobs, driver.Cluster(address), allow_inexact=False, title="scale")
    if trouble is not None:
        raise trouble
    return {
        "left": left,
        "place_seconds": found,  # from the start of the program, imports included
        "place_processor_seconds": before,
        "processor_seconds": time.process_time() - before,
        "seconds": time.monotonic() - started,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def driver_process(file: Path, address: str, seconds: float) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.cluster", "--drive", str(file), address]
    done = subprocess.run(
        [*words, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(runs: int, address: str, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="scale-") as place:
        file = experiment(Path(place), runs)
        whole, again = (driver_process(file, address, seconds) for _ in range(2))
    if (whole["left"], again["left"]) != (runs, 0):
        raise RuntimeError(f"{whole['left']} of {runs} runs were to run, then {again['left']}")
    return {
        "runs": runs,
        "driver_ms_per_run": 1000 * whole["processor_seconds"] / runs,
        "driver_mib": whole["memory_mib"],
        "seconds": whole["seconds"],
        "restart_seconds": again["place_seconds"],
        "restart_processor_seconds": again["place_processor_seconds"],
    }


def simulated(nodes: int, cpus: int) -> Any:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(nodes):
        # A driver belongs to a node of its own address: to the head, not to one of these.
        cluster.add_node(num_cpus=cpus, node_ip_address="127.0.0.2", wait=False)
    cluster.wait_for_nodes()
    return cluster


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument(
        "--runs", type=int, nargs="+", choices=list(SIZES), default=[360, 720, 1440]
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of a stand-in")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--cpus", type=int, default=4, help="of a node, in Ray's books")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    parser.add_argument("--drive", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        print(json.dumps(drive(Path(given.drive[0]), given.drive[1], given.seconds)))
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster, rows = simulated(given.nodes, given.cpus), list[dict[str, Any]]()
    print("| runs | driver, ms per run | driver, MiB | restart, s | of the processor | all, s |")
    print("|---:|---:|---:|---:|---:|---:|")
    try:
        for runs in given.runs:
            row = measure(runs, cluster.address, given.seconds)
            rows.append(row)
            print(
                f"| {runs} | {row['driver_ms_per_run']:.1f} | {row['driver_mib']:.0f} | "
                f"{row['restart_seconds']:.1f} | {row['restart_processor_seconds']:.1f} | "
                f"{row['seconds']:.0f} |",
                flush=True,
            )
    finally:
        cluster.shutdown()
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
