"""The paper's pictures of clusters over several runs: sample states, and maps at each snapshot."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from crosstraj.analysis import measures
from crosstraj.analysis.canvas import COLOURS, new_figure
from crosstraj.analysis.embed import Clusters, Embedding
from crosstraj.analysis.layout import Coordinates, tsne
from crosstraj.analysis.plots import scatter_kinds
from crosstraj.analysis.result import Choices
from crosstraj.analysis.study import prepare, snapshot_steps
from crosstraj.envs.showing import newest_image
from crosstraj.errors import BadInput
from crosstraj.health.glossary import GLOSSARY, shorts
from crosstraj.report.drawing import over_frames, png
from crosstraj.runs.log import series

VIEWS = 1024  # of a run, as many as the paper's t-SNE shows
STATES = 4  # of a cluster, drawn at random (paper)
CLUSTERS = 2  # of a game (paper) ...
MORE_CLUSTERS = {"starpilot": 4}  # ... where differences "are easier to visualize"


def clusters_of(run: Path, embedding: Embedding) -> Clusters:
    if embedding.clusters is None:
        raise BadInput(f"{run}: its method has no clusters to show; give one with prototypes")
    return embedding.clusters


class Sample(NamedTuple):
    """A cluster, and states of it."""

    variant: str
    game: str
    rank: int  # 0: the cluster with the most views
    cluster: int
    views: int
    levels: int  # how many different levels the views are of
    states: NDArray[np.uint8]  # [n <= STATES, H, W, 3]


def samples(run: Path, variant: str) -> list[Sample]:
    """Random states of the largest clusters of a run, at its end."""
    subject = prepare(run, Choices(VIEWS, None, 0, 0))
    views, clusters = subject.views, clusters_of(run, subject.lens.embed(subject.views))
    game = subject.config.env
    sizes = np.bincount(clusters.cluster[clusters.cluster >= 0])
    found, rng = [], np.random.default_rng(0)
    order = np.argsort(-sizes, kind="stable")[: MORE_CLUSTERS.get(game, CLUSTERS)]
    for rank, cluster in enumerate(order[sizes[order] > 0]):
        members = np.flatnonzero(clusters.cluster == cluster)
        chosen = np.sort(rng.permutation(members)[:STATES])
        states = newest_image(views.frames[chosen, 0], subject.config.frame_stack)
        levels = len(np.unique(views.level[members]))
        found.append(Sample(variant, game, rank, int(cluster), len(members), levels, states))
    return found


def draw_samples(found: list[Sample]) -> bytes:
    """A line per game and cluster; the variants side by side."""
    lines = sorted({(sample.game, sample.rank) for sample in found})
    variants = list(dict.fromkeys(sample.variant for sample in found))
    title = "random states of the largest clusters; " + ", ".join(variants)
    figure = new_figure(1.1 * STATES * len(variants) + 1, 1.25 * len(lines) + 0.6, title)
    grid = figure.subplots(len(lines), STATES * len(variants), squeeze=False)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[], frame_on=False)
    for sample in found:
        line = grid[lines.index((sample.game, sample.rank))]
        start = STATES * variants.index(sample.variant)
        line[start].set_ylabel(f"{sample.game}\ncluster {sample.cluster}", fontsize=7)
        for axes, state in zip(line[start:], sample.states, strict=False):
            axes.imshow(state, interpolation="nearest")
    return png(figure)


class Map(NamedTuple):
    """The states that a run met at one moment of training, in the plane."""

    variant: str
    frames: int
    place: Coordinates
    cluster: NDArray[np.int64]
    silhouette: float


def maps(run: Path, variant: str) -> list[Map]:
    """One map for each snapshot, of states which the policy of that time has met."""
    found = []
    for step in snapshot_steps(run, most=2**62):
        subject = prepare(run, Choices(VIEWS, step, 0, 0))
        embedding = subject.lens.embed(subject.views)
        cluster = clusters_of(run, embedding).cluster
        score = measures.silhouette(embedding.vectors, cluster)
        found.append(Map(variant, step, tsne(embedding.vectors), cluster, score))
    return found


def draw_maps(found: list[Map]) -> bytes:
    """A line per variant, its moments in order."""
    lines: dict[str, list[Map]] = {}
    for one in found:
        lines.setdefault(one.variant, []).append(one)
    most = max(map(len, lines.values()))
    title = f"t-SNE of {VIEWS:,} views met at each moment; a colour and marker is a cluster"
    figure = new_figure(2.8 * most + 0.4, 2.9 * len(lines) + 0.5, title)
    grid = figure.subplots(len(lines), most, squeeze=False)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
    for line, (variant, moments) in zip(grid, lines.items(), strict=True):
        line[0].set_ylabel(variant, fontsize=9)
        for axes, one in zip(line, moments, strict=False):
            scatter_kinds(axes, one.place, one.cluster)
            quality = f"{GLOSSARY['silhouette'].short} {one.silhouette:.2f}"
            axes.set_title(f"{one.frames:,} frames; {quality}", fontsize=8)
    return png(figure)


class Course(NamedTuple):
    """The two losses over training, and how alike the clusters of one trajectory are."""

    variant: str
    cluster: list[tuple[float, float]]  # frames, L_clust
    predict: list[tuple[float, float]]
    alike: list[tuple[float, float]]  # frames, mean cosine of centres of consecutive views
    chance: list[tuple[float, float]]  # the same clusters in any order


def course(run: Path, variant: str) -> Course:
    """Losses from the log; likeness from every snapshot, on the same views."""
    subject = prepare(run, Choices(VIEWS, None, 0, 0))
    views, alike, chance = subject.views, [], []
    for frames in subject.loaded():
        clusters = clusters_of(run, subject.lens.embed(views))
        found = measures.connectivity(
            clusters.centres, clusters.cluster, views.trajectory, views.window
        )
        alike.append((float(frames), found.mean))
        chance.append((float(frames), found.chance))
    cluster, predict = (series(subject.rows, name) for name in ("cluster", "predict"))
    return Course(variant, cluster, predict, alike, chance)


def draw_courses(found: list[Course]) -> bytes:
    """Three panels, a colour per variant."""
    figure = new_figure(12, 3.6, "losses over training, and clusters along a trajectory")
    panels = figure.subplots(1, 3)
    for number, one in enumerate(found):
        colour = COLOURS[number % len(COLOURS)]
        for axes, points in zip(panels, (one.cluster, one.predict, one.alike), strict=True):
            line(axes, points, "-", colour, one.variant)
        line(panels[2], one.chance, "--", colour, f"{one.variant}: in any order")
    names = (*shorts("cluster", "predict").values(), GLOSSARY["connectivity"].label)
    for axes, name in zip(panels, names, strict=True):
        axes.set_title(name, fontsize=9)
        over_frames(axes)
        axes.legend(fontsize=7)
    return png(figure)


def line(
    axes: Axes, points: list[tuple[float, float]], style: str, colour: str, label: str
) -> None:
    frames, values = ([point[i] for point in points] for i in (0, 1))
    axes.plot(frames, values, style, color=colour, label=label, marker="o", markersize=2)
