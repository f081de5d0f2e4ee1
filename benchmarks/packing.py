"""Which is faster on this machine: one run with all its threads, or a run of one thread per core?

Throughput in sum, in frames/s, of PPO, CTRL and Stable-Baselines3's PPO. `crosstraj experiment
--jobs auto` follows what this showed. `make bench` has it; alone and smaller:

    python -m benchmarks.packing --steps 32 --turns 1
"""

import argparse
import multiprocessing
import statistics
import time
from dataclasses import replace
from multiprocessing.connection import Connection

import torch

from benchmarks.contenders import STEPS, Ours, StableBaselines3
from crosstraj.config.values import Config
from crosstraj.cores import usable_cores
from crosstraj.nn.native import keep_memory


def serve(config: Config | None, steps: int, threads: int, line: Connection) -> None:
    """In a process of its own: warm up, then a turn whenever it is asked for."""
    torch.set_num_threads(threads)
    if config is None:
        contender: Ours | StableBaselines3 = StableBaselines3(steps)
    else:
        keep_memory()  # as `crosstraj train` does
        contender = Ours(replace(config, rollout_steps=steps))
        contender.turn()
    line.send(contender.frames)
    while line.recv():
        contender.turn()
        line.send(None)


def throughput(config: Config | None, runs: int, threads: int, steps: int, turns: int) -> float:
    """Frames/s of so many runs at once, in sum: the median of some turns.

    config: of ours; None is Stable-Baselines3.
    """
    start, lines, processes = multiprocessing.get_context("spawn").Process, [], []
    for _ in range(runs):
        line, other = multiprocessing.Pipe()
        processes.append(start(target=serve, args=(config, steps, threads, other), daemon=True))
        processes[-1].start()
        lines.append(line)
    frames = sum(line.recv() for line in lines)
    rates = []
    for _ in range(turns):
        began = time.perf_counter()
        for line in lines:
            line.send(True)
        for line in lines:
            line.recv()
        rates.append(frames / (time.perf_counter() - began))
    for line, process in zip(lines, processes, strict=True):
        line.send(False)
        process.join()
    return statistics.median(rates)


def packings(configs: dict[str, Config | None], steps: int, turns: int) -> dict[str, str]:
    """Both ways of each, in words."""
    cores, told = usable_cores(), dict[str, str]()
    for name, config in configs.items():
        one = throughput(config, 1, cores, steps, turns)
        many = throughput(config, cores, 1, steps, turns)
        told[f"the machine in sum, {name}"] = (
            f"{one:.0f} frames/s as one run of {cores} threads, {many:.0f} as {cores} runs of one "
            f"thread ({many / one:.2f} times as many)"
        )
        print(f"  {name}: {told[f'the machine in sum, {name}']}", flush=True)
    return told


def main() -> None:
    from benchmarks.bench import configurations

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS, help="of a rollout")
    parser.add_argument("--turns", type=int, default=3, help="timed turns of each")
    given = parser.parse_args()
    ours = configurations()
    configs = {"ppo": ours["ppo"], "ctrl": ours["ctrl"], "stable-baselines3": None}
    packings(configs, given.steps, given.turns)


if __name__ == "__main__":
    main()
