"""The table `about`: what are the codes of a method about, and what do they hold beyond shortcuts?

The variant named by `judge` is held against the shortcuts that its own runs record, and against
variants that go by these names: `ctrl`, `ppo`, `untrained encoder` (the same heads on an encoder
that nobody trains) and `shuffled partners` (the same cost, with the code of another pair of the
same stretch). Every figure is the mean over the last updates of a run, and over its seeds.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.page import heading, unreadable, write_page
from crosstraj.experiments.tables.results import Result, updates
from crosstraj.health.glossary import GLOSSARY, shorts
from crosstraj.report.cells import NONE, number
from crosstraj.report.document import marked_table
from crosstraj.report.statistics import spread

LAST = 4  # updates whose figures are averaged: one rollout's are noisy
FIGURES = shorts(
    *("knowing_all", "knowing_before", "knowing_time", "knowing_action", "knowing_nothing"),
    *("action_gain", "codes_about_level", "levels_per_cluster"),
    *("level_variance", "level_variance_untrained", "view_cosine", "predict_cosine"),
    *("feature_rank", "gradient_ratio"),
)
Figures = dict[str, float]  # nan where a run has none
ByVariant = dict[str, Figures]  # of one game


class Demand(NamedTuple):
    words: str
    margin: Callable[[Figures, ByVariant], float]  # holds above 0; nan: cannot be said


HEALTHY = {name: figure.healthy for name, figure in GLOSSARY.items()}
LEAD, ALIVE = HEALTHY["lead"], GLOSSARY["view_cosine"].alive


def leads(less: str) -> Callable[[Figures, ByVariant], float]:
    """How far knowing something else alone is worse than the method, beyond what is asked."""
    return lambda own, _: LEAD.margin(own[less] - own["knowing_all"])


DEMANDS = (
    Demand(
        f"not collapsed: {FIGURES['view_cosine']} {ALIVE}",
        lambda own, _: ALIVE.margin(own["view_cosine"]),
    ),
    Demand(f"beats repeating the code before by {LEAD.low:g} nats", leads("knowing_before")),
    Demand(f"beats position and time by {LEAD.low:g} nats", leads("knowing_time")),
    Demand(
        f"beats the same heads on an untrained encoder by {LEAD.low:g} nats",
        lambda own, others: LEAD.margin(
            others["untrained encoder"]["knowing_all"] - own["knowing_all"]
        ),
    ),
    Demand(
        f"shuffled partners: lead over knowing nothing {HEALTHY['lead_shuffled']}",
        lambda _, others: HEALTHY["lead_shuffled"].margin(
            others["shuffled partners"]["knowing_nothing"]
            - others["shuffled partners"]["knowing_all"]
        ),
    ),
    Demand(
        f"{FIGURES['action_gain']} {HEALTHY['action_gain']} nats",
        lambda own, _: HEALTHY["action_gain"].margin(own["action_gain"]),
    ),
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
    Demand(
        f"{FIGURES['predict_cosine']} {HEALTHY['predict_cosine']}",
        lambda own, _: HEALTHY["predict_cosine"].margin(own["predict_cosine"]),
    ),
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
    "per cluster: over its value under permuted codes. Shuffled partners predict the code of "
    "another pair of the same stretch: a lead there is what a stretch gives away as a whole, which "
    "is then in the method's own lead, too; a loss above knowing nothing says that the heads have "
    "not settled, so that they are no control."
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
