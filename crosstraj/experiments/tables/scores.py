"""Normalised scores of an experiment's variants: their mean, and what one gains over the others."""

import math
from statistics import fmean

from crosstraj.experiments.tables.results import Result
from crosstraj.report.cells import with_interval
from crosstraj.report.comparison import normalised_scores, with_range
from crosstraj.report.document import marked_table
from crosstraj.report.statistics import Estimate, Scores, aggregate, mean_difference

Cells = dict[tuple[str, str], list[Result]]  # (variant, game) -> its seeds


def rangeable(cells: Cells) -> bool:
    """Does every game have a range to normalise by?"""
    games = [game for _, game in cells]
    easy = all(result.easy for cell in cells.values() for result in cell)
    return with_range(games, easy=easy) == games


def returns_of(cells: Cells, variant: str, games: list[str]) -> dict[str, dict[int, float]]:
    """Held-out returns of the finished runs of a variant, by game and seed."""
    return {
        game: {r.seed: r.score for r in cells.get((variant, game), []) if r.finished}
        for game in games
    }


def scores_of(cells: Cells, variant: str, games: list[str]) -> dict[str, list[float]]:
    """The same without NaN and without the names of the seeds."""
    found = returns_of(cells, variant, games)
    return {game: [x for x in row.values() if not math.isnan(x)] for game, row in found.items()}


def mean_normalised(cells: Cells, variant: str, games: list[str]) -> Estimate | None:
    """Mean over games of the normalised held-out return; none while one has no finished run.

    With an interval where every game has the same number of seeds, two at least.
    """
    scores = normalised_scores(scores_of(cells, variant, games))
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
    lines = []
    ours = normalised_scores(scores_of(cells, judged, games))
    for variant in variants:
        if variant == judged:
            continue
        theirs = normalised_scores(scores_of(cells, variant, games))
        wanted = [[game] for game in games] + [games]
        shown = [gain({g: ours[g] for g in some}, {g: theirs[g] for g in some}) for some in wanted]
        lines.append([variant, *shown])
    return marked_table([f"{judged} over", *games, "all games"], lines)


def gain(ours: Scores, theirs: Scores) -> str:
    """The difference of mean scores, in bold where its interval is on one side of zero."""
    if not all(values for scores in (ours, theirs) for values in scores.values()):
        return "-"  # a game without a finished run
    estimate = mean_difference(ours, theirs)
    text = with_interval(estimate, "+.3f")
    return f"**{text}**" if estimate.low > 0 or estimate.high < 0 else text
