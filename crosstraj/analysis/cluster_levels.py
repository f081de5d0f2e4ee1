"""Do clusters recognise situations, whatever the level, or levels?

A cluster of situations holds views of about as many levels as views dealt at random would; a
cluster of levels holds few. Where an environment has no levels, episodes stand in for them.
"""

from typing import NamedTuple, SupportsFloat

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import gammaln

from crosstraj.analysis.measures import NAN, Floats, Ints, spread
from crosstraj.analysis.play import Views
from crosstraj.objectives.instruments import groups_per_cluster, share_about


def group_of(views: Views) -> tuple[str, Ints]:
    """What levels are called here, "level" or "episode", and that of each view [B]."""
    if (views.level >= 0).all():
        return "level", views.level
    return "episode", views.trajectory


class Span(NamedTuple):
    """How many different levels the views of each cluster are from."""

    levels: Ints  # [C]
    permuted: Floats  # [C] on average, if the same clusters were dealt to the views at random


def span(cluster: Ints, group: Ints, clusters: int) -> Span:
    """Levels per cluster; a view in no cluster is left out.

    n of N views drawn without replacement miss a level of m views with probability
    (N - m)! (N - n)! / ((N - m - n)! N!), and surely not where n > N - m: no permutation is drawn.
    """
    kept = cluster >= 0
    pairs = np.unique(np.stack([cluster[kept], group[kept]]), axis=1)
    levels = np.bincount(pairs[0], minlength=clusters)
    n = np.bincount(cluster[kept], minlength=clusters)[:, None]
    m, total = np.unique(group[kept], return_counts=True)[1], kept.sum()
    # gammaln(k + 1) = ln k!, and infinite below 0.
    logs = gammaln(total - m + 1) - gammaln(total - m - n + 1)
    missed = np.exp(logs + gammaln(total - n + 1) - gammaln(total + 1))
    return Span(levels, (1 - missed).sum(1))


def figures(cluster: Ints, group: Ints, found: Span) -> dict[str, float]:
    """How many levels a view's cluster spans, and what metrics.jsonl has of codes, of clusters."""
    kept = cluster >= 0
    names = ("levels_spanned", "levels_spanned_permuted", "levels_per_cluster", "codes_about_level")
    if not kept.any():
        return dict.fromkeys(names, NAN)
    own, level = torch.from_numpy(cluster[kept]), torch.from_numpy(group[kept])
    code, rng = F.one_hot(own).double(), torch.Generator().manual_seed(0)
    values: tuple[SupportsFloat, ...] = (
        found.levels[cluster[kept]].mean(),  # over views: a cluster of two can span no more
        found.permuted[cluster[kept]].mean(),
        groups_per_cluster(code, level, rng),
        share_about(code, level, rng),
    )
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def one_per_level(members: Ints, group: Ints, count: int) -> Ints:
    """Views of one cluster from up to `count` different levels: the middle one of each.

    The levels are spread over all that it has, in ascending order: seen ones come first.
    """
    chosen = spread(np.unique(group[members]), count)
    within = [members[group[members] == level] for level in chosen]
    return np.array([views[len(views) // 2] for views in within], np.int64)
