"""Runs that have saved several times, and all that lies in their directories."""

from pathlib import Path
from typing import Any

import torch

from crosstraj.runs import lock
from crosstraj.runs.directory import Run

CONFIG: dict[str, Any] = {"method": "ppo", "env": "bigfish", "seed": 0, "frames": 1000}


def open_run(place: Path) -> Run:
    return Run.open(place, CONFIG, "0" * 64, {}, warn=lambda sentence: None)


def saved(place: Path, *steps: int, finish: bool = False) -> Path:
    """A run that was saved and photographed at these frames; it keeps the last two saves."""
    with open_run(place) as run:
        for step in steps:
            run.metrics.write({"row": "update", "frames": step})
            weights = {"w": torch.full((100,), float(step))}
            assert run.save({"weights": weights, "step": step}, step)
            assert run.snapshot(weights, step)
        if finish:
            assert run.finish({"frames": 1000})
    return place


def everything(place: Path) -> dict[str, bytes | None]:
    """Every path below, with the bytes of files; the lock, whose owner changes, without."""
    return {
        str(path.relative_to(place)): None if path.is_dir() else path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.name != lock.NAME
    }
