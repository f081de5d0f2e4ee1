"""The table `health`: is the representation of each run alive, and can the policy follow it?

Five figures per run, each with what it must be. They come from the rows of updates alone, so runs
need not be evaluated for it.
"""

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.page import heading, unreadable, write_page
from crosstraj.experiments.tables.results import Result, updates
from crosstraj.learning.watch import fallen_rank, first_rank
from crosstraj.report.cells import NONE, small_number
from crosstraj.report.document import marked_table
from crosstraj.report.reading import Rows


class Criterion(NamedTuple):
    name: str
    demand: str
    measure: Callable[[Rows], float]  # nan: the run has no such figure
    low: float = -math.inf
    high: float = math.inf

    def holds(self, value: float) -> bool:
        return self.low < value < self.high


def course(rows: Rows, figure: str) -> list[float]:
    """All values of a figure; one NaN where there is none."""
    return [row[figure] for row in rows if figure in row] or [math.nan]


def cosine(rows: Rows) -> float:
    return course(rows, "view_cosine")[-1]


def rank(rows: Rows) -> float:
    return course(rows, "feature_rank")[-1]


def clusters(rows: Rows) -> float:
    """How far code entropy lies below that of random unit vectors: above 0 there are clusters."""
    return course(rows, "code_entropy_random")[-1] - course(rows, "code_entropy")[-1]


def policy_moved(rows: Rows) -> float:
    return statistics.median(course(rows, "objective_kl"))


def scale(rows: Rows) -> float:
    """The features' standard deviation over frames, as the heads see it, over its first value."""
    spread = course(rows, "feature_std")
    return spread[-1] / spread[0]


CRITERIA = (
    Criterion("views' mean cosine", "below .7", cosine, high=0.7),
    Criterion("effective rank", "above 20", rank, low=20),
    Criterion("code entropy below random", "above 0", clusters, low=0),
    Criterion("KL of one objective update", "1e-4 to .05", policy_moved, low=1e-4, high=0.05),
    Criterion("feature scale over its start", "1/4 to 4", scale, low=0.25, high=4),
)


def health(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """A line per run and criterion by criterion; what does not hold is in bold."""
    begun = [(result, measures(updates(result))) for result in results if result.frames]
    names = [criterion.name for criterion in CRITERIA]
    head = ["variant", "game", "seed", "frames", *names, "all hold"]
    lines = [["*demand*", *[""] * 3, *(criterion.demand for criterion in CRITERIA), ""]]
    for run, values in begun:
        figures = [shown(c, value) for c, value in zip(CRITERIA, values, strict=True)]
        verdict = NONE if not complete(values) else "yes" if all_hold(values) else "**no**"
        lines.append([run.variant, run.game, str(run.seed), f"{run.frames:,}", *figures, verdict])
    judged = [values for _, values in begun if complete(values)]
    columns = list(zip(*judged, strict=True)) or [()] * len(names)
    holds = {
        c.name: sum(map(c.holds, column)) for c, column in zip(CRITERIA, columns, strict=True)
    } | {"all": sum(map(all_hold, judged))}
    lines.append(["**holds**", *[""] * 3, *(f"{n} of {len(judged)}" for n in holds.values())])
    parts = [heading(plan, results), marked_table(head, lines), *folded(results), NOTES]
    found = {
        "experiment": plan.name,
        "scale": plan.scale,
        "demands": {criterion.name: criterion.demand for criterion in CRITERIA},
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
        if sentence := fallen_rank(first_rank(rows), rank(rows)):
            said.append(f"- {run.variant}, {run.game}, seed {run.seed}: {sentence}.")
    return ["\n".join(said)] if said else []


def measures(rows: Rows) -> tuple[float, ...]:
    return tuple(criterion.measure(rows) for criterion in CRITERIA)


def complete(values: tuple[float, ...]) -> bool:
    return not any(map(math.isnan, values))


def all_hold(values: tuple[float, ...]) -> bool:
    return all(c.holds(value) for c, value in zip(CRITERIA, values, strict=True))


def shown(criterion: Criterion, value: float) -> str:
    if math.isnan(value):
        return NONE
    text = small_number(value, 1)
    return text if criterion.holds(value) else f"**{text}**"
