"""Normalised scores of an experiment's variants: their mean, and what one gains over the others."""

import math
from statistics import fmean

from crosstraj.experiments.tables.results import Result
from crosstraj.learning.evaluation import EASY_RANGE, normalised
from crosstraj.report.cells import row, with_interval
from crosstraj.report.statistics import Estimate, Scores, aggregate, mean_difference

Cells = dict[tuple[str, str], list[Result]]  # (variant, game) -> its seeds


def rangeable(cells: Cells) -> bool:
    """Does every game have a range to normalise by?"""
    easy = all(result.easy for cell in cells.values() for result in cell)
    return easy and all(game in EASY_RANGE for _, game in cells)


def normalised_scores(cells: Cells, variant: str, games: list[str]) -> dict[str, list[float]]:
    """Held-out returns of the finished seeds in units of the games' ranges."""
    return {
        game: [
            normalised(game, r.score)
            for r in cells.get((variant, game), [])
            if r.finished and not math.isnan(r.score)
        ]
        for game in games
    }


def mean_normalised(cells: Cells, variant: str, games: list[str]) -> Estimate | None:
    """Mean over games of the normalised held-out return; none while one has no finished run.

    With an interval where every game has the same number of seeds, two at least.
    """
    scores = normalised_scores(cells, variant, games)
    counts = {len(values) for values in scores.values()}
    if 0 in counts:
        return None
    if len(counts) == 1:
        return aggregate(scores)["mean"]
    return Estimate(fmean(fmean(values) for values in scores.values()))


def gains(cells: Cells, judged: str) -> str:
    """What one variant has over each other: a line per other, a column per game and for all."""
    if not rangeable(cells):
        return f"No gains of {judged}: a game has no known range."
    variants, games = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    lines = [row(f"{judged} over", *games, "all games"), "|---" * (len(games) + 2) + "|"]
    ours = normalised_scores(cells, judged, games)
    for variant in variants:
        if variant == judged:
            continue
        theirs = normalised_scores(cells, variant, games)
        wanted = [[game] for game in games] + [games]
        shown = [gain({g: ours[g] for g in some}, {g: theirs[g] for g in some}) for some in wanted]
        lines.append(row(variant, *shown))
    return "\n".join(lines)


def gain(ours: Scores, theirs: Scores) -> str:
    """The difference of mean scores, in bold where its interval is on one side of zero."""
    if not all(values for scores in (ours, theirs) for values in scores.values()):
        return "-"  # a game without a finished run
    estimate = mean_difference(ours, theirs)
    text = with_interval(estimate, sign="+")
    return f"**{text}**" if estimate.low > 0 or estimate.high < 0 else text
