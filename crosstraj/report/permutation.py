"""Does a variant gain over the baseline? Relative gains of paired runs, and what they can show.

A run and the baseline's run of the same game and seed are a pair: they play the same levels. The
gain of a pair is (R_variant - R_baseline) / (mean R_baseline - R_random), in shares of what the
baseline has learnt in this game, so that no game counts for more because its returns are larger.

What is shown and what is excluded follows from one test: the signs of gains less d are flipped,
and the d that it does not reject are the interval. It assumes that the gains of pairs are
independent and symmetric around d, and nothing of their shape. In simulations with three or five
seeds of three games (tests/report/test_permutation.py) it holds the true gain in 95 % of
comparisons, also where one game is far noisier than another; in more where games differ in their
gain; in 90 % where gains are as skew as waiting times. The percentile interval of a bootstrap,
which is shown beside it, is too narrow for so few seeds: it holds the true gain in 74 to 90 %, so
nothing is decided by it.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosstraj.report.statistics import CONFIDENCE, NAN, Estimate, Matrix, bootstrap

Returns = Mapping[str, Mapping[int, float]]  # game -> seed -> raw return

EXACT = 2**15  # sign patterns that are all gone through; of more than that, as many are drawn
SEED = 0  # of that draw
LEVEL = 1 - CONFIDENCE


class Pairs(NamedTuple):
    games: list[str]
    seeds: list[int]  # which all of these games have, of both variants
    gain: Matrix  # [seed, game]
    left_out: dict[str, str]  # game -> why


class Verdict(NamedTuple):
    gain: Estimate  # mean over games and seeds, with the interval of a bootstrap over seeds
    p: float  # two-sided, of the sign-flip test; NaN where there is no pair
    level: float  # the p that counts
    low: float  # of the gains that the test does not reject at this level; NaN: one seed, or none
    high: float
    by_game: dict[str, float]  # mean over seeds
    pairs: int
    left_out: dict[str, str]


def pair(ours: Returns, baseline: Returns, chance: Mapping[str, float]) -> Pairs:
    """Gains of paired runs; `chance` is the return of random play by game."""
    left_out: dict[str, str] = {}
    shared: dict[str, set[int]] = {}
    for game in baseline:
        both = {
            seed
            for seed, theirs in baseline[game].items()
            if math.isfinite(theirs + ours.get(game, {}).get(seed, math.nan))
        }
        if not both:
            left_out[game] = "no seed is finished by both"
        elif math.isnan(chance.get(game, math.nan)):
            left_out[game] = "random play is not measured"
        else:
            shared[game] = both
    seeds = sorted(set.intersection(*shared.values())) if shared else []
    columns: dict[str, list[float]] = {}
    for game in shared if seeds else ():
        theirs = np.array([baseline[game][seed] for seed in seeds])
        learnt = theirs.mean() - chance[game]
        if learnt > 0:
            columns[game] = [(ours[game][s] - baseline[game][s]) / learnt for s in seeds]
        else:
            left_out[game] = "the baseline is not above random play"
    table = np.array([*columns.values()], float).reshape(len(columns), len(seeds)).T
    return Pairs([*columns], seeds if columns else [], table, left_out)


def verdict(
    ours: Returns, baseline: Returns, chance: Mapping[str, float], level: float = LEVEL
) -> Verdict:
    """What a variant gains over the baseline, and how sure that is."""
    pairs = pair(ours, baseline, chance)
    if not pairs.games:
        return Verdict(Estimate(NAN), NAN, level, NAN, NAN, {}, 0, pairs.left_out)
    by_game = dict(zip(pairs.games, pairs.gain.mean(0).tolist(), strict=True))
    gain = bootstrap([pairs.gain], lambda table: np.array([table.mean()]))[0]
    # One seed in many games says nothing of what another seed would do.
    limits = not_rejected(pairs.gain, level) if len(pairs.seeds) > 1 else (NAN, NAN)
    p = sign_flip(pairs.gain)
    return Verdict(gain, p, level, *limits, by_game, pairs.gain.size, pairs.left_out)


def sign_flip(gain: Matrix) -> float:
    """Two-sided p-value of the mean gain [seed, game] if each pair could as well be the other way.

    Signs are flipped pair by pair, so games are never mixed.
    """
    flat = gain.ravel()
    sums = np.abs((1 - 2 * patterns(flat.size)) @ flat)
    # Equal sums may differ in their last bits, by the order in which they are added.
    as_far = sums >= abs(flat.sum()) - 1e-9 * np.abs(flat).sum()
    return float(as_far.mean())


def not_rejected(gain: Matrix, level: float = LEVEL) -> tuple[float, float]:
    """The least and the largest d for which the test of gain - d has a p above the level.

    Flipping some pairs takes the sum of gain - d as far as it was if d lies between the mean gain
    of these pairs and that of all others. So the p of a d above the mean of all is the share of
    patterns in which the larger of the two means is at least d: the limits are quantiles of these
    means, and infinite where there are too few patterns for any d to be rejected.
    """
    flat = gain.ravel()
    flipped = patterns(flat.size)
    count, total = flipped.sum(1), flipped @ flat
    both = (count > 0) & (count < flat.size)  # otherwise the pattern is as far whatever d is
    flips, others = np.maximum(count, 1), np.maximum(flat.size - count, 1)
    means = np.array([total / flips, (flat.sum() - total) / others])
    low = np.where(both, means.min(0), -np.inf)
    high = np.where(both, means.max(0), np.inf)
    rejected = int(level * len(flipped))  # patterns that are as far, at most, where d is rejected
    return float(np.sort(low)[rejected]), float(np.sort(high)[-1 - rejected])


def patterns(pairs: int) -> NDArray[np.int64]:
    """Which pairs are flipped [pattern, pair], none of them in the first pattern.

    Of at most 2^15 patterns there are all; otherwise as many are drawn beside the first.
    """
    if 2**pairs <= EXACT:
        return np.arange(2**pairs)[:, None] >> np.arange(pairs) & 1
    drawn = np.random.default_rng(SEED).integers(0, 2, (EXACT, pairs))
    return np.concatenate([np.zeros_like(drawn[:1]), drawn])


def is_shown(found: Verdict) -> bool:
    """Is there a difference? Never of one seed, which has no limits."""
    return found.p <= found.level and math.isfinite(found.low + found.high)


def in_words(variant: str, baseline: str, found: Verdict) -> str:
    """What may be said: a gain or loss that is shown, or which gains are excluded; never "none"."""
    said = measured(variant, baseline, found)
    if not found.pairs:
        return said
    if math.isnan(found.high):
        return f"{said}; one seed has no interval, so nothing is shown and nothing excluded."
    if is_shown(found):
        return f"{said}: a {'gain' if found.gain.value > 0 else 'loss'} is shown."
    if math.isinf(found.high):
        return f"{said}: so few pairs can show nothing and exclude nothing."
    return (
        f"{said}: no gain is shown; a gain above {100 * found.high:.1f} % is excluded at "
        f"{sure(found.level)} at this budget."
    )


def measured(variant: str, baseline: str, found: Verdict) -> str:
    """The figures alone, without what they show."""
    if not found.pairs:
        return f"{variant}: no pair with {baseline} yet, so nothing can be said."
    said = f"{variant} over {baseline}: {100 * found.gain.value:+.1f} %"
    if math.isnan(found.high):
        return said
    low, high = (f"{100 * limit:+.1f} %" for limit in (found.low, found.high))
    limits = f"{sure(found.level)} interval {low} to {high}, " if math.isfinite(found.high) else ""
    return f"{said} ({limits}p = {found.p:.2g}, {found.pairs} pairs)"


def sure(level: float) -> str:
    return f"{100 * (1 - level):.3g} %"
