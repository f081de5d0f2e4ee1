"""Figures about an embedded set of views. Each is scikit-learn's or scipy's; none is drawn here.

Views come ordered by trajectory and time (play.py). A cluster of -1 is none, and is left out.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy, spearmanr
from sklearn import config_context
from sklearn.metrics import adjusted_mutual_info_score, silhouette_score
from sklearn.preprocessing import normalize

Ints = NDArray[np.int64]
Floats = NDArray[Any]

NAN = float("nan")
SILHOUETTE_VIEWS = 5000  # it compares all pairs: beyond this, a fixed random sample of so many


def silhouette(vectors: Floats, cluster: Ints, most: int = SILHOUETTE_VIEWS) -> float:
    """Cosine silhouette of hard assignments; NaN where it is not defined.

    It needs at least two clusters, and fewer than there are views.
    """
    kept = cluster >= 0
    vectors, labels = vectors[kept], cluster[kept]
    if len(labels) > most:
        rows = np.random.default_rng(0).choice(len(labels), most, replace=False)
        vectors, labels = vectors[rows], labels[rows]
    used = len(np.unique(labels))
    if not 2 <= used < len(labels):
        return NAN
    with config_context(working_memory=64):  # MiB of distances at a time
        return float(silhouette_score(vectors, labels, metric="cosine"))


def agreement(cluster: Ints, raw: Ints) -> float:
    """The share of views whose cluster is also the raw argmax."""
    kept = cluster >= 0
    return float(np.mean(cluster[kept] == raw[kept])) if kept.any() else NAN


def agreement_chance(cluster: Ints, other: Ints) -> float:
    """What `agreement` of two clusterings is on average if views are dealt anew to their clusters.

    Views that one of the two has in no cluster are left out.
    """
    kept = (cluster >= 0) & (other >= 0)
    if not kept.any():
        return NAN
    clusters = 1 + max(cluster.max(), other.max())
    sizes = [np.bincount(side[kept], minlength=clusters) for side in (cluster, other)]
    return float(sizes[0] @ sizes[1]) / int(kept.sum()) ** 2


def consecutive(trajectory: Ints, window: Ints) -> tuple[Ints, Ints]:
    """Rows i and j of views that follow each other in one trajectory."""
    follows = (trajectory[1:] == trajectory[:-1]) & (window[1:] == window[:-1] + 1)
    first = np.flatnonzero(follows)
    return first, first + 1


class Connectivity(NamedTuple):
    first: Ints  # [P] the earlier view of each pair
    cosine: Floats  # [P] between the centres of its clusters
    chance: float  # mean cosine of two views drawn independently

    @property
    def mean(self) -> float:
        return float(self.cosine.mean()) if len(self.cosine) else NAN


def connectivity(centres: Floats, cluster: Ints, trajectory: Ints, window: Ints) -> Connectivity:
    """How near in angle the clusters of consecutive views are (a figure of the paper).

    Chance is what the same use of clusters gives without any order in time: for unit centres the
    mean over all pairs of views, with themselves too, is the squared length of the mean centre.
    """
    first, second = consecutive(trajectory, window)
    both = (cluster[first] >= 0) & (cluster[second] >= 0)
    first, second = first[both], second[both]
    unit = normalize(np.nan_to_num(centres))
    cosine = (unit[cluster[first]] * unit[cluster[second]]).sum(1)
    used = cluster[cluster >= 0]
    chance = float(np.square(unit[used].mean(0)).sum()) if len(used) else NAN
    return Connectivity(first, cosine, chance)


def transitions(cluster: Ints, trajectory: Ints, window: Ints, clusters: int) -> Any:
    """How often a view of cluster i is followed by one of j: a sparse matrix [C, C] of counts."""
    first, second = consecutive(trajectory, window)
    both = (cluster[first] >= 0) & (cluster[second] >= 0)
    pairs = cluster[first][both], cluster[second][both]
    return coo_array((np.ones(len(pairs[0]), np.int64), pairs), (clusters, clusters)).tocsr()


def transition_figures(counts: Any) -> dict[str, float]:
    """Does a cluster say which comes next? Entropies in nats, weighted by how often it is left."""
    total = counts.sum()
    if not total:
        return {"transitions": 0, "stay": NAN, "next_entropy": NAN, "next_entropy_unordered": NAN}
    left = counts.sum(1)
    following = [entropy(counts[[row]].toarray()[0]) for row in np.flatnonzero(left)]
    return {
        "transitions": int(total),
        "stay": float(counts.diagonal().sum() / total),
        "next_entropy": float(np.average(following, weights=left[left > 0])),
        "next_entropy_unordered": float(entropy(counts.sum(0))),
    }


def usage(cluster: Ints, unseen: NDArray[np.bool_], clusters: int) -> Ints:
    """Views per split and cluster: [2, C], seen first."""
    rows = [
        np.bincount(cluster[(cluster >= 0) & (unseen == split)], minlength=clusters)
        for split in (False, True)
    ]
    return np.array(rows, np.int64)


def _distance(counts: Ints) -> float:
    return float(jensenshannon(counts[0], counts[1], base=2))


def usage_figures(
    cluster: Ints, unseen: NDArray[np.bool_], trajectory: Ints, clusters: int, shuffles: int = 200
) -> dict[str, float]:
    """Are the same clusters used on seen and on unseen levels?

    The distance is Jensen-Shannon's (base 2: 0 equal, 1 disjoint). What chance gives is found by
    dealing whole trajectories, not views, to the two sides at random: views of one trajectory are
    alike. The p-value is the share of such deals at least as far apart.
    """
    counts = usage(cluster, unseen, clusters)
    used = counts > 0
    result: dict[str, float] = {
        "used_seen": int(used[0].sum()),
        "used_unseen": int(used[1].sum()),
        "used_both": int(used.all(0).sum()),
        "unseen_views_in_seen_clusters": NAN,
        "usage_distance": NAN,
        "usage_distance_chance": NAN,
        "usage_p": NAN,
    }
    if not counts.sum(1).all():
        return result
    result["unseen_views_in_seen_clusters"] = float(counts[1][used[0]].sum() / counts[1].sum())
    distance = result["usage_distance"] = _distance(counts)
    numbers, first = np.unique(trajectory, return_index=True)
    side, rng = unseen[first], np.random.default_rng(0)
    if not 0 < side.sum() < len(side) or len(side) < 4:
        return result
    place = np.searchsorted(numbers, trajectory)
    dealt = []
    for _ in range(shuffles):
        deal = usage(cluster, rng.permutation(side)[place], clusters)
        if deal.sum(1).all():
            dealt.append(_distance(deal))
    if dealt:
        result["usage_distance_chance"] = float(np.mean(dealt))
        extreme = sum(value >= distance - 1e-12 for value in dealt)
        result["usage_p"] = (1 + extreme) / (1 + len(dealt))
    return result


def information(cluster: Ints, labels: Ints) -> float:
    """What a cluster says about a label: adjusted mutual information, 0 by chance and 1 for all."""
    kept = cluster >= 0
    if not kept.any() or len(np.unique(labels[kept])) < 2:
        return NAN
    return float(adjusted_mutual_info_score(labels[kept], cluster[kept]))


def rank_correlation(a: Floats, b: Floats) -> tuple[float, int]:
    """Spearman's, and over how many pairs; NaN below three pairs or where a side never changes."""
    kept = np.isfinite(a) & np.isfinite(b)
    a, b = np.asarray(a)[kept], np.asarray(b)[kept]
    if len(a) < 3 or len(np.unique(a)) < 2 or len(np.unique(b)) < 2:
        return NAN, len(a)
    return float(spearmanr(a, b).statistic), len(a)


def spread(members: Ints, count: int) -> Ints:
    """Up to `count` members evenly spaced over their list: from as many trajectories as may be."""
    if len(members) <= count:
        return members
    return members[np.linspace(0, len(members) - 1, count).round().astype(int)]
