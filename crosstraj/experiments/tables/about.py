"""The table `about`: what are the codes of a method about, and what do they hold beyond shortcuts?

The variant named by `judge` is held against the shortcuts that its own runs record, and against
variants that go by these names: `ctrl`, `ppo`, `untrained encoder` (the same heads on an encoder
that nobody trains) and `shuffled partners` (the same cost, and no meaning). Every figure is the
mean over the last updates of a run, and over its seeds.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.page import heading, unreadable, write_page
from crosstraj.experiments.tables.results import Result, updates
from crosstraj.objectives.complaints import ONE_WAY
from crosstraj.report.cells import NONE, number
from crosstraj.report.document import marked_table
from crosstraj.report.statistics import spread

LAST = 4  # updates whose figures are averaged: one rollout's are noisy
FIGURES = {  # of a row -> heading
    "knowing_all": "loss",
    "knowing_before": "repeating",
    "knowing_time": "position, time",
    "knowing_action": "action alone",
    "knowing_nothing": "nothing",
    "action_gain": "actions' worth",
    "codes_about_level": "codes: level's share",
    "levels_per_cluster": "levels per cluster",
    "level_variance": "features: between levels",
    "level_variance_untrained": "(untrained)",
    "view_cosine": "cosine of v",
    "predict_cosine": "of v'",
    "feature_rank": "rank",
    "gradient_ratio": "gradient ratio",
}
Figures = dict[str, float]  # nan where a run has none
ByVariant = dict[str, Figures]  # of one game


class Demand(NamedTuple):
    words: str
    margin: Callable[[Figures, ByVariant], float]  # holds above 0; nan: cannot be said


def above(figure: str, least: float) -> Callable[[Figures, ByVariant], float]:
    """How far knowing something else alone is worse than the method, beyond what is asked."""
    return lambda own, others: own[figure] - own["knowing_all"] - least


DEMANDS = (
    Demand("not collapsed: cosine of v below .95", lambda own, _: ONE_WAY - own["view_cosine"]),
    Demand("beats repeating the code before by .05 nats", above("knowing_before", 0.05)),
    Demand("beats position and time by .05 nats", above("knowing_time", 0.05)),
    Demand(
        "beats the same heads on an untrained encoder by .05 nats",
        lambda own, others: others["untrained encoder"]["knowing_all"] - own["knowing_all"] - 0.05,
    ),
    Demand(
        "shuffled partners cannot be foretold: within .02 of knowing nothing",
        lambda _, others: (
            0.02
            + others["shuffled partners"]["knowing_all"]
            - others["shuffled partners"]["knowing_nothing"]
        ),
    ),
    Demand("the actions are worth .02 nats", lambda own, _: own["action_gain"] - 0.02),
    Demand(
        "variance between levels not above the untrained encoder's or PPO's",
        lambda own, others: (
            max(own["level_variance_untrained"], others["ppo"]["level_variance"])
            - own["level_variance"]
        ),
    ),
    Demand(
        "levels per cluster above CTRL's",
        lambda own, others: own["levels_per_cluster"] - others["ctrl"]["levels_per_cluster"],
    ),
    Demand("cosine of v' below .7", lambda own, _: 0.7 - own["predict_cosine"]),
)


def about(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """A line per game and variant, then which demands the judged variant meets in which games."""
    games = by_game(results)
    shown = [
        f for f in FIGURES if any(not math.isnan(v[f]) for g in games.values() for v in g.values())
    ]
    lines = [
        [game, variant, *(number(figures[figure], ".3f", absent=NONE) for figure in shown)]
        for game, variants in games.items()
        for variant, figures in variants.items()
    ]
    table = marked_table(["game", "variant", *(FIGURES[figure] for figure in shown)], lines)
    verdicts = {demand.words: judged(demand, plan.judge, games) for demand in DEMANDS}
    parts = [heading(plan, results), table, demands(verdicts), NOTES]
    found = {"experiment": plan.name, "scale": plan.scale, "games": games, "demands": verdicts}
    return write_page(out, [*parts, *unreadable(results)], found)


NOTES = (
    f"Means over the last {LAST} updates of each run. Losses are in nats; each is that of the same "
    "codes for who knows this alone (fitted on half of the rollout's pairs, tested on the other "
    "half). Actions' worth: by how much the loss rises with the actions of another pair. Levels "
    "per cluster: over its value under permuted codes."
)


def by_game(results: list[Result]) -> dict[str, ByVariant]:
    games: dict[str, dict[str, list[Figures]]] = {}
    for result in results:
        if result.frames:
            cells = games.setdefault(result.game, {}).setdefault(result.variant, [])
            cells.append(last_figures(result))
    return {
        game: {variant: mean_of(cells) for variant, cells in variants.items()}
        for game, variants in games.items()
    }


def last_figures(result: Result) -> Figures:
    rows = updates(result)[-LAST:]
    return {figure: spread(r[figure] for r in rows if figure in r).mean for figure in FIGURES}


def mean_of(cells: list[Figures]) -> Figures:
    return {figure: spread(cell[figure] for cell in cells).mean for figure in FIGURES}


def judged(demand: Demand, judge: str, games: dict[str, ByVariant]) -> dict[str, float]:
    """The margin of a demand in each game; nan where a run it needs is missing."""
    margins = {}
    for game, variants in games.items():
        try:
            margins[game] = demand.margin(variants[judge], variants)
        except KeyError:  # a variant that has not been run
            margins[game] = math.nan
    return margins


def demands(verdicts: dict[str, dict[str, float]]) -> str:
    lines = []
    for words, margins in verdicts.items():
        known = {game: margin for game, margin in margins.items() if not math.isnan(margin)}
        fails = [game for game, margin in known.items() if margin <= 0]
        holds = f"{len(known) - len(fails)} of {len(known)}" if known else NONE
        lines.append([words, holds, ", ".join(fails) if known else NONE])
    return marked_table(["demand", "holds in", "not in"], lines)
