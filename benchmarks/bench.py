"""`make bench`: PPO and CTRL against the machine's limit and against peers, in one run.

Contenders take turns, each in a process of its own, so that none profits or suffers from the
settings of another; the limit is timed between the turns. Prints a table; writes JSON and a figure.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.contenders import GAME, STEPS, Ours, StableBaselines3, Textbook
from benchmarks.kernels import ceiling, our_ceiling
from benchmarks.machine import (
    Limit,
    cpu_seconds,
    flops_per_frame,
    peak_memory,
    seconds_to_first_step,
)
from benchmarks.packing import packings
from crosstraj.config.groups import MachineConfig
from crosstraj.config.presets import preset
from crosstraj.config.values import Config
from crosstraj.nn.compiler import compiler, has_bf16
from crosstraj.nn.native import keep_memory

PARTS = ("environment", "acting", "objective", "policy", "rest")


def configurations() -> dict[str, Config]:
    """What is timed of ours: one epoch, 32 x 256, 8 minibatches; C kernels where there is a
    compiler, and bf16 as well where the processor has it."""
    native = MachineConfig(kernels="native", piece=256)
    machine = native if compiler() else MachineConfig(kernels="torch")
    bf16 = replace(machine, precision="bf16", piece=128)
    ctrl = replace(preset("ctrl", "paper"), env=GAME, machine=machine)
    ppo = replace(preset("ppo", "paper"), env=GAME, machine=machine)
    situations = replace(preset("situations", "paper"), env=GAME, machine=machine)
    rows = {
        "ppo": ppo,
        "ppo, stretches": replace(ppo, policy=situations.policy),  # the minibatches of the next
        "situations": situations,
        "ctrl": ctrl,
        "ctrl, policy first": replace(ctrl, order="policy"),
    }
    if has_bf16():
        rows |= {"ppo, bf16": replace(ppo, machine=bf16), "ctrl, bf16": replace(ctrl, machine=bf16)}
    return rows


PEERS: dict[str, type[StableBaselines3] | type[Textbook]] = {
    "stable-baselines3": StableBaselines3,
    "textbook": Textbook,
}


def serve(name: str, threads: int, line: Connection) -> None:
    """In the contender's own process: warm up, then a turn whenever it is asked for."""
    torch.set_num_threads(threads)
    if name in PEERS:
        PEERS[name](steps=32).turn()  # a whole turn takes more than a minute
        contender: Ours | StableBaselines3 | Textbook = PEERS[name]()
    else:
        keep_memory()  # as `crosstraj train` does
        contender = Ours(configurations()[name])
        contender.turn()
    line.send(contender.frames)
    while line.recv():
        line.send(contender.turn())


class Contender:
    """A contender in another process."""

    def __init__(self, name: str, threads: int) -> None:
        self.line, other = multiprocessing.Pipe()
        start = multiprocessing.get_context("spawn").Process
        self.process = start(target=serve, args=(name, threads, other), daemon=True)
        self.process.start()
        self.frames: int = self.line.recv()

    def turn(self) -> dict[str, float]:
        """Seconds by part, and in all."""
        self.line.send(True)
        spent: dict[str, float] = self.line.recv()
        return spent

    def close(self) -> None:
        self.line.send(False)
        self.process.join()


def race(contenders: dict[str, Contender], turns: int, limit: Limit) -> dict[str, dict[str, float]]:
    """Medians over the turns: frames/s, and seconds by part. Peers sit out every second round:
    theirs are long, and each has eight optimiser steps.
    """
    times: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for round_ in range(turns):
        for name, contender in contenders.items():
            if name in PEERS and round_ % 2:
                continue
            limit.measure()
            times[name].append(contender.turn())
            rate = contender.frames / times[name][-1]["total"]
            print(f"  turn {round_ + 1}/{turns}  {name:<20} {rate:7.0f} frames/s", flush=True)
    result: dict[str, dict[str, float]] = {}
    for name, spent_list in times.items():
        middle = {
            part: statistics.median(s.get(part, 0.0) for s in spent_list) for part in spent_list[0]
        }
        rates = sorted(contenders[name].frames / s["total"] for s in spent_list)
        result[name] = {
            **{f"seconds_{part}": value for part, value in middle.items()},
            "frames_per_second": contenders[name].frames / middle["total"],
            "turns": len(rates),
            "slowest": rates[0],
            "fastest": rates[-1],
        }
    return result


def memory(name: str = "ctrl", *, low: bool = False, minibatches: int = 8) -> int:
    """Peak of a fresh process that trains one of the configurations for two updates."""
    config = configurations()[name]
    with tempfile.TemporaryDirectory() as runs:
        sizes = "--frames 16384 --evaluation.episodes 8 --evaluation.envs 8"
        sizes += f" --representation.minibatches {minibatches}"
        what = f"--method {config.method} --preset {config.preset} --env {GAME}"
        piece = 64 if low else config.machine.piece
        what += f" --machine.kernels {config.machine.kernels} --machine.piece {piece}"
        what += f" --machine.low-memory {low}"
        return peak_memory([*what.split(), *sizes.split(), "--saving.runs", runs])


def table(report: dict[str, Any]) -> str:
    limit = report["limit_gflops"]
    lines = [
        f"limit: {limit:.0f} GFLOP/s (fp32 matrix multiplication, {report['threads']} threads); "
        f"our convolutions: {report['kernels']}",
        "",
        "| who | frames/s | slowest - fastest | turns | MFLOP/frame | of the limit | "
        + " | ".join(PARTS)
        + " |",
        "|---" * (6 + len(PARTS)) + "|",
    ]
    for name, row in report["contenders"].items():
        shares = [f"{row[key]:.1f} s" if (key := f"seconds_{p}") in row else "" for p in PARTS]
        cost = f"{row['mflops_per_frame']:.0f}"
        lines.append(
            f"| {name} | {row['frames_per_second']:.0f} | {row['slowest']:.0f} - "
            f"{row['fastest']:.0f} | {row['turns']:.0f} | {cost} | {row['fraction']:.0%} | "
            + " | ".join(shares)
            + " |"
        )
    lines += ["", *(f"{what}: {value}" for what, value in report["figures"].items())]
    return "\n".join(lines)


def figures_of(rows: dict[str, dict[str, float]]) -> dict[str, str]:
    """The ratios that people ask for."""
    rate = {name: row["frames_per_second"] for name, row in rows.items()}
    both = [name for name in ("ppo", "ctrl") if f"{name}, bf16" in rate]
    faster = {f"bf16 over fp32, {n}": f"{rate[f'{n}, bf16'] / rate[n]:.2f}" for n in both}
    return faster | {
        "PPO over Stable-Baselines3": f"{rate['ppo'] / rate['stable-baselines3']:.2f}",
        "PPO over the textbook loop": f"{rate['ppo'] / rate['textbook']:.2f}",
        "CTRL, policy first, over PPO": f"{rate['ctrl, policy first'] / rate['ppo']:.2f}",
        "situations over PPO, same minibatches": (
            f"{rate['situations'] / rate['ppo, stretches']:.2f}"
        ),
        "CTRL's fraction less PPO's": f"{rows['ctrl']['fraction'] - rows['ppo']['fraction']:+.1%}",
    }


def draw(report: dict[str, Any], out: Path) -> None:
    rows = report["contenders"]
    figure = Figure(figsize=(7, 3), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    names = list(rows)[::-1]
    bars = axes.barh(names, [rows[n]["frames_per_second"] for n in names], color="#0072B2")
    axes.bar_label(bars, [f"{rows[n]['fraction']:.0%}" for n in names], padding=3)
    axes.margins(x=0.15)
    axes.set_title("with each bar: the share of the machine's fp32 limit", fontsize="medium")
    axes.set_xlabel(f"frames/s ({report['threads']} CPU threads, IMPALA, 32 x 256, one epoch)")
    figure.savefig(out, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--turns", type=int, default=5, help="timed turns of ours; half as many of the peers"
    )
    parser.add_argument("--out", type=Path, default=Path("results/bench"))
    given = parser.parse_args()
    began = time.perf_counter()
    limit, configs = Limit(), configurations()
    torch.set_num_threads(configs["ppo"].threads)
    parts = {name: flops_per_frame(config) for name, config in configs.items()}
    flops = {name: sum(counted.values()) for name, counted in parts.items()}
    threads = configs["ppo"].threads
    contenders = {name: Contender(name, threads) for name in (*configs, *PEERS)}
    rows = race(contenders, given.turns, limit)
    for contender in contenders.values():
        contender.close()
    rate = limit.median()
    for name, row in rows.items():
        row["mflops_per_frame"] = flops.get(name, flops["ppo"]) / 1e6
        achieved = row["frames_per_second"] * row["mflops_per_frame"] * 1e6
        row["fraction"] = achieved / rate
    figures = figures_of(rows)
    for name, counted in parts.items():
        words = (f"{part} {value / 1e6:.1f}" for part, value in counted.items() if value)
        figures[f"MFLOP per frame, {name}"] = ", ".join(words)
    for kind, fraction in ceiling(configs["ppo"].machine.piece, limit.measure).items():
        figures[f"torch's convolution kernels alone, {kind}"] = f"{fraction:.0%} of the limit"
    if configs["ppo"].machine.kernels == "native":
        keep_memory()
        for kind, fraction in our_ceiling(configs["ppo"].machine.piece, limit.measure).items():
            figures[f"our convolution kernels alone, {kind}"] = f"{fraction:.0%} of the limit"
    configs_packed = {"ppo": configs["ppo"], "ctrl": configs["ctrl"], "stable-baselines3": None}
    figures |= packings(configs_packed, STEPS, turns=2)
    peaks = {"ctrl": memory(), "ctrl, low memory": memory(low=True)}
    peaks["situations"] = memory("situations")
    figures |= {f"peak memory, {name}": f"{peak / 1e9:.2f} GB" for name, peak in peaks.items()}
    for command in (["--help"], ["methods"], ["train", "--help"]):
        figures[f"CPU time of crosstraj {' '.join(command)}"] = f"{cpu_seconds(command):.2f} s"
    figures["time to the first environment step"] = f"{seconds_to_first_step():.1f} s"
    report = {
        "limit_gflops": rate / 1e9,
        "threads": torch.get_num_threads(),
        "kernels": configs["ppo"].machine.kernels,
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "contenders": rows,
        "figures": figures,
        "minutes": (time.perf_counter() - began) / 60,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "bench.json").write_text(json.dumps(report, indent=1))
    (given.out / "bench.md").write_text(table(report) + "\n")
    draw(report, given.out / "bench.png")
    print(f"\n{table(report)}\n\nwritten to {given.out} after {report['minutes']:.1f} minutes")


if __name__ == "__main__":
    main()
