"""The figures of an analysis as PNG; those that show frames are in states.py."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from numpy.typing import NDArray

from crosstraj.analysis.canvas import COLOURS, new_figure, title_of
from crosstraj.analysis.output import run_name
from crosstraj.analysis.result import Analysis
from crosstraj.analysis.states import draw_levels, draw_states
from crosstraj.health.glossary import GLOSSARY
from crosstraj.report.drawing import BLUE, GREY, ORANGE, PURPLE, over_frames, png
from crosstraj.runs.log import series

MARKERS = "os^DPv"  # with the colours: 42 kinds that can be told apart
NODES = 16  # clusters shown in the transition graph, the largest
SMOOTH = 9  # windows, for the line of temporal connectivity


def draw(result: Analysis) -> dict[str, bytes]:
    """Every figure that there is something to show in, by file name."""
    drawings = {
        "map.png": draw_map,
        "silhouette.png": draw_silhouette,
        "losses.png": draw_losses,
        "clusters.png": draw_sizes,
        "connectivity.png": draw_connectivity,
        "transitions.png": draw_transitions,
        "states.png": draw_states,
        "levels.png": draw_levels,
        "health.png": draw_health,
    }
    pictures = {}
    for name, drawing in drawings.items():
        figure = drawing(result)
        if figure is not None:
            pictures[name] = png(figure)
    return pictures


def draw_map(result: Analysis) -> Figure:
    views, clusters, place = result.subject.views, result.embedding.clusters, result.place
    figure = new_figure(12, 8.4, f"t-SNE of {len(views):,} views; {title_of(result)}")
    grid = figure.subplots(2, 3).flat
    kinds: list[tuple[str, NDArray[Any]]] = [
        ("level", np.unique(views.level, return_inverse=True)[1]),
        ("action (first keypoint)", views.action[:, 0]),
    ]
    if clusters is not None:
        kinds.insert(0, ("cluster", clusters.cluster))
    for (name, labels), axes in zip(kinds, grid, strict=False):
        scatter_kinds(axes, place, labels)
        axes.set_title(f"{name}: {len(np.unique(labels[labels >= 0]))} kinds", fontsize=9)
    axes = next(grid)
    order = np.random.default_rng(0).permutation(len(views))  # neither lies above the other
    colours = np.where(views.unseen, ORANGE, BLUE)[order]
    axes.scatter(place[order, 0], place[order, 1], s=5, c=colours, alpha=0.6)
    for name, colour in (("seen", BLUE), ("unseen", ORANGE)):
        axes.scatter([], [], s=12, c=colour, label=name)
    axes.legend(fontsize=8)
    axes.set_title("seen and unseen levels", fontsize=9)
    for name, values in (("value", views.value), ("return-to-go (raw)", views.return_to_go)):
        axes = next(grid)
        known = np.isfinite(values)
        axes.scatter(place[~known, 0], place[~known, 1], s=3, c="#cccccc")
        points = axes.scatter(
            place[known, 0], place[known, 1], s=5, c=values[known], cmap="cividis"
        )
        figure.colorbar(points, ax=axes)
        axes.set_title(f"{name}; grey: NaN" if not known.all() else name, fontsize=9)
    for axes in figure.axes:
        if axes.get_label() != "<colorbar>":
            axes.set(xticks=[], yticks=[])
    for axes in grid:
        axes.set_axis_off()
    return figure


def scatter_kinds(axes: Axes, place: NDArray[Any], labels: NDArray[Any]) -> None:
    """Points by kind: colour and marker together; kind -1 is light grey."""
    axes.scatter(place[labels < 0, 0], place[labels < 0, 1], s=3, c="#cccccc")
    kinds = len(COLOURS) * len(MARKERS)
    for kind in np.unique(labels[labels >= 0] % kinds):
        rows = (labels >= 0) & (labels % kinds == kind)
        colour, marker = COLOURS[kind % len(COLOURS)], MARKERS[kind // len(COLOURS)]
        axes.scatter(
            place[rows, 0], place[rows, 1], s=5, c=colour, marker=marker, linewidths=0, alpha=0.8
        )


def draw_silhouette(result: Analysis) -> Figure | None:
    if result.embedding.clusters is None:
        return None
    figure = new_figure(9, 3.4, f"the same views, clustered by each snapshot; {title_of(result)}")
    left, right = figure.subplots(1, 2)
    over_training(left, result, "silhouette", [m.silhouette for m in result.moments], "o-", BLUE)
    over_training(right, result, "agreement", [m.agreement for m in result.moments], "s-", ORANGE)
    right.set_ylim(0, 1)
    return figure


def over_training(
    axes: Axes, result: Analysis, figure: str, values: list[float], style: str, colour: str
) -> None:
    """One of the glossary's figures at each of the moments."""
    axes.plot([moment.frames for moment in result.moments], values, style, color=colour)
    axes.set_title(GLOSSARY[figure].label, fontsize=9)
    over_frames(axes)


def draw_losses(result: Analysis) -> Figure | None:
    panels = [("cluster", BLUE), ("predict", ORANGE)]
    losses = [
        (GLOSSARY[name].label, series(result.subject.rows, name), colour) for name, colour in panels
    ]
    if not any(points for _, points, _ in losses):
        return None
    figure = new_figure(9, 3.2, f"losses over training; {run_name(result.subject.run)}")
    for axes, (name, points, colour) in zip(figure.subplots(1, 2), losses, strict=True):
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=colour, markersize=3)
        axes.set_title(name, fontsize=9)
        over_frames(axes)
    return figure


def draw_sizes(result: Analysis) -> Figure | None:
    if result.counts is None:
        return None
    order = np.argsort(-result.counts.sum(0), kind="stable")
    order = order[result.counts.sum(0)[order] > 0]
    figure = new_figure(10, 3.2, f"views per cluster; {title_of(result)}")
    axes = figure.subplots()
    seen, unseen = result.counts[:, order]
    axes.bar(range(len(order)), seen, color=BLUE, label="seen", width=0.9)
    axes.bar(range(len(order)), unseen, bottom=seen, color=ORANGE, label="unseen", width=0.9)
    total = result.counts.shape[1]
    axes.set_xlabel(f"{len(order)} of {total} clusters are used, the largest first", fontsize=8)
    axes.legend(fontsize=8)
    return figure


def draw_connectivity(result: Analysis) -> Figure | None:
    joined, views = result.connectivity, result.subject.views
    if joined is None or not len(joined.first):
        return None
    figure = new_figure(8, 3.6, f"temporal connectivity; {title_of(result)}")
    axes = figure.subplots()
    for unseen, colour in ((False, BLUE), (True, ORANGE)):
        rows = views.unseen[joined.first] == unseen
        window = views.window[joined.first][rows]
        if not len(window):
            continue
        count = np.bincount(window)
        mean = np.bincount(window, joined.cosine[rows]) / np.where(count, count, np.nan)
        steps = np.arange(len(mean)) * result.subject.span
        axes.plot(steps, mean, ".", color=colour, alpha=0.25, markersize=4)
        label = "unseen" if unseen else "seen"
        axes.plot(steps, smooth(mean, count, SMOOTH), color=colour, label=label)
    axes.axhline(joined.chance, color=GREY, linestyle="--", label="the same clusters in any order")
    axes.set_xlabel("step of the episode", fontsize=8)
    axes.set_ylabel("cosine between centres\nof consecutive views", fontsize=8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def smooth(mean: NDArray[Any], count: NDArray[Any], width: int) -> NDArray[Any]:
    """A moving average of means, each weighted by how many values are behind it."""
    box = np.ones(min(width, len(mean)))
    total = np.convolve(np.nan_to_num(mean) * count, box, "same")
    weight = np.convolve(count, box, "same")
    return total / np.where(weight, weight, np.nan)


def draw_transitions(result: Analysis) -> Figure | None:
    """The largest clusters where they lie on the map, with arrows to what follows them."""
    clusters, counts = result.embedding.clusters, result.transitions
    if clusters is None or counts is None or result.counts is None or not counts.sum():
        return None
    figure = new_figure(8, 7, f"the largest clusters and what follows them; {title_of(result)}")
    axes = figure.subplots()
    axes.scatter(result.place[:, 0], result.place[:, 1], s=2, c="#dddddd")
    sizes = result.counts.sum(0)
    nodes = np.argsort(-sizes, kind="stable")[:NODES]
    nodes = nodes[sizes[nodes] > 0]
    centre = {int(n): np.nanmedian(result.place[clusters.cluster == n], axis=0) for n in nodes}
    left = counts.sum(1)
    for a in centre:
        for b in centre:
            chance = counts[a, b] / left[a] if left[a] else 0.0
            if a != b and chance >= 0.03:
                arrow = FancyArrowPatch(
                    centre[a], centre[b], connectionstyle="arc3,rad=0.15", arrowstyle="-|>",
                    mutation_scale=9, linewidth=0.5 + 8 * chance, color=ORANGE, alpha=0.6,
                    shrinkA=11, shrinkB=11,
                )  # fmt: skip
                axes.add_patch(arrow)
    for node, (x, y) in centre.items():
        stay = counts[node, node] / left[node] if left[node] else float("nan")
        axes.scatter(x, y, s=330, color=BLUE, edgecolors="white", zorder=3)
        axes.annotate(
            f"{node}\n{stay:.0%}",
            (x, y),
            color="white",
            fontsize=6.5,
            ha="center",
            va="center",
            zorder=4,
        )
    axes.set_xlabel(
        "number of the cluster; how often it follows itself; arrows: at least 3 % of what follows",
        fontsize=8,
    )
    axes.set(xticks=[], yticks=[])
    return figure


def draw_health(result: Analysis) -> Figure | None:
    if not result.moments:
        return None
    figure = new_figure(9, 3.2, f"features of one fixed set of frames; {title_of(result)}")
    left, right = figure.subplots(1, 2)
    for axes, name, style, colour in (
        (left, "feature_rank", "o-", BLUE),
        (right, "dead_features", "s-", PURPLE),
    ):
        values = [moment.health[name] for moment in result.moments]
        over_training(axes, result, name, values, style, colour)
    right.set_ylim(-0.03, 1.03)
    return figure
