"""Split over joint updates of the encoder: the statistic of the paper's split table.

The table prints, most likely, (split - joint) / |joint| and its plain mean over games, which a game
with joint returns near zero carries alone (SPR: +10.36 on bossfight makes a mean of +0.74 of a
median of -0.01). So the difference in units of the game's range stands beside it, and median and
IQM beside the mean.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rliable import metrics

from crosstraj.learning.evaluation import EASY_RANGE
from crosstraj.report.statistics import (
    NAN,
    Estimate,
    Matrix,
    Scores,
    bootstrap,
    check_games,
    matrix,
)


class Improvement(NamedTuple):
    ratio: float  # (split - joint) / |joint|; NaN where joint is 0
    ranged: float  # (split - joint) / (R_max - R_min), easy mode; NaN where no range is known


ABSENT = Improvement(NAN, NAN)
Means = Mapping[str, float]  # game -> mean return over seeds


class Improvements(NamedTuple):
    games: dict[str, Improvement]  # of the means over seeds
    ratio: dict[str, Estimate]  # "mean", "median" and "IQM" over games
    ranged: dict[str, Estimate]


def improvement(game: str, split: float, joint: float, *, easy: bool) -> Improvement:
    """Of one game, from the mean returns of both."""
    low, high = EASY_RANGE.get(game, (NAN, NAN)) if easy else (NAN, NAN)
    difference = split - joint
    return Improvement(difference / abs(joint) if joint else NAN, difference / (high - low))


def by_game(split: Means, joint: Means, *, easy: bool) -> dict[str, Improvement]:
    """Of every game that both have."""
    both = [game for game in split if game in joint]
    return {game: improvement(game, split[game], joint[game], easy=easy) for game in both}


CENTRES: dict[str, Callable[[Matrix], Any]] = {
    "mean": np.mean,
    "median": np.median,
    "IQM": metrics.aggregate_iqm,
}


def over_games(found: Sequence[Improvement]) -> dict[str, Improvement]:
    """Mean, median and IQM of both; NaN where a game's is, or where there is no game."""
    columns = np.array(found or [ABSENT]).T
    return {
        name: Improvement(*(float(centre(column)) for column in columns))
        for name, centre in CENTRES.items()
    }


def split_over_joint(split: Scores, joint: Scores, *, easy: bool) -> Improvements:
    """Raw returns on the same games, split against joint; intervals where both have two seeds."""
    check_games(split, joint)
    games = sorted(split)

    def found_in(*tables: Matrix) -> dict[str, Improvement]:
        means = (dict(zip(games, table.mean(0).tolist(), strict=True)) for table in tables)
        return by_game(*means, easy=easy)

    def statistic(*tables: Matrix) -> Matrix:
        return np.array([*over_games([*found_in(*tables).values()]).values()]).ravel()

    tables = [matrix(split), matrix(joint)]
    found = bootstrap(tables, statistic)
    ratio, ranged = (dict(zip(CENTRES, found[part::2], strict=True)) for part in (0, 1))
    return Improvements(found_in(*tables), ratio, ranged)
