"""What holds for cells of prototypes (docs/theory.md, T1-T3 and P0), tried at random."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from crosstraj.nn.sinkhorn import log_sinkhorn
from crosstraj.theory.decision_processes import Array, Blocks
from crosstraj.theory.prototype_cells import (
    assign,
    border_angles,
    border_distances,
    margins,
    rotations,
    unit,
)
from crosstraj.theory.sweep import Sweep, total

SHAPES = ((2, 3), (8, 5), (64, 20))  # dimension D and number of prototypes E
VECTORS = 1000  # for each set of prototypes
STEP = 0.3  # spread of a step in each coordinate
NEARLY = 1e-6  # how far on either side of a border a bound is tried
TEMPERATURE = 0.3  # of codes, as in the paper


class Drawn(NamedTuple):
    prototypes: Array  # [E, D] random unit vectors
    v: Array  # [B, D] random unit vectors
    delta: Array  # [B, D] Gaussian, STEP in each coordinate
    offsets: Array  # [E] Gaussian, .3


Statement = Callable[[Drawn, np.random.Generator], Sweep]


def draw(rng: np.random.Generator, dimension: int, prototypes: int, vectors: int) -> Drawn:
    return Drawn(
        unit(rng.normal(size=(prototypes, dimension))),
        unit(rng.normal(size=(vectors, dimension))),
        STEP * rng.normal(size=(vectors, dimension)),
        0.3 * rng.normal(size=prototypes),
    )


def cell(d: Drawn, v: Array) -> Blocks:
    """The cell of each vector, at the offsets drawn."""
    return assign(d.prototypes, v, d.offsets)


def cone(d: Drawn, rng: np.random.Generator) -> Sweep:
    """T1: v in a cell, delta in the cone of the same prototype, then v + delta is in the cell."""
    aligned = assign(d.prototypes, d.delta) == cell(d, d.v)
    return Sweep.of(aligned, cell(d, d.v + d.delta) != cell(d, d.v))


def block(d: Drawn, rng: np.random.Generator) -> Sweep:
    """T2: a step in the first half of the coordinates, aligned there with every difference."""
    half = d.v.shape[1] // 2
    aligned = assign(d.prototypes[:, :half], d.delta[:, :half]) == cell(d, d.v)
    step = np.where(np.arange(d.v.shape[1]) < half, d.delta, 0.0)
    return Sweep.of(aligned, cell(d, d.v + step) != cell(d, d.v))


def inside(d: Drawn, rng: np.random.Generator) -> Sweep:
    """T3: a step shorter than the margin, in any direction, stays."""
    length = (1 - NEARLY) * margins(d.prototypes, d.v, d.offsets) * rng.random(len(d.v))
    moved = cell(d, d.v + unit(d.delta) * length[:, None])
    return Sweep.of(length > 0, moved != cell(d, d.v))


def largest(d: Drawn, rng: np.random.Generator) -> Sweep:
    """T3: towards the nearest border, just short of the margin stays, just beyond leaves."""
    distance = border_distances(d.prototypes, d.v, d.offsets)
    towards = away(d, distance)
    return _ends_at(d, distance.min(1), lambda length: d.v + length[:, None] * towards)


def turned(d: Drawn, rng: np.random.Generator) -> Sweep:
    """T3 on the sphere: a rotation below the limit, in any direction, stays."""
    angle = (1 - NEARLY) * rotations(d.prototypes, d.v, d.offsets) * rng.random(len(d.v))
    reached = np.isfinite(angle)
    angle = np.where(reached, angle, 0.0)
    return Sweep.of(reached & (angle > 0), cell(d, rotate(d.v, d.delta, angle)) != cell(d, d.v))


def largest_turn(d: Drawn, rng: np.random.Generator) -> Sweep:
    """T3 on the sphere: towards the border nearest in angle, the limit is where the cell ends."""
    angle = border_angles(d.prototypes, d.v, d.offsets)
    towards = away(d, angle)
    return _ends_at(d, angle.min(1), lambda limit: rotate(d.v, towards, limit))


def equipartition(d: Drawn, rng: np.random.Generator) -> Sweep:
    """P0: of any two clusters of a Sinkhorn code, each is preferred to the other by some view."""
    code = log_code(d, 4 * len(d.prototypes), int(rng.integers(1, 6)))
    preferred = (code[:, :, None] > code[:, None]).any(0)
    others = ~np.eye(len(preferred), dtype=bool)
    return Sweep.of(others[others], ~preferred[others])


def log_code(d: Drawn, views: int, rounds: int) -> Array:
    """[views, E] Sinkhorn's code of a batch whose views share a direction, as a network's do."""
    scores = alike(d)[:views] @ d.prototypes.T / TEMPERATURE
    return log_sinkhorn(torch.from_numpy(scores), rounds).double().numpy()


def alike(d: Drawn) -> Array:
    """Views with a common direction: their scores favour a few clusters."""
    return unit(d.v + 2 * d.v[-1])


PROVED: dict[str, Statement] = {
    "T1 cone": cone,
    "T2 block": block,
    "T3 margin": inside,
    "T3 margin is the largest": largest,
    "T3 rotation": turned,
    "T3 rotation is the largest": largest_turn,
}


def on_cones(statement: Statement) -> Statement:
    """The same with equal offsets: cells of the scores instead of Sinkhorn's."""
    return lambda d, rng: statement(d._replace(offsets=np.zeros_like(d.offsets)), rng)


GEOMETRY: dict[str, Statement] = {
    **{name: on_cones(statement) for name, statement in PROVED.items()},
    **{f"{name}, Sinkhorn's cells": statement for name, statement in PROVED.items()},
    "P0 no cluster takes all views": equipartition,
}


def sweep_geometry(name: str, sets: int, rng: np.random.Generator) -> Sweep:
    """`sets` random sets of prototypes of each shape."""
    return total(
        GEOMETRY[name](draw(rng, *shape, VECTORS), rng) for shape in SHAPES for _ in range(sets)
    )


def away(d: Drawn, distance: Array) -> Array:
    """The unit vector from each v straight to the border that `distance` [B, E] calls nearest."""
    return unit(d.prototypes[distance.argmin(1)] - d.prototypes[cell(d, d.v)])


def rotate(v: Array, towards: Array, angle: Array) -> Array:
    """Unit vectors v turned by an angle in the plane of v and `towards`."""
    across = unit(towards - (towards * v).sum(1, keepdims=True) * v)
    return np.cos(angle)[:, None] * v + np.sin(angle)[:, None] * across


def _ends_at(d: Drawn, limit: Array, move: Callable[[Array], Array]) -> Sweep:
    """Just below the limit the cell is kept, just above it is not."""
    reached = (limit > NEARLY) & (limit < np.inf)  # else rounding would decide, or nothing leaves
    limit = np.where(reached, limit, 0.0)
    stays = cell(d, move((1 - NEARLY) * limit)) == cell(d, d.v)
    leaves = cell(d, move((1 + NEARLY) * limit)) != cell(d, d.v)
    return Sweep.of(reached, ~(stays & leaves))
