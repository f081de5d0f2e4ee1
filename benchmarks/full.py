"""`make bench-full`: every method beside PPO; how CTRL's cost grows with T, C, N, micro-batch ...

Shorter rollouts than `make bench`; every row is timed next to the default in the same minutes, and
given as a ratio to it, because a shared machine's speed drifts.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks import ising
from benchmarks.bench import configurations, memory
from benchmarks.contenders import GAME, Ours
from benchmarks.machine import Limit, flops_per_frame, phase_each_time
from crosstraj.config.groups import MachineConfig
from crosstraj.config.methods import METHODS
from crosstraj.config.presets import preset, with_gru
from crosstraj.config.values import Config
from crosstraj.data.level_replay import ReplayConfig
from crosstraj.nn.native import keep_memory
from crosstraj.objectives.ctrl import CTRLConfig

SLACK = 0.15  # how much slower than its FLOPs explain a method may be before the table says so


def variants() -> dict[str, Config]:
    """Each differs from CTRL's paper preset, with rollouts of 64 steps, in one value."""
    base = replace(configurations()["ctrl"], rollout_steps=64)
    assert isinstance(base.objective, CTRLConfig)
    rows = {f"default (T 2, C 200, N 32, piece {base.machine.piece})": base}
    for t in (4, 10):
        rows[f"T {t}"] = replace(base, objective=replace(base.objective, keypoints=t))
    for c in (50, 1000):
        rows[f"C {c}"] = replace(base, objective=replace(base.objective, clusters=c))
    for n in (16, 64):
        rows[f"N {n}"] = replace(base, envs=n)
    for piece in (16, 32, 64, 128, 512):
        rows[f"piece {piece}"] = replace(base, machine=replace(base.machine, piece=piece))
    torch_kernels = MachineConfig(kernels="torch")
    rows["torch's kernels, piece 128"] = replace(base, machine=torch_kernels)
    frugal = replace(base.machine, low_memory=True, piece=64)
    rows["low memory, piece 64"] = replace(base, machine=frugal)
    rows["one thread"] = replace(base, machine=replace(base.machine, threads=1))
    rows["torch's kernels, compiled"] = replace(base, machine=replace(torch_kernels, compile=True))
    return rows


def methods() -> dict[str, Config]:
    """Every method there is, and what changes PPO; PPO itself, the measure of all, first.

    PPG has an auxiliary phase after each rollout: every turn that is timed then holds its share.
    """
    names = sorted(METHODS, key=lambda name: name != "ppo")
    machine = configurations()["ppo"].machine
    rows = {
        name: replace(preset(name, "paper"), env=GAME, rollout_steps=64, machine=machine)
        for name in names
    }
    ppo = rows["ppo"]
    rows["ppg"] = phase_each_time(rows["ppg"])
    rows["ppo, levels replayed (PLR)"] = replace(ppo, replay=ReplayConfig(levels=True))
    rows["ppo, mean of the map (Impoola)"] = replace(ppo, pooling="mean")
    rows["ppo, GRU"] = with_gru(ppo)
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


def compare(rows: dict[str, Config], turns: int, limit: Limit) -> Iterator[dict[str, Any]]:
    """Each row timed next to the first one, and its cost and FLOPs as ratios to the first's."""
    base = Ours(next(iter(rows.values())))
    base_flops = sum(flops_per_frame(base.config).values())
    for name, config in rows.items():
        torch.set_num_threads(config.threads)
        made = time.perf_counter()
        other = Ours(config)
        if config.machine.compile:
            other.turn()  # compiles
            name += f" (after {time.perf_counter() - made:.0f} s of compiling)"
        mine, theirs = time_beside(base, other, turns)
        flops = sum(flops_per_frame(config).values()) / base_flops
        other.training.envs.close()
        yield {
            "name": name,
            "frames_per_second": 1 / theirs,
            "cost": theirs / mine,
            "flops": flops,
            # 1: as fast as its FLOPs at the first row's rate; below: something else costs time.
            "explained": flops * mine / theirs,
            "limit": limit.measure(),
        }
    base.training.envs.close()


def draw(by_method: list[dict[str, Any]], report: list[dict[str, Any]], out: Path) -> None:
    """Cost per frame, measured and as FLOPs explain it: methods to PPO, variants to the default."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    FigureCanvasAgg(figure)
    names = ("methods, to PPO", "variants of CTRL, to the default")
    for axes, rows, name in zip(figure.subplots(1, 2), (by_method, report), names, strict=True):
        rows = rows[::-1]
        places = range(len(rows))
        axes.barh(places, [row["cost"] for row in rows], color="#0072B2", label="measured")
        marks = [row["flops"] for row in rows]
        axes.scatter(marks, places, color="#D55E00", marker="|", s=200, label="by FLOPs", zorder=2)
        axes.set_yticks(places, [row["name"] for row in rows])
        axes.set_xlabel(f"cost per frame: {name}")
    axes.legend()
    figure.savefig(out, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="timed turns of each variant")
    parser.add_argument("--out", type=Path, default=Path("results/bench"))
    given = parser.parse_args()
    began = time.perf_counter()
    keep_memory()  # as `crosstraj train` does
    limit, lines = Limit(), list[str]()

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    say("| method | frames/s | to PPO | FLOPs to PPO | speed to what its FLOPs explain |")
    say("|---|---|---|---|---|")
    by_method: list[dict[str, Any]] = []
    for row in compare(methods(), given.turns, limit):
        by_method.append(row)
        slow = f" (slower by more than {SLACK:.0%})" if row["explained"] < 1 - SLACK else ""
        say(
            f"| {row['name']} | {row['frames_per_second']:.0f} | {1 / row['cost']:.2f} | "
            f"{row['flops']:.2f} | {row['explained']:.2f}{slow} |"
        )
    say("")
    say("| variant of ctrl | frames/s | cost to default | FLOPs to default |")
    say("|---|---|---|---|")
    report: list[dict[str, Any]] = []
    for row in compare(variants(), given.turns, limit):
        report.append(row)
        rate, cost, flops = row["frames_per_second"], row["cost"], row["flops"]
        say(f"| {row['name']} | {rate:.0f} | {cost:.2f} | {flops:.2f} |")
    say("")
    say("| frames per minibatch | peak memory, GB |")
    say("|---|---|")
    peaks = {8192 // count: memory(minibatches=count) / 1e9 for count in (4, 8, 16)}
    for frames, peak in peaks.items():
        say(f"| {frames} | {peak:.2f} |")
    say("")
    most, middle, least = peaks
    share = (middle - least) / (most - least)
    line = peaks[least] + share * (peaks[most] - peaks[least])
    say(f"A straight line through the first and the last gives {line:.2f} GB for the one between.")
    say("")
    for row_of_speeds in ising.table():
        say(row_of_speeds)
    minutes = (time.perf_counter() - began) / 60
    given.out.mkdir(parents=True, exist_ok=True)
    values = {"methods": by_method, "rows": report, "peak_memory": peaks, "minutes": minutes}
    (given.out / "full.json").write_text(json.dumps(values, indent=1))
    (given.out / "full.md").write_text("\n".join(lines) + "\n")
    draw(by_method, report, given.out / "full.png")
    print(f"\nwritten to {given.out} after {minutes:.1f} minutes")


if __name__ == "__main__":
    main()
