"""What holds between clusters and bisimulation (docs/theory.md, B1, B2, R1-R5), tried at random.

Each statement takes a generator and tries all pairs of states of one small random process.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from crosstraj.theory.cells import assign, margins, unit
from crosstraj.theory.metrics import (
    ferns,
    labelled,
    on_policy,
    policy_similarity,
    total_variation,
    wasserstein,
)
from crosstraj.theory.partition import bisimilar, refine
from crosstraj.theory.processes import (
    Array,
    Blocks,
    follow,
    optimal_values,
    random_policy,
    random_process,
    with_copies,
)
from crosstraj.theory.sweep import Sweep, total

DISCOUNT = 0.5
ROUNDING = 1e-7  # fixed points are found to within 1e-8


def zero_set(rng: np.random.Generator) -> Sweep:
    """B1: the metric of Ferns is zero exactly on bisimilar pairs."""
    base = random_process(3, 2, rng, successors=2, rewards=(0.0, 1.0))
    process, _ = with_copies(base, 2, rng)
    zero = ferns(process, 1 - DISCOUNT, DISCOUNT) < ROUNDING
    blocks = bisimilar(process)
    return _pairs(zero != (blocks[:, None] == blocks))


def triangle(rng: np.random.Generator) -> Sweep:
    """B1: no detour is shorter, and no distance above 1."""
    d = ferns(random_process(5, 2, rng, successors=3), 1 - DISCOUNT, DISCOUNT)
    shortest = (d[:, :, None] + d[None]).min(1)
    return _pairs((d > shortest + ROUNDING) | (d > 1 + ROUNDING))


def value_bound(rng: np.random.Generator) -> Sweep:
    """B2: c_R |V*(s) - V*(t)| <= d(s, t), for a discount of at most c_T."""
    process = random_process(5, 2, rng, successors=3)
    value = optimal_values(process, DISCOUNT * rng.random())
    d = ferns(process, 1 - DISCOUNT, DISCOUNT)
    return _pairs((1 - DISCOUNT) * np.abs(value[:, None] - value) > d + ROUNDING)


def on_policy_bound(rng: np.random.Generator) -> Sweep:
    """B2 for one policy: |V(s) - V(t)| is at most the on-policy distance."""
    process, policy = random_process(5, 2, rng, successors=3), random_policy(5, 2, rng)
    value = optimal_values(follow(process, policy), DISCOUNT)
    return _pairs(np.abs(value[:, None] - value) > on_policy(process, policy, DISCOUNT) + ROUNDING)


def small_transport(rng: np.random.Generator) -> Sweep:
    """R1: W1 below the margin in the sum norm, then both mean embeddings share a cluster."""
    process, policy = random_process(6, 2, rng, successors=4), random_policy(6, 2, rng)
    d = policy_similarity(process, policy, DISCOUNT)
    landmarks = d[:, rng.permutation(6)[:4]]  # d(., x) is 1-Lipschitz
    return _same_cluster(follow(process, policy).transition[:, 0], d, landmarks, 1, rng)


def small_transport_euclidean(rng: np.random.Generator) -> Sweep:
    """R1 for any embedding, by its measured Lipschitz constant and the Euclidean margin."""
    transition = random_process(6, 1, rng, successors=4).transition
    transition = 0.2 * transition + 0.8 * transition[:1]  # rows alike, or the premise is rare
    d = labelled(transition, 1 - np.eye(6), DISCOUNT)
    embedding = rng.normal(size=(6, 4))
    return _same_cluster(transition[:, 0], d, embedding / lipschitz(embedding, d), 2, rng)


def labelled_law(rng: np.random.Generator) -> Sweep:
    """R3: labelled-bisimilar states have one law of labelled paths, hence one of clusters."""
    process, original = with_copies(random_process(3, 2, rng, successors=2), 2, rng)
    labels = rng.integers(2, size=3)[original]
    policy = random_policy(2, 2, rng)[labels]  # a function of the label alone
    blocks = refine(process.transition, labels)
    law = path_law(process.transition, labels, policy, steps=3)
    view = rng.normal(size=(law.shape[1], 4))  # any function of the path
    cluster = cluster_law(law, assign(unit(rng.normal(size=(5, 4))), view), 5)
    return _pairs(_apart(cluster) > ROUNDING, blocks[:, None] == blocks)


def data_processing(rng: np.random.Generator) -> Sweep:
    """R4: laws of clusters are no further apart than laws of views."""
    law = rng.dirichlet(np.full(30, 0.2), 10)
    cluster = cluster_law(law, assign(unit(rng.normal(size=(5, 4))), rng.normal(size=(30, 4))), 5)
    return _pairs(_apart(cluster) > _apart(law) + ROUNDING)


def wide_margins(rng: np.random.Generator) -> Sweep:
    """R5: TV of cluster laws <= P(margin <= r) + W1 / r, here at the best of twenty radii."""
    # Four places, six views near each; states weigh places alike and views differently.
    place = np.repeat(unit(rng.normal(size=(4, 3))), 6, axis=0)
    view = unit(place + 0.1 * rng.normal(size=place.shape))
    weight = rng.dirichlet(np.ones(4))
    law = (rng.dirichlet(np.full(6, 0.3), (6, 4)) * weight[:, None]).reshape(6, -1)
    prototypes = unit(rng.normal(size=(3, 3)))
    distance = np.linalg.norm(view[:, None] - view[None], axis=2)
    bound = _margin_bound(law, margins(prototypes, view), _transport(law, distance))
    apart = _apart(cluster_law(law, assign(prototypes, view), 3))
    return _pairs(apart > bound + ROUNDING, bound < 1)


def transport_of_paths(rng: np.random.Generator) -> Sweep:
    """R5: paths of the chain are no further apart than their first states."""
    transition = random_process(4, 1, rng, successors=3).transition
    label = rng.random(4)
    base = np.abs(label[:, None] - label)
    d = labelled(transition, base, DISCOUNT)
    law = path_law(transition, np.arange(4), np.ones((4, 1)), steps=3)
    return _pairs(_transport(law, path_distance(base, 3)) > d + ROUNDING)


def wide_margins_along_paths(rng: np.random.Generator) -> Sweep:
    """R5 for views of two steps of a chain: L d(s, t) in the place of W1."""
    # Labels near 0 or near 1, and rows that differ a little: bounds are small, and not all zero.
    label = np.repeat([0.0, 1.0], 3) + 0.02 * rng.random(6)
    transition = random_process(6, 1, rng).transition
    transition = 0.3 * transition + 0.7 * transition[:1]
    base = np.abs(label[:, None] - label)
    d = labelled(transition, base, DISCOUNT)
    law = path_law(transition, np.arange(6), np.ones((6, 1)), steps=2)
    now, then = np.divmod(np.arange(36), 6)
    view = unit(
        rng.normal(size=3) + np.column_stack([label[now], label[then]]) @ rng.normal(size=(2, 3))
    )
    prototypes = view[[0, 5, 30]]  # of paths 0 to 0, 0 to 1 and 1 to 0
    reach = lipschitz(view, path_distance(base, 2))
    bound = _margin_bound(law, margins(prototypes, view), reach * d)
    apart = _apart(cluster_law(law, assign(prototypes, view), 3))
    return _pairs(apart > bound + ROUNDING, bound < 1)


BEHAVIOUR: dict[str, Callable[[np.random.Generator], Sweep]] = {
    "B1 zero exactly on bisimilar pairs": zero_set,
    "B1 a pseudo-metric, at most 1": triangle,
    "B2 value bound": value_bound,
    "B2 value bound, one policy": on_policy_bound,
    "R1 small transport": small_transport,
    "R1 small transport, any embedding": small_transport_euclidean,
    "R3 labelled bisimulation": labelled_law,
    "R4 data processing": data_processing,
    "R5 wide margins": wide_margins,
    "R5 transport of paths": transport_of_paths,
    "R5 wide margins, views of a chain": wide_margins_along_paths,
}


def sweep_behaviour(name: str, processes: int, rng: np.random.Generator) -> Sweep:
    return total(BEHAVIOUR[name](rng) for _ in range(processes))


def lipschitz(embedding: Array, distance: Array) -> float:
    """The least L with |f(s) - f(t)| <= L d(s, t); no two states may be at distance 0."""
    apart = np.linalg.norm(embedding[:, None] - embedding[None], axis=2)
    pairs = ~np.eye(len(distance), dtype=bool)
    return float((apart[pairs] / distance[pairs]).max())


def path_law(transition: Array, labels: Blocks, policy: Array, steps: int) -> Array:
    """[S, paths]: the probability of each sequence (label, action, ..., label, action)."""
    states, actions = policy.shape
    first = np.zeros((states, labels.max() + 1, actions))
    first[np.arange(states), labels] = policy
    law = first.reshape(states, -1)
    for _ in range(steps - 1):
        ahead = np.einsum("sat,tp->sap", transition, law)
        law = np.einsum("sla,sap->slap", first, ahead).reshape(states, -1)
    return law


def path_distance(base: Array, steps: int) -> Array:
    """[paths, paths]: sum of (1 - discount) discount^t base(s_t, s'_t), numbered as `path_law`."""
    distance = np.zeros((1, 1))
    for _ in range(steps):  # the first step is the slowest digit
        later = DISCOUNT * distance
        distance = (1 - DISCOUNT) * base[:, None, :, None] + later[None, :, None, :]
        distance = distance.reshape(len(base) * len(later), -1)
    return distance


def cluster_law(law: Array, cluster: Blocks, clusters: int) -> Array:
    """[S, E] the law of the cluster, from that of views [S, views] and the cluster of each."""
    return law @ np.eye(clusters)[cluster]


def _same_cluster(
    law: Array, d: Array, embedding: Array, order: int, rng: np.random.Generator
) -> Sweep:
    mean = law @ embedding
    prototypes = unit(rng.normal(size=(3, mean.shape[1])))
    cell = assign(prototypes, mean)
    margin = margins(prototypes, mean, order=order)
    close = _transport(law, d) + ROUNDING < margin[:, None]
    return _pairs(cell[:, None] != cell, close)


def _margin_bound(law: Array, margin: Array, transport: Array) -> Array:
    """[S, S]: P(margin <= r) from the first state + transport / r, the least over radii r."""
    within = [(r, (margin <= r).astype(np.float64)) for r in np.linspace(0.05, 1, 20)]
    bounds = [(law @ inside)[:, None] + transport / r for r, inside in within]
    return np.stack(bounds).min(axis=0)


def _transport(law: Array, distance: Array) -> Array:
    return np.array([[wasserstein(p, q, distance) for q in law] for p in law])


def _apart(law: Array) -> Array:
    return total_variation(law[:, None], law[None])


def _pairs(failed: NDArray[np.bool_], held: NDArray[np.bool_] | None = None) -> Sweep:
    """Over ordered pairs of different states; a state beside itself proves nothing."""
    different = ~np.eye(len(failed), dtype=bool)
    held = np.ones_like(failed) if held is None else held
    return Sweep.of(held[different], failed[different])
