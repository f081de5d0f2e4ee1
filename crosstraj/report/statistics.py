"""Statistics over games and seeds: rliable's aggregates (Agarwal et al., 2021) with intervals.

Scores have named axes, game -> one score per seed, so that nobody can swap them. rliable draws
from NumPy's global generator, which is seeded for each statistic and put back after it: an interval
depends on its scores alone. One seed has no interval. A NaN, which a comparison would take for a
low score, makes the whole statistic NaN.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rliable import library, metrics
from scipy.special import stdtrit

Scores = Mapping[str, Sequence[float]]  # game -> one score per seed
Matrix = NDArray[np.float64]  # [seed, game], as rliable wants it

RESAMPLES = 2000
CONFIDENCE = 0.95
NAN = float("nan")


class Estimate(NamedTuple):
    value: float
    low: float = NAN  # both NaN where there is no interval
    high: float = NAN


def matrix(scores: Scores) -> Matrix:
    """[seed, game], games in order of their names; each must have the same number of seeds."""
    counts = {game: len(values) for game, values in scores.items()}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        raise ValueError(f"games need equally many seeds, at least one; these have {counts}")
    return np.array([scores[game] for game in sorted(scores)], float).T


class Spread(NamedTuple):
    """Mean over seeds, and their sample standard deviation: none for a single one."""

    mean: float
    deviation: float | None
    seeds: int


def spread(values: Iterable[float]) -> Spread:
    """Of all values: a NaN among them makes it NaN."""
    known = list(values)
    if not known:
        return Spread(NAN, None, 0)
    if not all(map(math.isfinite, known)):
        return Spread(sum(known) / len(known), NAN if len(known) > 1 else None, len(known))
    return Spread(fmean(known), stdev(known) if len(known) > 1 else None, len(known))


def finite_spread(values: Iterable[float]) -> Spread:
    """What is not finite is left out, and the number of seeds says so."""
    return spread(value for value in values if math.isfinite(value))


AGGREGATES: dict[str, Callable[[Matrix], float]] = {
    "IQM": metrics.aggregate_iqm,
    "median": metrics.aggregate_median,
    "mean": metrics.aggregate_mean,
    "optimality gap": metrics.aggregate_optimality_gap,
}


def aggregate(scores: Scores) -> dict[str, Estimate]:
    """IQM, median, mean and optimality gap of normalised scores over games and seeds."""

    def statistic(table: Matrix) -> Matrix:
        return np.array([measure(table) for measure in AGGREGATES.values()])

    return dict(zip(AGGREGATES, bootstrap([matrix(scores)], statistic), strict=True))


def profile(scores: Scores, thresholds: Sequence[float]) -> list[Estimate]:
    """For each threshold, the share of runs that score above it."""
    taus = np.asarray(thresholds, float)

    def statistic(table: Matrix) -> Matrix:  # rliable's score_distributions, at once
        return np.mean(table.reshape(-1, 1) > taus, axis=0)

    return bootstrap([matrix(scores)], statistic)


def mean_difference(ours: Scores, theirs: Scores) -> Estimate:
    """Mean over games of our mean score minus theirs, with Welch's interval.

    Numbers of seeds may differ; where one has a single seed there is no interval. The bootstrap's
    is too narrow for a handful of seeds to call a difference clear.
    """
    check_games(ours, theirs)
    samples = [np.asarray(scores[game], float) for scores in (ours, theirs) for game in ours]
    value = np.mean([np.mean(ours[game]) - np.mean(theirs[game]) for game in ours])
    if min(map(len, samples)) < 2:
        return Estimate(float(value))
    variances = np.array([s.var(ddof=1) / len(s) for s in samples]) / len(ours) ** 2
    if not variances.any():
        return Estimate(*[float(value)] * 3)
    freedoms = variances.sum() ** 2 / sum(
        v**2 / (len(s) - 1) for v, s in zip(variances, samples, strict=True)
    )
    reach = stdtrit(freedoms, (1 + CONFIDENCE) / 2) * np.sqrt(variances.sum())
    return Estimate(float(value), float(value - reach), float(value + reach))


def check_games(ours: Scores, theirs: Scores) -> None:
    if set(ours) != set(theirs):
        raise ValueError(f"both need the same games; {set(ours) ^ set(theirs)} are of one alone")


def probability_of_improvement(ours: Scores, theirs: Scores) -> Estimate:
    """P(a run of ours beats one of theirs on the same game), ties as halves, mean over games."""
    check_games(ours, theirs)

    def statistic(x: Matrix, y: Matrix) -> Matrix:  # rliable's, at once instead of game by game
        above, level = x[:, None] > y[None], x[:, None] == y[None]
        return np.array([np.mean(above + 0.5 * level)])

    return bootstrap([matrix(ours), matrix(theirs)], statistic)[0]


def bootstrap(samples: Sequence[Matrix], statistic: Callable[..., Matrix]) -> list[Estimate]:
    """Each entry of a statistic with its percentile interval; seeds are drawn anew in each game."""
    value = statistic(*samples)
    if any(np.isnan(table).any() for table in samples):
        return [Estimate(NAN)] * len(value)
    if min(len(table) for table in samples) < 2:
        return [Estimate(float(entry)) for entry in value]
    # An array is resampled as it is, a list sample by sample.
    data: Any = samples[0] if len(samples) == 1 else list(samples)
    with _global_numpy(seed=0):
        _, intervals = library.get_interval_estimates(
            {"": data}, statistic, reps=RESAMPLES, confidence_interval_size=CONFIDENCE
        )
    low, high = intervals[""]
    return [Estimate(*map(float, entry)) for entry in zip(value, low, high, strict=True)]


@contextmanager
def _global_numpy(seed: int) -> Iterator[None]:
    """NumPy's global generator, from a seed, and afterwards as it was: rliable has no other."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
