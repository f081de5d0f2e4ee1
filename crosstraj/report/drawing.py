"""What all figures share: colours, canvas, the axis of frames, and curves over several seeds."""

import io
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from crosstraj.health.glossary import GLOSSARY
from crosstraj.report.document import plain

# Safe for colour-blind readers (Okabe and Ito).
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#777777"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#E69F00", "#56B4E9", GREY, "#000000")
# Colour and line of each variant; more than eight differ in their lines.
LOOKS = [(colour, style) for style in ("-", "--", ":", "-.") for colour in COLOURS]


def literal(name: str) -> str:
    """A name as it is: matplotlib takes dollars for mathematics, and hides a label after `_`."""
    shown = plain(name).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def canvas(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(
    count: int, columns: int, size: tuple[float, float], *, extra: float, least: float = 0.0
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels of a size, line by line, with extra height for what is beside."""
    lines = -(-count // columns)
    figure = canvas(max(least, size[0] * columns), size[1] * lines + extra)
    grid = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, grid[:count]


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def over_frames(axes: Axes) -> None:
    axes.set_xlabel(GLOSSARY["frames"].short, fontsize=8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda frames, _: frames_in_short(frames)))
    axes.grid(alpha=0.3)


def frames_in_short(frames: float) -> str:
    """As people write them: 500, 64k, 2.5M."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if abs(frames) >= unit:
            return f"{frames / unit:g}{letter}"
    return f"{frames:g}"


def shared_curve(curves: Sequence[Mapping[int, float]]) -> dict[int, list[float]]:
    """Frames -> the returns of all seeds, at the frames that each of them has."""
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    return {frames: [curve[frames] for curve in curves] for frames in shared}
