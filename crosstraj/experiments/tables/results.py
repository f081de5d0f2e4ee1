"""What the runs of an experiment have reached, read from their directories alone."""

import math
import statistics
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from crosstraj.config.values import LevelSplit
from crosstraj.errors import BadInput
from crosstraj.experiments.random_play import read as read_chance
from crosstraj.experiments.runs import Job
from crosstraj.report.document import as_json
from crosstraj.runs.log import read_rows


class Result(NamedTuple):
    """One run, up to its budget: what a longer run learnt later is not counted."""

    variant: str
    game: str
    seed: int
    budget: int
    directory: str
    easy: bool  # Procgen's easy mode, whose ranges are known
    frames: int  # of the last row that counts; 0: not begun
    finished: bool  # the policy was judged at the end of the budget
    levels: LevelSplit  # what it is judged by, beside the levels it trained on
    curve: list[tuple[int, float]]  # frames and return on these, at each evaluation
    figures: dict[str, float]  # the newest value of everything in metrics.jsonl
    extremes: dict[str, tuple[float, float]]  # and its lowest and highest
    speed: float  # frames per second of training, without evaluations; nan: not begun
    trouble: str  # why its files could not be read
    chance: float = math.nan  # return of random play on the same levels; nan: not measured

    @property
    def score(self) -> float:
        """The newest return on the levels it is judged by; nan: it has not been."""
        return self.figures.get(f"{self.levels}_return", math.nan)


class Spread(NamedTuple):
    """Mean over seeds, and their sample standard deviation: none for a single one."""

    mean: float
    deviation: float | None
    seeds: int

    def __str__(self) -> str:
        if not self.seeds:
            return "-"
        small = f"{self.mean:.2e}" if 0 < abs(self.mean) < 0.005 else f"{self.mean:.2f}"
        return small if self.deviation is None else f"{small} ± {self.deviation:.2g}"


def spread(values: Iterable[float]) -> Spread:
    """What is not finite is left out, and the number of seeds says so."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return Spread(math.nan, None, 0)
    deviation = statistics.stdev(finite) if len(finite) > 1 else None
    return Spread(statistics.fmean(finite), deviation, len(finite))


def read_result(job: Job, levels: LevelSplit = "unseen") -> Result:
    run, directory = job.planned, job.logs
    easy = job.config.procgen.mode == "easy"
    known = (run.variant, run.game, run.seed, run.frames, str(directory), easy)
    try:
        rows, timing = (read_rows(directory / f"{log}.jsonl") for log in ("metrics", "timing"))
        # A run that went on may not have stopped here to be judged: then it is not finished here.
        end = range(run.frames, run.frames + job.config.rollout_frames)
        judged = [row for row in rows if row["row"] == "evaluation" and row["frames"] in end]
        if judged:
            rows = [row for row in rows if row["frames"] <= judged[0]["frames"]]
        frames = rows[-1]["frames"] if rows else 0
        seconds = [row["seconds"] for row in timing if row["frames"] <= frames]
        figures: dict[str, float] = {}
        extremes: dict[str, tuple[float, float]] = {}
        for row in rows:
            new = {key: value for key, value in row.items() if key not in ("row", "frames")}
            figures |= new
            for key, value in new.items():
                low, high = extremes.get(key, (value, value))
                extremes[key] = (min(low, value), max(high, value))
        name = f"{levels}_return"
        curve = [(row["frames"], row[name]) for row in rows if name in row]
    except (BadInput, OSError, LookupError, TypeError) as error:
        said = f"{type(error).__name__}: {error}"
        return Result(*known, 0, False, levels, [], {}, {}, math.nan, said)
    chance = read_chance(job.config, levels)
    speed = frames / sum(seconds) if seconds else math.nan
    return Result(*known, frames, bool(judged), levels, curve, figures, extremes, speed, "", chance)


def area(curve: list[tuple[int, float]]) -> float:
    """Area under the curve from first to last evaluation, divided by its width: a mean return."""
    if len(curve) < 2:
        return math.nan
    steps = pairwise(curve)
    total = sum((right - left) * (low + high) / 2 for (left, low), (right, high) in steps)
    return total / (curve[-1][0] - curve[0][0])


def counted(results: list[Result]) -> list[Result]:
    """Those that a mean is taken of: the finished ones, or what has begun where none is."""
    return [r for r in results if r.finished] or [r for r in results if r.frames]


def state_of(results: list[Result]) -> str:
    """How much of a set of seeds there is, in words."""
    done = sum(r.finished for r in results)
    if done == len(results):
        return f"{done} of {done}" + (", no spread" if done == 1 else "")
    if done:
        return f"partial: {done} of {len(results)}" + (", no spread" if done == 1 else "")
    begun = [r.frames for r in results if r.frames]
    if not begun:
        return "not begun"
    reached = " to ".join(f"{n:,}" for n in sorted({min(begun), max(begun)}))
    return f"partial: none of {len(results)}; shown at {reached} of {results[0].budget:,} frames"


def write_json(path: Path, values: Mapping[str, Any]) -> Path:
    path.write_text(as_json(values))
    return path
