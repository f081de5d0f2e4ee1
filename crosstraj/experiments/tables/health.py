"""The table `health`: is the representation of each run alive, and can the policy follow it?

Five figures per run, each with what it must be. They come from the rows of updates alone, so runs
need not be evaluated for it.
"""

import math
import statistics
from collections.abc import Callable
from pathlib import Path

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.page import heading, unreadable, write_page
from crosstraj.experiments.tables.results import Result, updates
from crosstraj.health.glossary import GLOSSARY, Figure
from crosstraj.learning.watch import fallen_rank, first_rank
from crosstraj.report.cells import NONE, small_number
from crosstraj.report.document import marked_table
from crosstraj.report.reading import Rows


def course(rows: Rows, figure: str) -> list[float]:
    """All values of a figure; one NaN where there is none."""
    return [row[figure] for row in rows if figure in row] or [math.nan]


def last(rows: Rows, figure: str) -> float:
    return course(rows, figure)[-1]


def clusters(rows: Rows) -> float:
    """How far code entropy lies below that of random unit vectors: above 0 there are clusters."""
    return last(rows, "code_entropy_random") - last(rows, "code_entropy")


def scale(rows: Rows) -> float:
    """The features' standard deviation over frames, as the heads see it, over its first value."""
    spread = course(rows, "feature_std")
    return spread[-1] / spread[0]


# By its name in the glossary, which says what it must be; nan: the run has no such figure.
MEASURES: dict[str, Callable[[Rows], float]] = {
    "view_cosine": lambda rows: last(rows, "view_cosine"),
    "feature_rank": lambda rows: last(rows, "feature_rank"),
    "entropy_below_random": clusters,
    "objective_kl": lambda rows: statistics.median(course(rows, "objective_kl")),
    "scale_change": scale,
}
CRITERIA = [GLOSSARY[name] for name in MEASURES]


def health(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """A line per run and criterion by criterion; what does not hold is in bold."""
    begun = [(result, measures(updates(result))) for result in results if result.frames]
    names = [criterion.short for criterion in CRITERIA]
    head = ["variant", "game", "seed", "frames", *names, "all hold"]
    lines = [["*demand*", *[""] * 3, *(str(c.healthy) for c in CRITERIA), ""]]
    for run, values in begun:
        figures = [shown(c, value) for c, value in zip(CRITERIA, values, strict=True)]
        verdict = NONE if not complete(values) else "yes" if all_hold(values) else "**no**"
        lines.append([run.variant, run.game, str(run.seed), f"{run.frames:,}", *figures, verdict])
    judged = [values for _, values in begun if complete(values)]
    columns = list(zip(*judged, strict=True)) or [()] * len(names)
    holds = {
        c.short: sum(map(c.healthy.holds, column))
        for c, column in zip(CRITERIA, columns, strict=True)
    } | {"all": sum(map(all_hold, judged))}
    lines.append(["**holds**", *[""] * 3, *(f"{n} of {len(judged)}" for n in holds.values())])
    parts = [heading(plan, results), marked_table(head, lines), *folded(results), NOTES]
    found = {
        "experiment": plan.name,
        "scale": plan.scale,
        "demands": {c.short: str(c.healthy) for c in CRITERIA},
        "holds": holds,
        "of": len(judged),
        "runs": [
            {"variant": r.variant, "game": r.game, "seed": r.seed, "frames": r.frames}
            | dict(zip(names, values, strict=True))
            for r, values in begun
        ],
    }
    return write_page(out, [*parts, *unreadable(results)], found)


NOTES = (
    "The last value that a run recorded; of the KL the median over all its updates. It is that of "
    "the policy before and after one pass of the objective, in 128 frames of the rollout; where "
    "both losses are stepped jointly, that of a trial step along the objective's part alone. "
    "Random: random unit vectors of the same shape under the same Sinkhorn. Runs without a figure "
    "(PPO has no views) are there to be compared with, and are not counted."
)


def folded(results: list[Result]) -> list[str]:
    """A list of the runs whose rank has fallen, each in words; empty if there are none."""
    said = []
    for run in results:
        rows = updates(run)
        if sentence := fallen_rank(first_rank(rows), last(rows, "feature_rank")):
            said.append(f"- {run.variant}, {run.game}, seed {run.seed}: {sentence}.")
    return ["\n".join(said)] if said else []


def measures(rows: Rows) -> tuple[float, ...]:
    return tuple(measure(rows) for measure in MEASURES.values())


def complete(values: tuple[float, ...]) -> bool:
    return not any(map(math.isnan, values))


def all_hold(values: tuple[float, ...]) -> bool:
    return all(c.healthy.holds(value) for c, value in zip(CRITERIA, values, strict=True))


def shown(criterion: Figure, value: float) -> str:
    if math.isnan(value):
        return NONE
    text = small_number(value, 1)
    return text if criterion.healthy.holds(value) else f"**{text}**"
