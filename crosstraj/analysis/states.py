"""Frames of the largest clusters: what is alike in a cluster, the situation or the background?"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from crosstraj.analysis import measures
from crosstraj.analysis.canvas import new_figure, title_of
from crosstraj.analysis.cluster_levels import group_of, one_per_level
from crosstraj.analysis.pictures import strip
from crosstraj.analysis.result import Analysis
from crosstraj.envs.showing import newest_image
from crosstraj.report.drawing import BLUE, ORANGE

SAMPLED = 8  # clusters whose states are shown
STATES = 6  # states of each
ROWS = 12  # clusters whose levels are shown
LEVELS = 8  # levels of each


def largest(result: Analysis, count: int) -> NDArray[np.int64]:
    """The numbers of the clusters with the most views, those first."""
    if result.counts is None:
        return np.zeros(0, np.int64)
    sizes = result.counts.sum(0)
    order = np.argsort(-sizes, kind="stable")[:count]
    return order[sizes[order] > 0]


def draw_states(result: Analysis) -> Figure | None:
    """Sample states of the largest clusters, with the actions taken in them."""
    clusters, subject = result.embedding.clusters, result.subject
    shown = largest(result, SAMPLED)
    if clusters is None or not len(shown):
        return None
    views, keypoints = subject.views, min(4, subject.views.action.shape[1])
    width = 1.15 * keypoints * STATES
    figure = new_figure(
        min(16, width) + 0.6,
        1.6 * len(shown) + 0.5,
        f"sample states of the largest clusters, with the actions taken; {title_of(result)}",
    )
    grid = figure.subplots(len(shown), STATES, squeeze=False)
    for line, cluster in zip(grid, shown, strict=True):
        members = np.flatnonzero(clusters.cluster == cluster)
        chosen = measures.spread(members, STATES)
        for axes in line:
            axes.set(xticks=[], yticks=[], frame_on=False)
        for axes, view in zip(line, chosen, strict=False):
            frames = newest_image(views.frames[view, :keypoints], subject.config.frame_stack)
            axes.imshow(strip(frames), interpolation="nearest")
            actions = "   ".join(subject.actions[a] for a in views.action[view, :keypoints])
            level = "unseen" if views.unseen[view] else "seen"
            axes.set_title(f"{actions}  ({level})", fontsize=7, parse_math=False, pad=2)
        line[0].set_ylabel(f"cluster {cluster}\n{len(members)} views", fontsize=8)
    return figure


def draw_levels(result: Analysis) -> Figure | None:
    """One row for each of the largest clusters: a frame of each of up to eight levels."""
    clusters, views, found = result.embedding.clusters, result.subject.views, result.span
    shown = largest(result, ROWS)
    if clusters is None or found is None or not len(shown):
        return None
    name, group = group_of(views)
    title = (
        f"the largest clusters, each in up to {LEVELS} different {name}s; below a frame its {name}"
        f"\n{title_of(result)}"
    )
    figure = new_figure(1.2 * (LEVELS + 1.1), 1.38 * len(shown) + 0.5, title)
    axes = figure.subplots()
    axes.set_xlim(-1.1, LEVELS)  # in frames: the words stand to the left of 0
    axes.set_ylim(1.15 * len(shown), -0.05)
    axes.set_aspect("equal")
    axes.set_axis_off()
    for row, cluster in enumerate(shown):
        members = np.flatnonzero(clusters.cluster == cluster)
        words = (
            f"cluster {cluster}\n{len(members)} views\nof {found.levels[cluster]} {name}s\n"
            f"(permuted: {found.permuted[cluster]:.1f})"
        )
        axes.text(-0.1, 1.15 * row + 0.47, words, fontsize=8, ha="right", va="center")
        for column, view in enumerate(one_per_level(members, group, LEVELS)):
            frame = newest_image(views.frames[view, 0], result.subject.config.frame_stack)
            split = "unseen" if views.unseen[view] else "seen"
            label = f"{group[view]} ({split})"
            colour = ORANGE if views.unseen[view] else BLUE
            put_frame(axes, frame, column, 1.15 * row, label, colour)
    return figure


def put_frame(
    axes: Axes, frame: NDArray[np.uint8], x: float, y: float, label: str, colour: str
) -> None:
    """A frame with its upper left corner at (x, y), almost one unit wide, and words below it."""
    height, width = frame.shape[:2]
    side = 0.95 / max(height, width)
    place = (x, x + side * width, y + side * height, y)  # left, right, bottom, top
    axes.imshow(frame, interpolation="nearest", extent=place, aspect="equal")
    axes.text(x + 0.475, y + 0.97, label, fontsize=7, ha="center", va="top", color=colour)
