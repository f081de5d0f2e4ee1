"""Situations that come back: clusters with frames from several levels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosstraj.analysis.result import Subject
from crosstraj.envs.showing import newest_image

CLUSTERS = 6
FRAMES = 8  # of a cluster, each of another level


class Situation(NamedTuple):
    cluster: int
    views: int
    levels: int
    frames: NDArray[np.uint8]  # [n, H, W, 3]
    unseen: tuple[bool, ...]  # of each frame: is its level one that was not trained on?


def situations(subject: Subject) -> list[Situation]:
    """The clusters that span most levels; none for a method without clusters."""
    views = subject.views
    clusters = subject.lens.embed(views).clusters
    if clusters is None:
        return []
    found = []
    for cluster in np.unique(clusters.cluster[clusters.cluster >= 0]):
        members = np.flatnonzero(clusters.cluster == cluster)
        levels, first = np.unique(views.level[members], return_index=True)
        chosen = members[first[spread(len(first), FRAMES)]]
        found.append(
            Situation(
                int(cluster),
                len(members),
                len(levels),
                newest_image(views.frames[chosen, 0], subject.config.frame_stack),
                tuple(bool(flag) for flag in views.unseen[chosen]),
            )
        )
    return sorted(found, key=lambda one: (-one.levels, -one.views, one.cluster))[:CLUSTERS]


def spread(count: int, most: int) -> NDArray[np.int64]:
    """Evenly spaced places among `count`, at most `most`."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
