"""The judgements of encoders as tables (printed, Markdown, JSON) and as a figure."""

import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table as Printed

from crosstraj.analysis.canvas import new_figure
from crosstraj.analysis.output import Output
from crosstraj.analysis.probes.judge import Judgement
from crosstraj.analysis.probes.ranking import Result
from crosstraj.analysis.probes.record import HORIZON
from crosstraj.learning.display import screen
from crosstraj.report.cells import number
from crosstraj.report.document import Block, Heading, Items, Picture, Table, Text, as_json, markdown
from crosstraj.report.drawing import BLUE, GREY, ORANGE, literal, png
from crosstraj.report.statistics import CONFIDENCE, Estimate

WIDTH = 110  # of what is printed to a file


class Kind(NamedTuple):
    """One of the two figures, and what it is when a probe knows nothing."""

    key: str
    title: str
    nothing: float


KINDS = (
    Kind("share", "explained share of the expert's action entropy", 0.0),
    Kind("auc", f"AUC for a reward within {HORIZON} steps", 0.5),
)


def write(result: Result, output: Output) -> list[Path]:
    values = {
        "facts": result.facts,
        "notes": result.notes,
        "encoders": [judgement._asdict() for judgement in result.judgements],
    }
    return [
        output.write("probe.md", document(result).encode()),
        output.write("probe.json", as_json(values).encode()),
        output.write("probe.png", png(draw(result))),
    ]


def columns(result: Result) -> dict[str, str]:
    """The heads of the columns with intervals -> how the names of their fields end."""
    over_first = {"over first run": "_over_first"} if len(result.judgements) > 3 else {}
    return {"unseen levels": "", "over untrained": "_over_untrained"} | over_first


def head(result: Result) -> list[str]:
    return ["encoder", *columns(result), "seen, held out"]


def rows(result: Result, kind: Kind, between: str) -> list[list[str]]:
    """One per encoder; `between` stands between a value and what belongs to it."""
    table = []
    for judgement in result.judgements:
        cells = [f"{judgement.name},{between}{judgement.frames:,} frames"]
        for ending in columns(result).values():
            value, low, high = getattr(judgement, f"{kind.key}{ending}")
            form = "+.3f" if ending else ".3f"
            interval = f"{between}[{low:{form}}, {high:{form}}]" if low < high else ""
            cells.append(number(value, form) + interval)
        table.append([*cells, number(getattr(judgement, f"held_{kind.key}"), ".3f")])
    return table


def about(result: Result) -> str:
    f = result.facts
    return (
        f"{f['env']}; the expert is {f['expert']} after {f['expert_frames']:,} frames; "
        f"{f['random']:.0%} of the actions are random; one frame in {f['every']} steps. Probes are "
        f"fitted on {f['seen_frames']:,} frames of {f['seen_levels']} seen levels and tested on "
        f"{f['unseen_frames']:,} frames of {f['unseen_levels']} unseen levels. There the entropy "
        f"of the expert's actions is {f['expert_entropy']:.2f} nats, and the divergence from their "
        f"mean distribution, which is to be explained, {f['explainable_entropy']:.3f} nats. A "
        f"reward follows within {HORIZON} steps of {f['unseen_reward_soon']:.0%} of the frames. "
        f"Brackets: {CONFIDENCE:.0%} intervals over unseen levels, the same for all encoders."
    )


def document(result: Result) -> str:
    blocks: list[Block] = [
        Heading("Linear probes", 1),
        Text(about(result)),
        *([Items(result.notes)] if result.notes else []),
    ]
    for kind in KINDS:
        title = f"{kind.title}; a probe that knows nothing has {kind.nothing:g}, a perfect one 1."
        blocks.append(Table(title[0].upper() + title[1:], head(result), rows(result, kind, " ")))
    return markdown([*blocks, Picture("probe.png", "Probes")])


def print_tables(result: Result) -> None:
    width = None if sys.stdout.isatty() else WIDTH
    console = screen(width=width)
    for kind in KINDS:
        table = Printed(title=kind.title)
        first, *numbers = head(result)
        table.add_column(first, overflow="fold")
        for name in numbers:
            table.add_column(name, justify="right", no_wrap=name in columns(result))
        for row in rows(result, kind, "\n"):
            table.add_row(*row)
        console.print(table)
    console.print(about(result), style="dim")
    for note in result.notes:
        console.print(f"note: {note}", style="yellow")


def draw(result: Result) -> Figure:
    """Both figures in a line each: the value, and how far it is above the untrained encoder's."""
    found = result.judgements
    facts = result.facts
    title = (
        f"{facts['env']}, unseen levels; the expert is {facts['expert']} after "
        f"{facts['expert_frames']:,} frames; orange: for comparison"
    )
    figure = new_figure(10.5, 2.6 + 0.8 * len(found), title)
    grid = figure.subplots(2, 2, sharey=True)
    for (left, right), kind in zip(grid, KINDS, strict=True):
        _intervals(left, [getattr(one, kind.key) for one in found])
        _intervals(right, [getattr(one, f"{kind.key}_over_untrained") for one in found])
        left.axvline(kind.nothing, color=GREY, linestyle="--", linewidth=1)
        right.axvline(0, color=GREY, linestyle="--", linewidth=1)
        left.set_title(kind.title, fontsize=9)
        right.set_title("difference to the untrained encoder", fontsize=9)
        left.set_xlabel(f"{kind.nothing:g} (dashed): a probe that knows nothing", fontsize=8)
        right.set_xlabel(f"bars: {CONFIDENCE:.0%} intervals over unseen levels", fontsize=8)
        left.set_yticks(range(len(found)), [_label(one) for one in found], fontsize=8)
        left.set_ylim(len(found) - 0.5, -0.5)
    return figure


def _label(judgement: Judgement) -> str:
    names = map(literal, textwrap.wrap(judgement.name, 34))
    return "\n".join([*names, f"{judgement.frames:,} frames"])


def _intervals(axes: Axes, estimates: list[Estimate]) -> None:
    """A dot with its interval for each; the first and the last one only serve to compare with."""
    for place, (value, low, high) in enumerate(estimates):
        colour = ORANGE if place in (0, len(estimates) - 1) else BLUE
        axes.plot(
            [low, high], [place, place], color=colour, alpha=0.4, linewidth=6, solid_capstyle="butt"
        )
        axes.plot([value], [place], "o", color=colour, markersize=5)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
