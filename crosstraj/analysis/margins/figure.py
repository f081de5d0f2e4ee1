"""margins.json and margins.png: what `crosstraj margins` writes."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from crosstraj.analysis.margins.measure import Margins
from crosstraj.analysis.output import Output
from crosstraj.report.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, canvas, png


def write(out: Path, found: Margins, figures: dict[str, Any]) -> tuple[Path, Path]:
    """Both files in a directory, which is made if need be."""
    output, text = Output(out), json.dumps(figures, indent=1) + "\n"
    picture = png(draw(found, figures["run"]))
    return output.write("margins.json", text.encode()), output.write("margins.png", picture)


def draw(found: Margins, title: str) -> Figure:
    figure = canvas(12.6, 3.6)
    left, *right = figure.subplots(1, 3)
    for (name, margin), colour in zip(found.margin.items(), (BLUE, ORANGE, GREY), strict=True):
        left.ecdf(margin, color=colour, label=name)
    left.set_xlabel("margin: distance of a unit view to its cluster's border")
    left.set_ylabel("share of views")
    for axes, clustering in zip(right, ("scores", "codes"), strict=True):
        for (kind, moved), colour in zip(
            found.moved.items(), (BLUE, ORANGE, GREEN, PURPLE), strict=True
        ):
            # On a border the ratio is beyond all bounds; what is not moved has none to show.
            axes.ecdf(moved.ratio[clustering].clip(1e-2, 1e4), color=colour, label=kind)
        axes.axvline(1.0, color=GREY, linestyle="--")
        axes.set_xscale("log")
        axes.set_xlabel(f"change / margin by {clustering}; left of 1: cannot leave")
    for axes in (left, *right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.suptitle(title, fontsize=9)
    return figure
