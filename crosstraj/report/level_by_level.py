"""Level by level: which levels a variant wins, and whether test levels repeat training levels."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from crosstraj.config.groups import LevelSplit
from crosstraj.learning.evaluation import SPLITS
from crosstraj.report.reading import FirstFrames, Played, RunData

Level = tuple[str, int]  # split and number


def level_returns(episodes: Iterable[Played]) -> dict[Level, float]:
    """Mean return of each level over all episodes on it."""
    scores: dict[Level, list[float]] = {}
    for episode in episodes:
        if episode.level >= 0:
            scores.setdefault((episode.split, episode.level), []).append(episode.score)
    return {level: float(np.mean(values)) for level, values in sorted(scores.items())}


class Outcome(NamedTuple):
    split: str
    won: int
    tied: int
    lost: int
    apart: int  # levels that cannot be compared: only one has played them, or a return is NaN


def won_and_lost(ours: Mapping[Level, float], theirs: Mapping[Level, float]) -> list[Outcome]:
    """Levels on which our mean return is above, equal to and below theirs, by split played."""
    found = []
    for split in SPLITS:
        levels = {level for level in (*ours, *theirs) if level[0] == split}
        if not levels:
            continue
        pairs = [(ours.get(level, math.nan), theirs.get(level, math.nan)) for level in levels]
        pairs = [(x, y) for x, y in pairs if not math.isnan(x + y)]
        tied = sum(math.isclose(x, y, abs_tol=1e-9) for x, y in pairs)
        won = sum(x > y and not math.isclose(x, y, abs_tol=1e-9) for x, y in pairs)
        apart = len(levels) - len(pairs)
        found.append(Outcome(split, won, tied, len(pairs) - won - tied, apart))
    return found


AUDIT_LIMIT = (
    "Levels are taken for the same if their first frames are equal to the byte. Such a frame is "
    "centred on the agent in many games and does not show the whole level: two levels with the "
    "same first frame may differ outside it, and levels of the same layout with another background "
    "look different. Only levels that were played are compared, and frames that an environment "
    "stacks are hashed as a stack. So a repeat is a suspicion, and none is no proof."
)


class Audit(NamedTuple):
    seen: int  # levels played in each split
    held_out: int
    repeats: dict[int, list[int]]  # held-out level -> seen levels with the same first frame
    doubles: int  # held-out levels that look like another held-out level
    shared: int  # level numbers in both splits: a leak
    unstable: int  # levels with more than one first frame: not the same level each time


def audit(first_frames: FirstFrames, held_out: LevelSplit) -> Audit:
    """Join the first frames of seen levels and of those that runs are judged by."""
    by_frame: dict[str, dict[str, list[int]]] = {}  # frame -> split -> levels
    for (split, level), frames in sorted(first_frames.items()):
        for frame in frames:
            by_frame.setdefault(frame, {name: [] for name in SPLITS})[split].append(level)
    repeats: dict[int, list[int]] = {}
    doubles: set[int] = set()
    for levels in by_frame.values():
        if len(levels[held_out]) > 1:
            doubles |= set(levels[held_out])
        for level in levels[held_out]:
            if twins := [twin for twin in levels["seen"] if twin != level]:
                repeats[level] = sorted({*repeats.get(level, []), *twins})
    seen, other = (
        {level for split, level in first_frames if split == name} for name in ("seen", held_out)
    )
    unstable = sum(len(frames) > 1 for frames in first_frames.values())
    return Audit(len(seen), len(other), repeats, len(doubles), len(seen & other), unstable)


def gather_frames(runs: Iterable[RunData]) -> FirstFrames:
    """The first frames of several runs with the same levels."""
    frames: FirstFrames = {}
    for run in runs:
        for level, hashes in run.first_frames.items():
            frames.setdefault(level, set()).update(hashes)
    return frames
