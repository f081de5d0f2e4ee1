"""How often the paper's statements fail as printed, for random prototypes and views."""

import numpy as np
from numpy.typing import NDArray

from crosstraj.theory.geometry import SHAPES, STEP, Drawn, Statement, alike, draw, log_code
from crosstraj.theory.prototype_cells import assign
from crosstraj.theory.sweep import Sweep, total

VECTORS = 100
STEPS = (0.03, 0.1, STEP, 1.0)  # spreads of delta in each coordinate
ROUNDS = 3  # of Sinkhorn, as in the paper


def aligned_with_one(d: Drawn, rng: np.random.Generator) -> Sweep:
    """F1: delta on the positive side of e_j - e_k for one k, drawn at random."""
    cell, other = assign(d.prototypes, d.v), _another(d, rng)
    aligned = ((d.prototypes[cell] - d.prototypes[other]) * d.delta).sum(1) > 0
    return Sweep.of(aligned, assign(d.prototypes, d.v + d.delta) != cell)


def aligned_first_half(d: Drawn, rng: np.random.Generator) -> Sweep:
    """F2: aligned with every e_j - e_k in the first half, anything in the second."""
    cell, half = assign(d.prototypes, d.v), d.v.shape[1] // 2
    aligned = assign(d.prototypes[:, :half], d.delta[:, :half]) == cell
    return Sweep.of(aligned, assign(d.prototypes, d.v + d.delta) != cell)


def necessary(d: Drawn, rng: np.random.Generator) -> Sweep:
    """F3: of the steps that keep the cell, those that are not aligned with every e_j - e_k."""
    cell = assign(d.prototypes, d.v)
    stays = assign(d.prototypes, d.v + d.delta) == cell
    return Sweep.of(stays, assign(d.prototypes, d.delta) != cell)


def other_cluster(d: Drawn, rng: np.random.Generator) -> Sweep:
    """F4: the cluster by Sinkhorn's code is not that of the nearest prototype."""
    by_code = log_code(d, len(d.v), ROUNDS).argmax(1)
    return Sweep.of(np.ones(len(d.v), dtype=bool), by_code != assign(d.prototypes, alike(d)))


def larger_margin(d: Drawn, rng: np.random.Generator) -> Sweep:
    """P2: two views of one cluster, and <e_j - e_k, v - v'> >= 0 for every k."""
    cell, other = assign(d.prototypes, d.v), np.roll(d.v, 1, axis=0)
    together = assign(d.prototypes, other) == cell
    return Sweep.of(together, assign(d.prototypes, d.v - other) != cell)


def gamma_is_empty(d: Drawn, rng: np.random.Generator) -> Sweep:
    """P4: no k other than j with 0 <= e_j - e_k <= 1 in every coordinate."""
    cell = assign(d.prototypes, d.v)
    omega = d.prototypes[cell][:, None] - d.prototypes  # [B, E, D]
    inside = ((omega >= 0) & (omega <= 1)).all(2)
    inside[np.arange(len(cell)), cell] = False
    return Sweep.of(np.ones(len(cell), dtype=bool), ~inside.any(1))


def stepping(statement: Statement, step: float) -> Statement:
    """The same with longer or shorter steps."""
    return lambda d, rng: statement(d._replace(delta=step / STEP * d.delta), rng)


BY_STEP = {
    "F1 aligned with one, leaves": aligned_with_one,
    "F2 aligned first half, leaves": aligned_first_half,
    "F3 stays, condition fails": necessary,
}
RATES: dict[str, Statement] = {
    **{
        f"{name}; step {step:g}": stepping(statement, step)
        for name, statement in BY_STEP.items()
        for step in STEPS
    },
    "F4 code and scores disagree": other_cluster,
    "P2 one cluster, inequality fails": larger_margin,
    "P4 the set of potentials is empty": gamma_is_empty,
}


def rates(name: str, sets: int, rng: np.random.Generator) -> list[Sweep]:
    """One sweep for each shape (D, E), over `sets` random sets of prototypes."""
    return [
        total(RATES[name](draw(rng, *shape, VECTORS), rng) for _ in range(sets)) for shape in SHAPES
    ]


def _another(d: Drawn, rng: np.random.Generator) -> NDArray[np.int64]:
    """A prototype other than the own one, uniform."""
    step = rng.integers(1, len(d.prototypes), size=len(d.v))
    return (assign(d.prototypes, d.v) + step) % len(d.prototypes)
