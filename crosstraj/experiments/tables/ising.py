"""The table `ising`: does CTRL find the five Ising models, and does the silhouette say how many?

The paper reads the number of behaviours off the largest change in silhouette as clusters are added.
Here that rule is applied to every seed on its own, and the table says how often it is right.
"""

import math
from pathlib import Path

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.ising_pictures import draw_study, draw_task
from crosstraj.experiments.tables.ising_runs import (
    PAPER,
    RULE,
    TRUTH,
    Row,
    answers,
    changes,
    largest_change,
    measured,
)
from crosstraj.experiments.tables.page import heading, unreadable, write_page
from crosstraj.experiments.tables.results import Result
from crosstraj.report.cells import number, with_deviation
from crosstraj.report.document import marked_table
from crosstraj.report.statistics import Spread, finite_spread


def ising(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    rows = measured(results)
    found = answers(rows)
    parts = [heading(plan, results), table(rows), sentences(rows, found), NOTES]
    values = {
        "experiment": plan.name,
        "scale": plan.scale,
        "largest change in silhouette at, by seed": {str(s): e for s, e in found.items()},
        "runs": [{**r._asdict(), "uniform": r.uniform, "share": r.share} for r in rows],
    }
    files = write_page(out, [*parts, *unreadable(results)], values)
    if rows:
        files.append(draw_study(rows, out / "figure.png"))
    return [*files, draw_task(out / "task.png")]


def table(rows: list[Row]) -> str:
    head = (
        *("E", "seeds", "return", "of the way from uniform to best arm", "silhouette"),
        *("change per cluster", "Rand index", "Rand index, equal actions", "the same, k-means"),
        *("paper: return", "paper: silhouette", "paper: change per cluster"),
    )
    lines = []
    by_seed = {
        seed: changes({r.clusters: r.silhouette for r in rows if r.seed == seed})
        for seed in {r.seed for r in rows}
    }
    paper = changes({e: silhouette for e, (_, silhouette) in PAPER.items()})
    for clusters in sorted({r.clusters for r in rows}):
        cell = [r for r in rows if r.clusters == clusters]
        change = finite_spread(by_seed[r.seed].get(clusters, math.nan) for r in cell)
        score, silhouette = PAPER.get(clusters, (math.nan, math.nan))
        figures = [
            *(finite_spread(r.score for r in cell), finite_spread(r.share for r in cell)),
            *(finite_spread(r.silhouette for r in cell), change),
            *(finite_spread(r.rand for r in cell), finite_spread(r.rand_alike for r in cell)),
            finite_spread(r.rand_means for r in cell),
        ]
        printed = (score, silhouette, paper.get(clusters, math.nan))
        lines.append(
            [str(clusters), str(len(cell)), *map(shown, figures)]
            + [number(value, ".3f", absent="") for value in printed]
        )
    return marked_table(head, [*lines, *bounds(rows, len(head))])


def bounds(rows: list[Row], columns: int) -> list[list[str]]:
    """What no learning earns: once per seed, for they do not depend on the clusters."""
    first = {r.seed: r for r in rows}.values()
    kinds = {
        "uniform policy": finite_spread(r.uniform for r in first),
        "best arm": finite_spread(max(r.arms) for r in first),
        "worst arm": finite_spread(min(r.arms) for r in first),
    }
    return [
        [name, str(value.seeds), shown(value), *[""] * (columns - 3)]
        for name, value in kinds.items()
    ]


def sentences(rows: list[Row], found: dict[int, int]) -> str:
    """The answer to the question."""
    if not found:
        return f"No seed has all of E = {RULE.start} to {RULE.stop - 1} yet: no answer."
    right = sum(e == TRUTH for e in found.values())
    chosen = ", ".join(f"{e} (seed {seed})" for seed, e in found.items())
    means = {
        e: finite_spread(r.silhouette for r in rows if r.clusters == e and r.seed in found).mean
        for e in RULE
    }
    together = largest_change(means)
    return (
        f"**Does the largest change in silhouette among E = {RULE.start} to {RULE.stop - 1} find "
        f"the {TRUTH} models?** In {right} of {len(found)} seeds; it is at E = {chosen}; on the "
        f"silhouettes averaged over seeds at E = {together}. By chance it would be one in "
        f"{len(RULE) - 1}."
    )


def shown(value: Spread) -> str:
    return with_deviation(value, ".3f", absent="-")


NOTES = """\
Mean ± sample standard deviation over seeds; every seed has a goal of its own, the temperatures of
the models in turn. Return: mean reward per step of the frozen policy (reward mode `energy`, in
[-1, 0]; the paper does not say how its returns are scaled). Silhouette: scikit-learn, cosine, on v
with the clusters of the codes, over views of games in which one model is chosen throughout. Change:
|difference to the row above| per added cluster (the paper's row has the plain difference, which is
the same where one cluster is added). Rand index: adjusted, of clusters and true models; 0 is
chance. In such games the action names the model and views hold actions; `equal actions` has the
same frames as if the action had been one and the same (mean over the actions), so that only looking
helps; `k-means`: with five means of v instead of the prototypes. That says whether v tells the
models apart, the column before it whether CTRL's own clusters do.\
"""
