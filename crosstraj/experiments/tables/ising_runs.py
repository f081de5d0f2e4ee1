"""The runs of the Ising study, measured; and the paper's rule for the number of behaviours.

The rule: add clusters one by one and stop where the silhouette changes most.
"""

import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from crosstraj.experiments.tables.results import Result

# The paper's table: return and silhouette by number of clusters. Its last change, from E = 6 to
# E = 50, is over 44 clusters at once.
PAPER = {
    2: (-0.78, 0.875),
    4: (-0.96, 0.796),
    5: (-0.02, 0.651),
    6: (-0.07, 0.554),
    50: (-0.54, 0.039),
}
TRUTH = 5  # models
RULE = range(2, 9)  # where clusters are added one by one, so that changes compare


class Row(NamedTuple):
    """One finished run."""

    seed: int
    clusters: int
    score: float  # mean reward per step of the trained policy
    silhouette: float
    silhouette_raw: float
    rand: float  # adjusted Rand index against the true model
    rand_alike: float  # the same where all views hold one action, which cannot tell the model
    rand_means: float  # and with k-means on v for the prototypes
    arms: list[float]  # reward per step of each model

    @property
    def uniform(self) -> float:
        """The lattices move whatever is chosen: a uniform choice earns the mean of the arms."""
        return sum(self.arms) / len(self.arms)

    @property
    def share(self) -> float:
        """0: no better than the uniform policy; 1: as good as the best arm."""
        return (self.score - self.uniform) / (max(self.arms) - self.uniform)


def measured(results: list[Result]) -> list[Row]:
    """Every finished run, measured from its checkpoint; says how far it is: it takes a while."""
    from crosstraj.analysis.ising_models import measure
    from crosstraj.learning.load import read_config

    rows, finished = [], [r for r in results if r.finished]
    for number, result in enumerate(finished, 1):
        run = Path(result.directory)
        print(f"measuring {number} of {len(finished)}: {run}", file=sys.stderr, flush=True)
        found = measure(run)
        horizon = read_config(run).ising.horizon
        rows.append(
            Row(
                result.seed,
                found.clusters,
                result.score / horizon,
                found.silhouette,
                found.silhouette_raw,
                found.rand,
                found.rand_alike,
                found.rand_means,
                found.arms,
            )
        )
    return rows


def changes(silhouettes: dict[int, float]) -> dict[int, float]:
    """|difference to the next smaller number of clusters|, per cluster added."""
    order = sorted(silhouettes)
    return {e: abs(silhouettes[e] - silhouettes[d]) / (e - d) for d, e in pairwise(order)}


def largest_change(silhouettes: dict[int, float]) -> int | None:
    """The number of clusters that the paper's rule would choose; None unless all are there."""
    known = {e: silhouettes[e] for e in RULE if math.isfinite(silhouettes.get(e, math.nan))}
    if len(known) < len(RULE):
        return None
    change = changes(known)
    return max(change, key=lambda e: change[e])


def answers(rows: list[Row]) -> dict[int, int]:
    """What the rule chooses, by seed; seeds that lack a run are left out."""
    found = {}
    for seed in sorted({r.seed for r in rows}):
        choice = largest_change({r.clusters: r.silhouette for r in rows if r.seed == seed})
        if choice is not None:
            found[seed] = choice
    return found
