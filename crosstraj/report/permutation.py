"""Does a variant gain over the baseline? Relative gains of paired runs, and what they can show.

A run and the baseline's run of the same game and seed are a pair: they play the same levels. The
gain of a pair is (R_variant - R_baseline) / (mean R_baseline - R_random), in shares of what the
baseline has learnt in this game, so that no game counts for more because its returns are larger.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from crosstraj.report.statistics import CONFIDENCE, Estimate, Matrix, bootstrap

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


def verdict(ours: Returns, baseline: Returns, chance: Mapping[str, float]) -> Verdict:
    """What a variant gains over the baseline, and how sure that is."""
    pairs = pair(ours, baseline, chance)
    if not pairs.games:
        return Verdict(Estimate(math.nan), math.nan, {}, 0, pairs.left_out)
    by_game = dict(zip(pairs.games, pairs.gain.mean(0).tolist(), strict=True))
    gain = bootstrap([pairs.gain], lambda table: np.array([table.mean()]))[0]
    return Verdict(gain, sign_flip(pairs.gain), by_game, pairs.gain.size, pairs.left_out)


def sign_flip(gain: Matrix) -> float:
    """Two-sided p-value of the mean gain [seed, game] if each pair could as well be the other way.

    Signs are flipped pair by pair, so games are never mixed. Of at most 2^15 patterns all are gone
    through; otherwise as many are drawn, and the pattern that was found counts as one of them.
    """
    flat = gain.ravel()
    if 2**flat.size <= EXACT:
        bits = np.arange(2**flat.size)[:, None] >> np.arange(flat.size) & 1
        found = 0
    else:
        bits = np.random.default_rng(SEED).integers(0, 2, (EXACT, flat.size))
        found = 1
    sums = np.abs((1 - 2 * bits) @ flat)
    # Equal sums may differ in their last bits, by the order in which they are added.
    as_far = int((sums >= abs(flat.sum()) - 1e-9 * np.abs(flat).sum()).sum())
    return (as_far + found) / (len(bits) + found)


def is_shown(found: Verdict, level: float = LEVEL) -> bool:
    """Is there a difference, by the test and by the interval alike?"""
    return found.p <= level and not found.gain.low <= 0 <= found.gain.high


def in_words(variant: str, baseline: str, found: Verdict, level: float = LEVEL) -> str:
    """What may be said: a gain or loss that is shown, or which gains are excluded; never "none"."""
    value, low, high = (f"{100 * entry:+.1f} %" for entry in found.gain)
    if not found.pairs:
        return f"{variant}: no pair with {baseline} yet, so nothing can be said."
    sure, said = f"{CONFIDENCE:.0%}".replace("%", " %"), f"{variant} over {baseline}: {value}"
    if math.isnan(found.gain.low):
        return f"{said}; one seed has no interval, so nothing is shown and nothing excluded."
    said += f" ({sure} interval {low} to {high}, p = {found.p:.2g}, {found.pairs} pairs)"
    if is_shown(found, level):
        return f"{said}: a {'gain' if found.gain.value > 0 else 'loss'} is shown."
    if found.gain.high <= 0:
        return f"{said}: no gain is shown; any gain is excluded at {sure} at this budget."
    return (
        f"{said}: no gain is shown; a gain above {100 * found.gain.high:.1f} % is excluded at "
        f"{sure} at this budget."
    )
