"""Values and differences with intervals over levels: a paired bootstrap, for frames of one level
are no independent sample.

A resample draws as many levels as there are, with replacement; it is a row of weights, how often
each level was drawn. All encoders are judged on the same resamples, so a difference of two courses
is the difference on the same levels.
"""

import numpy as np
from numpy.typing import NDArray

from crosstraj.report.statistics import CONFIDENCE, NAN, RESAMPLES, Estimate

Floats = NDArray[np.float64]
Course = Floats  # [1 + R] a statistic on the levels as they are, then on each resample


def resamples(levels: int) -> Floats:
    """[1 + R, levels] weights: each level once, then how often it is in each resample."""
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(levels, np.full(levels, 1 / levels), RESAMPLES)
    return np.vstack([np.ones(levels), drawn])


def estimate(course: Course, levels: int) -> Estimate:
    """The value with its percentile interval; a single level has none.

    Resamples on which the statistic is not defined are left out.
    """
    if levels < 2 or np.isnan(course).all():
        return Estimate(float(course[0]))
    tails = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    low, high = np.nanquantile(course[1:], tails) if not np.isnan(course[1:]).all() else (NAN, NAN)
    return Estimate(float(course[0]), float(low), float(high))


def share_course(weights: Floats, part: Floats, whole: Floats, level: NDArray[np.int64]) -> Course:
    """Sum of `part` over sum of `whole`, both [n] by frame; `level` [n] counts from 0."""
    count = weights.shape[1]
    parts, wholes = (np.bincount(level, column, count) for column in (part, whole))
    return _divided(weights @ parts, weights @ wholes)


def auc_course(
    weights: Floats, score: Floats, positive: NDArray[np.bool_], level: NDArray[np.int64]
) -> Course:
    """Area under the ROC curve over the frames of all levels together; NaN without both kinds.

    It is the share of pairs of a positive and a negative frame that `score` orders rightly, ties
    as halves. Counted once per pair of levels, every resample is a quadratic form.
    """
    right, pairs = ordered_pairs(score, positive, level, weights.shape[1])
    return _divided(
        ((weights @ right) * weights).sum(1),
        ((weights @ pairs) * weights).sum(1),
    )


def ordered_pairs(
    score: Floats, positive: NDArray[np.bool_], level: NDArray[np.int64], count: int
) -> tuple[Floats, Floats]:
    """[i, j]: pairs of a positive of level i and a negative of j; the rightly ordered, and all."""
    high, home = score[positive], level[positive]
    right = np.zeros((count, count))
    for other in range(count):
        low = np.sort(score[~positive & (level == other)])
        below = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
        right[:, other] = np.bincount(home, below / 2, count)
    negatives = np.bincount(level[~positive], minlength=count)
    return right, np.outer(np.bincount(home, minlength=count), negatives).astype(np.float64)


def _divided(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)
