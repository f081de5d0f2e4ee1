"""Pictures of the Ising task, and of what CTRL finds in it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from crosstraj.envs import IsingConfig, IsingVectorEnv
from crosstraj.envs.ising.lattice import picture
from crosstraj.experiments.tables.ising_runs import PAPER, RULE, TRUTH, Row, changes
from crosstraj.report.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, canvas
from crosstraj.report.statistics import finite_spread

COLOURS = (BLUE, GREEN, PURPLE, "#E69F00", ORANGE)  # of the models, hot to cold


def draw_study(rows: Sequence[Row], path: Path) -> Path:
    """Return, silhouette, its change and the Rand index, by number of clusters."""
    figure = canvas(10, 6.4)
    grid = figure.subplots(2, 2)
    clusters = sorted({r.clusters for r in rows})
    place = {e: index for index, e in enumerate(clusters)}
    _returns(grid[0, 0], rows, clusters)
    _by_clusters(grid[0, 1], rows, clusters, lambda r: r.silhouette, BLUE, "ours")
    _changes(grid[1, 0], rows)
    _by_clusters(grid[1, 1], rows, clusters, lambda r: r.rand, BLUE, "actions as chosen")
    _by_clusters(grid[1, 1], rows, clusters, lambda r: r.rand_alike, ORANGE, "equal actions")
    _by_clusters(grid[1, 1], rows, clusters, lambda r: r.rand_means, GREEN, "the same, k-means")
    printed = {place[e]: pair for e, pair in PAPER.items() if e in place}
    for axes, index in ((grid[0, 0], 0), (grid[0, 1], 1)):
        heights = [pair[index] for pair in printed.values()]
        axes.plot(list(printed), heights, "x", color="black", label="paper")
    titles = ("return per step", "silhouette", "change in silhouette", "adjusted Rand index")
    for axes, title in zip(grid.flat, titles, strict=True):
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("clusters E", fontsize=8)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
        if axes is not grid[1, 0]:
            axes.set_xticks(range(len(clusters)), [str(e) for e in clusters])
            if TRUTH in place:
                axes.axvline(place[TRUTH], color=GREY, linestyle=":")
    figure.savefig(path, dpi=120)
    return path


def _by_clusters(
    axes: Axes,
    rows: Sequence[Row],
    clusters: list[int],
    figure: Callable[[Row], float],
    colour: str,
    label: str,
) -> None:
    """A point per run, and the mean over seeds as a line."""
    for index, e in enumerate(clusters):
        values = [figure(r) for r in rows if r.clusters == e]
        axes.plot([index] * len(values), values, ".", color=colour, alpha=0.4, markersize=4)
    means = [finite_spread(figure(r) for r in rows if r.clusters == e).mean for e in clusters]
    axes.plot(range(len(clusters)), means, "-", color=colour, label=label)


def _returns(axes: Axes, rows: Sequence[Row], clusters: list[int]) -> None:
    _by_clusters(axes, rows, clusters, lambda r: r.score, BLUE, "CTRL")
    lines: dict[str, Callable[[Row], float]] = {
        "best arm": lambda r: max(r.arms),
        "uniform policy": lambda r: r.uniform,
        "worst arm": lambda r: min(r.arms),
    }
    for (name, figure), colour in zip(lines.items(), (GREEN, GREY, ORANGE), strict=True):
        mean = finite_spread(figure(r) for r in rows).mean
        axes.axhline(mean, color=colour, linestyle="--", linewidth=1, label=name)


def _changes(axes: Axes, rows: Sequence[Row]) -> None:
    """Every seed's change at E = 3 to 8, where clusters are added one by one."""
    for seed in sorted({r.seed for r in rows}):
        known = {r.clusters: r.silhouette for r in rows if r.seed == seed and r.clusters in RULE}
        change = changes(known)
        axes.plot(list(change), list(change.values()), ".-", alpha=0.6, label=f"seed {seed}")
    paper = changes({e: silhouette for e, (_, silhouette) in PAPER.items() if e in RULE})
    axes.plot(list(paper), list(paper.values()), "x", color="black", label="paper, per cluster")
    axes.axvline(TRUTH, color=GREY, linestyle=":")


def draw_task(path: Path, instance: int = 3) -> Path:
    """The five models and the goal; what choosing each of them earns under both rewards."""
    config = IsingConfig(instance=instance)
    figure = canvas(10, 5.2)
    above: list[Any] = [name for name in ("0", "1", "2", "3", "4", "goal") for _ in range(2)]
    below: list[Any] = ["energy"] * 6 + ["literal"] * 6
    panels = figure.subplot_mosaic([above, below], height_ratios=(1, 1.3))
    envs = IsingVectorEnv(1, config)
    envs.reset(seed=0)
    for _ in range(config.horizon // 2):
        envs.step(np.array([instance % config.models]))
    lattices = picture(envs.games.spins)[0]
    goal = envs.games.goal(instance)
    for model, (lattice, beta) in enumerate(zip(lattices, config.betas, strict=True)):
        _lattice(panels[str(model)], lattice, f"choice {model}\nβ = {beta:.4g}", COLOURS[model])
    _lattice(panels["goal"], goal.picture, "goal (not shown)\nβ* unknown", "black")
    for mode in ("energy", "literal"):
        _rewards(panels[mode], replace(config, reward=mode))
    figure.suptitle("The composite Ising matching task: choose one of five lattices per step, "
                    "to match the goal", fontsize=10)  # fmt: skip
    figure.savefig(path, dpi=120)
    return path


def _lattice(axes: Axes, lattice: Any, title: str, colour: str) -> None:
    axes.imshow(lattice, cmap="gray", interpolation="nearest", vmin=-1, vmax=1)
    axes.set_title(title, fontsize=8, color=colour)
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_edgecolor(colour)
        side.set_linewidth(2)


def _rewards(axes: Axes, config: IsingConfig, games: int = 12) -> None:
    """Mean reward at each step of an episode, by the model that is chosen throughout."""
    envs = IsingVectorEnv(games * config.models, config)
    envs.reset(seed=1)
    arms = np.arange(envs.num_envs) % config.models
    rewards = np.stack([envs.step(arms)[1] for _ in range(config.horizon)])
    means = rewards.reshape(config.horizon, games, config.models).mean(axis=1)
    for model, curve in enumerate(means.T):
        axes.plot(curve, color=COLOURS[model], label=f"choice {model}", linewidth=1.2)
    words = {
        "energy": "reward `energy`: the matching model is the best",
        "literal": "reward `literal` (as printed): -1/2 for every choice",
    }
    axes.set_title(words[config.reward], fontsize=9)
    axes.set_xlabel("step", fontsize=8)
    axes.set_ylim(-1.05, 0.02)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=5, loc="lower right")
