"""What all figures of an analysis share. Colours are safe for colour-blind readers (Okabe and Ito).

Titles and labels from a run are never read as mathematics.
"""

import io

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from crosstraj.analysis.output import run_name
from crosstraj.analysis.result import Analysis
from crosstraj.report.curves import COLOURS as REPORT_COLOURS
from crosstraj.report.curves import GREY

COLOURS = tuple(colour for colour in REPORT_COLOURS if colour != GREY)  # grey is "none" here


def as_png(figure: Figure) -> bytes:
    file = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()


def new_figure(width: float, height: float, title: str) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, fontsize=9, parse_math=False)
    return figure


def title_of(result: Analysis) -> str:
    return f"{run_name(result.subject.run)}, {result.subject.frames:,} frames"


def over_frames(axes: Axes) -> None:
    axes.set_xlabel("frames", fontsize=8)
    axes.ticklabel_format(axis="x", style="sci", scilimits=(3, 3), useMathText=True)
    axes.grid(alpha=0.3)
