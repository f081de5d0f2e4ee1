"""`make bench-full`: how the cost grows with T, C, N, micro-batch, threads, memory, compiling.

Shorter rollouts than `make bench`; every row is timed next to the default in the same minutes, and
given as a ratio to it, because a shared machine's speed drifts.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.bench import memory
from benchmarks.contenders import GAME, Ours
from benchmarks.machine import Limit, flops_per_frame
from crosstraj.config import Config, preset
from crosstraj.methods import METHODS
from crosstraj.objectives import CTRLConfig


def variants() -> dict[str, Config]:
    """Each differs from CTRL's paper preset, with rollouts of 64 steps, in one value."""
    base = replace(preset("ctrl", "paper"), env=GAME, rollout_steps=64)
    assert isinstance(base.objective, CTRLConfig)
    rows = {"default (T 2, C 200, N 32, piece 128)": base}
    for t in (4, 10):
        rows[f"T {t}"] = replace(base, objective=replace(base.objective, keypoints=t))
    for c in (50, 1000):
        rows[f"C {c}"] = replace(base, objective=replace(base.objective, clusters=c))
    for n in (16, 64):
        rows[f"N {n}"] = replace(base, envs=n)
    for piece in (16, 32, 64, 256, 512):
        rows[f"piece {piece}"] = replace(base, machine=replace(base.machine, piece=piece))
    rows["native kernels"] = replace(base, machine=replace(base.machine, kernels="native"))
    rows["low memory"] = replace(base, machine=replace(base.machine, low_memory=True))
    rows["one thread"] = replace(base, machine=replace(base.machine, threads=1))
    rows["compiled"] = replace(base, machine=replace(base.machine, compile=True))
    for method in METHODS:
        rows[f"method {method}"] = replace(preset(method, "paper"), env=GAME, rollout_steps=64)
    return rows


def time_beside(base: Ours, other: Ours, turns: int) -> tuple[float, float]:
    """Median seconds per frame of both, taking turns after one to warm up."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns + 1):
        for contender, spent in zip((base, other), times, strict=True):
            torch.set_num_threads(contender.config.threads)
            seconds = contender.turn()["total"] / contender.frames
            if turn:
                spent.append(seconds)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="timed turns of each variant")
    parser.add_argument("--out", type=Path, default=Path("results/bench"))
    given = parser.parse_args()
    began = time.perf_counter()
    limit, rows = Limit(), variants()
    base = Ours(next(iter(rows.values())))
    report: list[dict[str, Any]] = []
    lines = ["| variant | frames/s | cost to default | FLOPs to default |", "|---|---|---|---|"]
    base_flops = sum(flops_per_frame(base.config).values())
    for name, config in rows.items():
        torch.set_num_threads(config.threads)
        made = time.perf_counter()
        other = Ours(config)
        if config.machine.compile:
            other.turn()  # compiles
        compile_seconds = time.perf_counter() - made if config.machine.compile else 0.0
        mine, theirs = time_beside(base, other, given.turns)
        flops = sum(flops_per_frame(config).values()) / base_flops
        note = f" (after {compile_seconds:.0f} s of compiling)" if config.machine.compile else ""
        row = {"variant": name + note, "frames_per_second": 1 / theirs}
        report.append({**row, "cost": theirs / mine, "flops": flops, "limit": limit.measure()})
        lines.append(f"| {name}{note} | {1 / theirs:.0f} | {theirs / mine:.2f} | {flops:.2f} |")
        print(lines[-1], flush=True)
        other.training.envs.close()
    lines += ["", "| frames per minibatch | peak memory, GB |", "|---|---|"]
    for count in (4, 8, 16):
        lines.append(f"| {8192 // count} | {memory(False, count) / 1e9:.2f} |")
        print(lines[-1], flush=True)
    minutes = (time.perf_counter() - began) / 60
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "full.json").write_text(json.dumps({"rows": report, "minutes": minutes}, indent=1))
    (given.out / "full.md").write_text("\n".join(lines) + "\n")
    print("\n".join(["", *lines, f"\nwritten to {given.out} after {minutes:.1f} minutes"]))


if __name__ == "__main__":
    main()
