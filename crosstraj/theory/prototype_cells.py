"""The cells of a clustering by prototypes, and how far a vector is from leaving its own.

Cell j is where <e_j, v> + b_j is largest: a convex cone when all offsets b are equal (the argmax of
scores), a polyhedron otherwise (the argmax of a Sinkhorn code whose column potentials are held).
"""

import numpy as np

from crosstraj.theory.decision_processes import Array, Blocks


def assign(prototypes: Array, vectors: Array, offsets: Array | float = 0.0) -> Blocks:
    """The cell of each row of `vectors` [B, D]; the lowest number where two tie."""
    return (vectors @ prototypes.T + offsets).argmax(1)


def margins(
    prototypes: Array, vectors: Array, offsets: Array | float = 0.0, *, order: int = 2
) -> Array:
    """[B]: the distance to the border of the own cell.

    Every shorter step keeps the cell, and no larger radius has this property (docs/theory.md, T3).
    """
    return border_distances(prototypes, vectors, offsets, order=order).min(1)


def rotations(prototypes: Array, vectors: Array, offsets: Array | float = 0.0) -> Array:
    """[B]: the largest angle by which a unit vector may turn, wherever to, and keep its cell."""
    return border_angles(prototypes, vectors, offsets).min(1)


def border_distances(
    prototypes: Array, vectors: Array, offsets: Array | float = 0.0, *, order: int = 2
) -> Array:
    """[B, E]: (score_j - score_k) / |e_j - e_k|, how far it is from the own cell j to cell k.

    `order` is the norm of e_j - e_k: 2 for Euclidean steps, 1 for the largest step of a coordinate.
    Infinite for j itself and for prototypes equal to e_j: no step changes those differences.
    """
    scores = vectors @ prototypes.T + offsets
    gap = scores.max(1, keepdims=True) - scores
    return _ratio(gap, _apart(prototypes, order)[scores.argmax(1)])


def border_angles(prototypes: Array, vectors: Array, offsets: Array | float = 0.0) -> Array:
    """[B, E]: the same for unit vectors, as the angle of the shortest rotation to that border.

    With n the unit vector along e_j - e_k, cell j is left where <n, v> falls to `limit`. Infinite
    where the limit is below -1, which no unit vector reaches.
    """
    own = assign(prototypes, vectors, offsets)
    apart = _apart(prototypes, 2)[own]
    added = np.broadcast_to(offsets, len(prototypes))
    limit = _ratio(added - added[own, None], apart)
    along = limit + border_distances(prototypes, vectors, offsets)  # <n, v>
    angle = np.arccos(np.clip(limit, -1, 1)) - np.arccos(np.clip(along, -1, 1))
    return np.where((apart > 0) & (limit > -1), angle, np.inf)


def unit(vectors: Array) -> Array:
    """Each row scaled to length one; nothing stays nothing."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def _apart(prototypes: Array, order: int) -> Array:
    return np.linalg.norm(prototypes[:, None] - prototypes[None], ord=order, axis=2)


def _ratio(above: Array, below: Array) -> Array:
    return np.divide(above, below, out=np.full(below.shape, np.inf), where=below > 0)
