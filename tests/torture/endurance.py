"""What lasts: observers beside a run, a long run, and what all this care costs."""

import signal
import statistics
import threading
import timeit
from pathlib import Path

import torch

from crosstraj.learning.load import read_config, read_weights
from crosstraj.runs import checkpoint
from crosstraj.runs.directory import LOGS
from crosstraj.runs.log import read_rows
from tests.torture.resume import FULL
from tests.torture.runs import (
    Job,
    Outcome,
    Workshop,
    directory_of,
    fault,
    finish,
    newest_of,
    read_notes,
    start,
    tally,
    wait_for_mark,
)

LOOKS = 1000
EVALUATIONS = 50
INTERVAL = 120.0  # seconds between checkpoints by default

ENDLESS = Job("ctrl", updates=10**6, evaluate_every=2)
SOAK = ENDLESS._replace(threads=1)  # it runs beside other rows


# --- An observer


def look(directory: Path) -> str:
    """Everything that a run directory offers while it is written."""
    try:
        for name in LOGS:
            frames = [row["frames"] for row in read_rows(directory / name)]
            if frames != sorted(frames):
                return f"{name}: rows are not in order"
        read_config(directory)
        weights, _ = read_weights(directory)
        return "" if weights["agent"] else "no weights"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def observers(shop: Workshop) -> Outcome:
    """Saves after each update; from the first one on, a look never fails."""
    runs = shop.place("observed")
    process = start(ENDLESS.command(runs), fault("runs.directory:Run.save", 1, "mark"))
    wait_for_mark(process)
    directory = directory_of(runs)
    before = len(read_rows(directory / "metrics.jsonl"))
    complaints = [look(directory) for _ in range(LOOKS)]
    process.send_signal(signal.SIGTERM)
    ended = finish(process)
    updates = len(read_rows(directory / "metrics.jsonl")) - before
    shop.figures["updates while being observed"] = updates
    if ended.code != 128 + signal.SIGTERM or not updates:  # then there was nothing to observe
        return tally(f"the run ended with {ended.code} after {updates} updates" for _ in complaints)
    return tally(complaints)


# --- A long run


def begin_soak(shop: Workshop) -> None:
    """A run beside the first rows, which notes its memory and open files, and is then stopped.

    It warms up for as long as it is then judged: the allocator finds its layout of large blocks in
    steps, which become rarer.
    """
    notes = fault("train:learn", 0, "sample", str(shop.root / "soak-samples"))
    shop.beside = start(SOAK.command(shop.place("soak")), notes, heard=False)
    clock = threading.Timer(2 * shop.soak_seconds, shop.beside.send_signal, [signal.SIGTERM])
    clock.daemon = True  # an early end of the torture does not wait for it
    clock.start()


def end_soak(shop: Workshop) -> None:
    """Where the torture itself was ended."""
    if shop.beside is not None:
        shop.beside.kill()
        shop.beside.wait()


def soak(shop: Workshop) -> Outcome:
    """Memory and open files over many updates and evaluations, after as long a warm-up."""
    assert shop.beside is not None
    ended, shop.beside = finish(shop.beside), None
    samples = read_notes(shop.root / "soak-samples")
    warm = [row for row in samples if row[0] >= samples[-1][0] - shop.soak_seconds]
    warm_up = (len(samples) - len(warm)) * SOAK.size.rollout_frames
    rows = read_rows(directory_of(shop.root / "soak") / "metrics.jsonl")
    evaluations = sum(row["row"] == "evaluation" and row["frames"] > warm_up for row in rows)
    edge = max(1, len(warm) // 10)
    memory = [statistics.median(row[1] for row in part) for part in (warm[:edge], warm[-edge:])]
    growth = memory[1] / memory[0] - 1
    handles = {row[2] for row in warm}
    shop.figures |= {
        "soak: seconds of warm-up, and after it": shop.soak_seconds,
        "soak: updates in all": len(samples),
        "soak: updates after warm-up": len(warm),
        "soak: evaluations after warm-up": evaluations,
        "soak: resident memory after warm-up, MB": round(memory[0] / 1e6, 1),
        "soak: growth after warm-up, %": round(100 * growth, 3),
        "soak: growth in all, %": round(100 * (memory[1] / samples[0][1] - 1), 3),
        "soak: open files": sorted(handles),
    }
    enough = evaluations >= EVALUATIONS or shop.soak_seconds < 600
    return tally(
        [
            "" if ended.code == 143 else f"it did not end as asked: {ended}",
            "" if growth < 0.01 else f"memory grew by {growth:.1%}",
            "" if len(handles) == 1 else f"open files: {sorted(handles)}",
            "" if enough else f"{evaluations} evaluations only",
        ]
    )


# --- The price


def guard_seconds() -> float:
    """The looks for what is not finite, per update: rewards, each step's norm, each mean."""
    reward, norm = torch.zeros(256, 32), torch.tensor(1.0)
    steps, means = 8 + 8, 30  # optimiser steps and recorded figures of the shipped preset

    def seconds(look: object) -> float:
        return min(timeit.repeat(look, number=1000, repeat=5)) / 1000  # type: ignore[arg-type]

    return seconds(lambda: bool(reward.isfinite().all())) + (steps + means) * seconds(
        lambda: bool(norm.isfinite())
    )


def cost(shop: Workshop) -> Outcome:
    """Saves and guards as a share of training time, with the shipped preset."""
    reference = shop.reference(FULL)
    newest = newest_of(directory_of(reference.runs))
    sizes = {name: (newest / name).stat().st_size for name in checkpoint.FILES}
    saving = reference.save_seconds / INTERVAL
    guarding = guard_seconds() / reference.update_seconds
    shop.figures |= {
        "shipped preset: seconds per update": round(reference.update_seconds, 2),
        "shipped preset: seconds per save": round(reference.save_seconds, 3),
        "shipped preset: checkpoint, MB": round(sum(sizes.values()) / 1e6, 2),
        "shipped preset: checkpoint by file, bytes": sizes,
        "saves at the default interval, % of training time": round(100 * saving, 3),
        "guards, % of training time": round(100 * guarding, 5),
    }
    total = saving + guarding
    return tally(["" if total < 0.01 else f"saves and guards take {total:.1%} of training time"])
