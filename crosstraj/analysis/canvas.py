"""What all figures of an analysis share. Colours are safe for colour-blind readers (Okabe and Ito).

Titles and labels from a run are never read as mathematics.
"""

from matplotlib.figure import Figure

from crosstraj.analysis.output import run_name
from crosstraj.analysis.result import Analysis
from crosstraj.report.drawing import COLOURS as REPORT_COLOURS
from crosstraj.report.drawing import GREY, canvas

COLOURS = tuple(colour for colour in REPORT_COLOURS if colour != GREY)  # grey is "none" here


def new_figure(width: float, height: float, title: str) -> Figure:
    figure = canvas(width, height)
    figure.suptitle(title, fontsize=9, parse_math=False)
    return figure


def title_of(result: Analysis) -> str:
    return f"{run_name(result.subject.run)}, {result.subject.frames:,} frames"
