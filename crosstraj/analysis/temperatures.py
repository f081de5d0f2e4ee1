"""Several runs side by side: silhouette and unseen return over training, a line per temperature.

The paper's figure, with the rank correlation that its text speaks of. Runs that differ in nothing
but their seed are averaged, and drawn thin beside their mean; games are kept apart, and what else
differs between the runs is said.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from crosstraj.analysis.canvas import COLOURS, new_figure
from crosstraj.analysis.measures import NAN, Floats, rank_correlation
from crosstraj.analysis.output import run_name
from crosstraj.analysis.result import Analysis, Choices, Moment
from crosstraj.analysis.study import SNAPSHOT_VIEWS, over_training, prepare
from crosstraj.config.dotted import dotted
from crosstraj.config.stored import NOT_IDENTITY, to_dict
from crosstraj.config.values import Config
from crosstraj.health.glossary import GLOSSARY, returns_on, shorts
from crosstraj.report.cells import number
from crosstraj.report.document import Block, Heading, Items, Picture, Table, Text, markdown
from crosstraj.report.drawing import over_frames, png
from crosstraj.runs.log import series

NEAR = 0.05  # of the run's frames: an evaluation so near a snapshot is taken as its own


class Course(NamedTuple):
    """What a comparison needs of an analysed run; not its views, which are large."""

    run: Path
    config: Config
    frames: int  # trained
    moments: list[Moment]
    rows: list[dict[str, Any]]  # of metrics.jsonl
    notes: list[str]


def course(result: Analysis) -> Course:
    subject = result.subject
    return Course(
        subject.run, subject.config, subject.frames, result.moments, subject.rows, subject.notes
    )


def followed(run: Path) -> Course:
    """The same from a run alone, without the table and the figures of an analysis."""
    subject = prepare(run, Choices(SNAPSHOT_VIEWS, None, 0, 0))
    moments = over_training(subject)
    return Course(run, subject.config, subject.frames, moments, subject.rows, subject.notes)


def temperature(run: Course) -> str:
    """Of codes and of predictions where they differ; "none" for a method without."""
    shown = [getattr(run.config.objective, name) for name in temperatures_of(run)]
    return " / ".join(dict.fromkeys(f"{value:g}" for value in shown)) or "none"


def temperatures_of(run: Course) -> tuple[str, ...]:
    """The values that make codes soft or sharp, of codes first."""
    return run.config.objective.temperatures


def paired(run: Course) -> tuple[Floats, Floats, Floats]:
    """Frames, silhouette and unseen return at every snapshot; NaN where none was evaluated near."""
    frames = np.array([moment.frames for moment in run.moments], float)
    silhouettes = np.array([moment.silhouette for moment in run.moments])
    returns = np.full(len(frames), NAN)
    points = np.array(series(run.rows, "unseen_return")).reshape(-1, 2)
    for row, at in enumerate(frames):
        distance = np.abs(points[:, 0] - at)
        if len(points) and np.nanmin(distance, initial=np.inf) <= NEAR * frames[-1]:
            returns[row] = points[np.nanargmin(distance), 1]
    return frames, silhouettes, returns


def other_differences(runs: list[Course]) -> dict[str, list[str]]:
    """Dotted keys, besides temperature and seed, in which configurations differ; their values."""
    flat = [dotted(to_dict(run.config)) for run in runs]
    meant = {"seed"} | {f"objective.{name}" for run in runs for name in temperatures_of(run)}
    meant |= {key for config in flat for key in config if key.split(".")[0] in NOT_IDENTITY}
    found: dict[str, list[str]] = {}
    for key in sorted(set().union(*flat) - meant):
        values = [str(config.get(key, "absent")) for config in flat]
        if len(set(values)) > 1:
            found[key] = sorted(set(values))
    budgets = sorted({f"{run.frames:,}" for run in runs})
    return found | ({"frames trained": budgets} if len(budgets) > 1 else {})


def draw(runs: list[Course]) -> bytes:
    games = sorted({run.config.env for run in runs})
    kinds = sorted({temperature(run) for run in runs})
    title = "a colour is a temperature; thin: one run, thick: the mean over seeds"
    figure = new_figure(4.6 * len(games) + 0.6, 6, title)
    grid = figure.subplots(2, len(games), squeeze=False)
    for column, game in enumerate(games):
        above, below = grid[:, column]
        for index, kind in enumerate(kinds):
            same = [run for run in runs if run.config.env == game and temperature(run) == kind]
            seeds = {run.config.seed for run in same}
            averaged = len(seeds) == len(same) and not other_differences(same)
            colour, label = COLOURS[index % len(COLOURS)], f"temperature {kind}"
            lines(above, [paired(run)[:2] for run in same], colour, averaged, label)
            points = [np.array(series(run.rows, "unseen_return")) for run in same]
            lines(below, [(p[:, 0], p[:, 1]) for p in points if len(p)], colour, averaged, label)
        above.set_title(game, fontsize=9, parse_math=False)
        above.set_ylabel(GLOSSARY["silhouette"].short, fontsize=8)
        below.set_ylabel(GLOSSARY["unseen_return"].label, fontsize=8)
        for axes in (above, below):
            over_frames(axes)
            if axes.lines:
                axes.legend(fontsize=8)
    return png(figure)


Line = tuple[Floats, Floats]  # frames, values


def lines(axes: Axes, runs: list[Line], colour: str, averaged: bool, label: str) -> None:
    """Every run thin, with its mean thick if there is one; a single run is its own mean."""
    mean = mean_line(runs) if averaged or len(runs) == 1 else None
    for index, (frames, values) in enumerate(runs if len(runs) > 1 else []):
        name = label if mean is None and index == 0 else "_"  # an underscore: not in the legend
        axes.plot(frames, values, "-", color=colour, linewidth=0.8, alpha=0.7, label=name)
    if mean is not None:
        axes.plot(*mean, "o-", color=colour, markersize=4, linewidth=2, label=label)


def mean_line(runs: list[Line]) -> Line | None:
    """The mean of runs at the same frames; none where their frames differ."""
    if not runs or any(not np.array_equal(frames, runs[0][0]) for frames, _ in runs):
        return None
    return runs[0][0], np.mean([values for _, values in runs], axis=0)


def compare(runs: list[Course], picture: str = "temperatures.png", level: int = 1) -> str:
    """Markdown: every run, its rank correlation over training, and that between runs at the end."""
    rows = []
    for run in runs:
        _, silhouettes, returns = paired(run)
        rho, pairs = rank_correlation(silhouettes, returns)
        rows.append(
            (
                run_name(run.run),
                run.config.env,
                temperature(run),
                str(run.config.seed),
                f"{run.frames:,}",
                number(silhouettes[-1], ".3f"),
                number(returns[-1], ".2f"),
                number(rho, "+.2f"),
                str(pairs),
            )
        )
    figures = (*shorts("frames", "silhouette").values(), returns_on("unseen"))
    head = ("run", "game", "temperature", "seed", *figures)
    blocks: list[Block] = [
        Heading("Silhouette and unseen return, by temperature", level),
        Table(
            "Spearman's rank correlation; over training it pairs every snapshot with an evaluation "
            f"within {NEAR:.0%} of the run's frames. Fewer than three pairs give none: NaN.",
            (*head, "correlation", "pairs"),
            rows,
        ),
        Text("Between runs, at their last snapshots:"),
        Items(_between(runs)),
        *_other(runs),
        Picture(picture, "By temperature"),
    ]
    notes = [f"{run_name(run.run)}: {note}" for run in runs for note in run.notes]
    return markdown([*blocks, Items(notes)] if notes else blocks)


def _between(runs: list[Course]) -> list[str]:
    lines = []
    for game in sorted({run.config.env for run in runs}):
        same = [paired(run) for run in runs if run.config.env == game]
        rho, pairs = rank_correlation(
            np.array([silhouettes[-1] for _, silhouettes, _ in same]),
            np.array([returns[-1] for _, _, returns in same]),
        )
        lines.append(f"{game}: {number(rho, '+.2f')} over {pairs} runs")
    return lines


def _other(runs: list[Course]) -> list[Block]:
    different = other_differences(runs)
    if not different:
        return [Text("The runs differ in nothing else.")]
    return [
        Text(
            "These runs differ in more than temperature and seed, so a difference between lines "
            "need not be the temperature's:"
        ),
        Items([f"{key}: {', '.join(values)}" for key, values in different.items()]),
    ]
