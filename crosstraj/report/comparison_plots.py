"""The figures of a report: learning curves, aggregates, profiles, improvements, levels won."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from crosstraj.health.glossary import GLOSSARY
from crosstraj.report.cells import RANDOM_PLAY
from crosstraj.report.comparison import Comparison, Variant
from crosstraj.report.document import plain
from crosstraj.report.drawing import (
    BLUE,
    GREY,
    LOOKS,
    ORANGE,
    canvas,
    literal,
    over_frames,
    panels,
    shared_curve,
)
from crosstraj.report.level_by_level import Outcome
from crosstraj.report.reading import RunData
from crosstraj.report.statistics import Estimate, spread

GAP = "optimality gap"  # the one aggregate that is no score
LEAST = 0.1  # normalised score that an axis of aggregates spans


def learning_curves(comparison: Comparison, split: str) -> Figure:
    """Return over frames, a panel per game: mean and one standard deviation over seeds."""
    games = sorted({g for v in comparison.variants for g, _ in v.finished | v.partial})
    columns = 3 if len(games) == 3 else min(4, math.ceil(math.sqrt(len(games))))
    extra = 0.3 * len(comparison.variants) + 0.5
    looks = _looks(variant.label for variant in comparison.variants)
    figure, grid = panels(len(games), columns, (3.4, 2.9), extra=extra, least=6.0)
    for axes, game in zip(grid, games, strict=True):
        for variant, (colour, style) in zip(comparison.variants, looks, strict=True):
            _draw_variant(axes, variant, game, split, colour, style)
        chance = comparison.random(game, "seen" if split == "seen" else comparison.levels)
        if math.isfinite(chance) and axes.lines:
            axes.axhline(chance, color=GREY, linestyle="--", linewidth=1)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.0), max(high, 0.0))  # or noise fills the panel
        axes.set_title(literal(game), fontsize=9)
        axes.tick_params(labelsize=8)
        over_frames(axes)
        if axes in grid[::columns]:  # the others have the same one
            axes.set_ylabel(GLOSSARY[f"{split}_return"].label, fontsize=8)
        drawn = [np.max(np.asarray(line.get_xdata()), initial=0) for line in axes.lines]
        axes.set_xlim(0, 1.03 * max(comparison.budget, *drawn, 0))  # runs end with whole rollouts
        if not axes.lines:
            axes.text(0.5, 0.5, "not judged yet", ha="center", transform=axes.transAxes)
            axes.set_yticks([])  # there is no scale
    handles = [
        figure.axes[0].plot([], [], style, color=colour, marker="o", markersize=3)[0]
        for colour, style in looks
    ]
    names = [_wrapped(f"{v.label} ({_seeds(v)})") for v in comparison.variants]
    handles.append(figure.axes[0].plot([], [], "--", color=GREY, linewidth=1)[0])
    names.append(RANDOM_PLAY)
    figure.legend(handles, names, loc="outside lower center", ncols=1, fontsize=8)
    return figure


def one_run(comparison: Comparison) -> Figure:
    """A run alone: its returns on both kinds of levels, and those of random play, in one panel."""
    figure = canvas(6.0, 3.8)
    axes = figure.subplots()
    (game, _), run = next(iter(comparison.judged[0].finished.items()))
    training = dict(run.training)
    axes.plot(list(training), list(training.values()), color=BLUE, alpha=0.35, linewidth=0.8)
    for split, colour in ((comparison.levels, ORANGE), ("seen", BLUE)):
        points = _evaluated(run, split)
        axes.plot(list(points), list(points.values()), "o-", color=colour, markersize=4,
                  label=f"{split} levels")  # fmt: skip
    if math.isfinite(chance := comparison.random(game)):
        axes.axhline(chance, color=GREY, linestyle="--", linewidth=1, label=RANDOM_PLAY)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.0), max(high, 0.0))  # or noise fills the panel
    axes.set_xlim(left=0)
    over_frames(axes)
    axes.set_title(literal(game), fontsize=10)
    axes.set_ylabel("return of an episode", fontsize=8)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _looks(labels: Iterable[str]) -> list[tuple[str, str]]:
    """The colour and line of each variant, in their order; random play is grey in every figure."""
    return [
        (GREY, "--") if label == RANDOM_PLAY else LOOKS[index % len(LOOKS)]
        for index, label in enumerate(labels)
    ]


def _seeds(variant: Variant) -> str:
    counts = sorted({len(variant.seeds(game)) for game in variant.games})
    if not counts:
        return "partial: thin lines"
    if counts == [1]:
        return "1 seed: no band"
    return f"{' to '.join(map(str, sorted({counts[0], counts[-1]})))} seeds"


def _draw_variant(
    axes: Axes, variant: Variant, game: str, split: str, colour: str, style: str
) -> None:
    runs = [variant.finished[game, seed] for seed in variant.seeds(game)]
    curve = shared_curve([_evaluated(run, split) for run in runs])
    if curve:
        frames = list(curve)
        mean, sd, _ = (
            np.array(column) for column in zip(*map(spread, curve.values()), strict=True)
        )
        axes.plot(frames, mean, style, color=colour, marker="o", markersize=3)
        if len(runs) > 1:
            axes.fill_between(frames, mean - sd, mean + sd, color=colour, alpha=0.18, linewidth=0)
    if split == "seen":  # what the agent got while it learnt, faintly behind it
        training = shared_curve([dict(run.training) for run in runs])
        axes.plot(
            list(training), [float(np.mean(row)) for row in training.values()],
            style, color=colour, alpha=0.4, linewidth=0.8,
        )  # fmt: skip
    for (name, _), run in variant.partial.items():
        points = _evaluated(run, split) or (dict(run.training) if split == "seen" else {})
        if name == game and points:
            axes.plot(list(points), list(points.values()), ":", color=colour, linewidth=0.9)


def _evaluated(run: RunData, split: str) -> dict[int, float]:
    return {e.frames: e.seen if split == "seen" else e.held_out for e in run.reached.evaluations}


def intervals(found: Mapping[str, Mapping[str, Estimate]]) -> Figure:
    """A panel per aggregate, a line per variant: the value, and its interval if there is one."""
    names = list(next(iter(found.values())))
    figure = canvas(3.0 * len(names) + 1.5, 0.4 * len(found) + 1.2)
    grid = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    scores = [row[name] for row in found.values() for name in names if name != GAP]
    looks = _looks(found)
    for axes, name in zip(grid, names, strict=True):
        estimates = [row[name] for row in found.values()]
        _draw_intervals(axes, estimates, [colour for colour, _ in looks])
        axes.set_title(name, fontsize=9)
        _calm(axes, estimates if name == GAP else scores)
    grid[0].set_yticks(range(len(found)), [_wrapped(label) for label in found], fontsize=8)
    grid[0].set_ylim(len(found) - 0.5, -0.5)
    figure.supxlabel("normalised score", fontsize=8)
    return figure


def _calm(axes: Axes, estimates: Sequence[Estimate]) -> None:
    """An axis from 0 that is one for all scores, and too wide for noise to fill it."""
    ends = [end for one in estimates for end in one if math.isfinite(end)]
    low, high = min(0.0, *ends, 0.0), max(0.0, *ends, 0.0)
    high = max(high, low + LEAST)
    margin = 0.05 * (high - low)
    axes.set_xlim(low - margin, high + margin)


def _draw_intervals(axes: Axes, estimates: Sequence[Estimate], colours: Sequence[str]) -> None:
    for place, (estimate, colour) in enumerate(zip(estimates, colours, strict=True)):
        if not math.isnan(estimate.low):
            axes.plot(
                [estimate.low, estimate.high], [place, place], color=colour, alpha=0.4, linewidth=7,
                solid_capstyle="butt",
            )  # fmt: skip
            axes.plot([estimate.value], [place], "|", color=colour, markersize=13, mew=2.5)
        else:  # hollow: no interval
            axes.plot([estimate.value], [place], "o", color=colour, markersize=7, mfc="white")
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(alpha=0.3)


def profiles(thresholds: Sequence[float], found: Mapping[str, Sequence[Estimate]]) -> Figure:
    """Share of runs above each normalised score."""
    figure = canvas(6.4, 3.6 + 0.2 * len(found))
    axes = figure.subplots()
    for (label, row), (colour, style) in zip(found.items(), _looks(found), strict=True):
        value, low, high = (np.array(column) for column in zip(*row, strict=True))
        one_seed = np.isnan(low).all() and label != RANDOM_PLAY
        alone = " (1 seed: no band)" if one_seed else ""
        axes.step(
            thresholds, value, style, color=colour, where="post", label=_wrapped(label + alone)
        )
        axes.fill_between(thresholds, low, high, color=colour, alpha=0.18, step="post", linewidth=0)
    axes.set_xlabel(f"{GLOSSARY['normalised'].short} score τ", fontsize=9)
    axes.set_ylabel("share of runs with a score above τ", fontsize=9)
    axes.set_ylim(-0.02, 1.02)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", fontsize=8)
    return figure


def improvements(found: Sequence[tuple[str, str, Estimate]]) -> Figure:
    """P(the first beats the second), a line per pair."""
    figure = canvas(7.5, 0.42 * len(found) + 1.0)
    axes = figure.subplots()
    _draw_intervals(axes, [estimate for *_, estimate in found], [BLUE] * len(found))
    axes.axvline(0.5, color=GREY, linestyle="--", linewidth=1)
    pairs = [_wrapped(f"{ours} over {theirs}") for ours, theirs, _ in found]
    axes.set_yticks(range(len(found)), pairs, fontsize=8)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xlabel("probability of improvement", fontsize=9)
    return figure


def levels(found: Sequence[tuple[str, Outcome]]) -> Figure:
    """Levels won, tied and lost as shares of those that both have played."""
    figure = canvas(7.5, 0.42 * len(found) + 1.3)
    axes = figure.subplots()
    parts = (("won", BLUE), ("tied", "#BBBBBB"), ("lost", ORANGE))
    for place, (_, outcome) in enumerate(found):
        total, left = max(1, outcome.won + outcome.tied + outcome.lost), 0.0
        for name, colour in parts:
            count = getattr(outcome, name)
            bar = axes.barh(place, count / total, left=left, color=colour, height=0.65)
            if count / total > 0.06:
                axes.bar_label(bar, [str(count)], label_type="center", fontsize=8)
            left += count / total
    names = [_wrapped(f"{pair}, {outcome.split}") for pair, outcome in found]
    axes.set_yticks(range(len(found)), names, fontsize=8)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of levels (numbers: levels)", fontsize=9)
    handles = [Patch(color=colour) for _, colour in parts]
    figure.legend(handles, [n for n, _ in parts], loc="outside upper right", ncols=3, fontsize=8)
    return figure


def _wrapped(text: str) -> str:
    return "\n".join(map(literal, textwrap.wrap(plain(text), 44))) or " "
