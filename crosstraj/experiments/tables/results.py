"""What the runs of an experiment have reached, read from their directories or kept files."""

import math
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from crosstraj.config.groups import LevelSplit
from crosstraj.experiments.cost import cost_of
from crosstraj.experiments.jobs import Job
from crosstraj.experiments.random_play import read as read_chance
from crosstraj.report.reading import UNREADABLE, Rows, reached
from crosstraj.runs.read import timing


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
    chance_seen: float = math.nan  # the same on the levels it trained on
    hours: float = math.nan  # the processor's, of training and evaluations; nan: not counted

    @property
    def score(self) -> float:
        """The newest return on the levels it is judged by; nan: it has not been."""
        return self.figures.get(f"{self.levels}_return", math.nan)


def read_result(job: Job, levels: LevelSplit = "unseen") -> Result:
    run, directory = job.planned, job.logs
    easy = job.config.procgen.mode == "easy"
    known = (run.variant, run.game, run.seed, run.frames, str(directory), easy)
    try:
        found = reached(directory, run.frames, levels, job.config.rollout_frames)
        seconds = [row["seconds"] for row in timing(directory) if row["frames"] <= found.frames]
        speed = found.frames / sum(seconds) if seconds else math.nan
        figures: dict[str, float] = {}
        extremes: dict[str, tuple[float, float]] = {}
        for row in found.rows:
            new = {key: value for key, value in row.items() if key not in ("row", "frames")}
            figures |= new
            for key, value in new.items():
                low, high = extremes.get(key, (value, value))
                extremes[key] = (min(low, value), max(high, value))
    except UNREADABLE as error:
        said = f"{type(error).__name__}: {error}"
        return Result(*known, 0, False, levels, [], {}, {}, math.nan, said)
    curve = [(judged.frames, judged.held_out) for judged in found.evaluations]
    cost = cost_of(directory, run.frames)
    hours = math.nan if cost is None or cost.by_clock else cost.hours
    read = (curve, figures, extremes, speed, "", read_chance(job.config, levels))
    result = Result(*known, found.frames, found.finished, levels, *read)
    return result._replace(hours=hours, chance_seen=read_chance(job.config, "seen"))


def updates(result: Result) -> Rows:
    """The rows of a run's updates, as far as it counts; none of one that could not be read."""
    place = Path(result.directory)
    return reached(place, result.frames, result.levels).updates if result.frames else []


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
