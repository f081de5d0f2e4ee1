"""Learning and health curves of one run as a PNG, from its metrics.jsonl alone."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from crosstraj.errors import BadInput
from crosstraj.logs import read_rows

# Safe for colour-blind readers (Okabe and Ito).
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#777777"


def draw_curves(run: Path, out: Path) -> Path:
    """Draw one run; panels without data are left out."""
    rows = read_rows(run / "metrics.jsonl")
    if not rows:
        raise BadInput(f"{run} has no rows in metrics.jsonl; give the directory of a run")
    panels = [panel for panel in PANELS if any(key in row for row in rows for key in panel[1])]
    if not panels:
        raise BadInput(
            f"{run}/metrics.jsonl has none of the figures of a run; was it written by one?"
        )
    figure = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, series) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        for key, (label, colour, style) in series.items():
            _line(axes, rows, key, label, colour, style)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("frames")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.suptitle(run.resolve().name, fontsize=9)
    try:
        figure.savefig(out, dpi=120)
    except (OSError, ValueError) as error:  # ValueError: a kind of picture that does not exist
        raise BadInput(f"{out} cannot be written: {error}") from error
    return out


Series = dict[str, tuple[str, str, str]]  # figure of a row -> label, colour, line style

PANELS: list[tuple[str, Series]] = [
    (
        "return (raw)",
        {
            "train_return": ("training, last 100 episodes", GREY, "-"),
            "seen_return": ("seen levels", BLUE, "o-"),
            "unseen_return": ("unseen levels", ORANGE, "o-"),
        },
    ),
    (
        "views: mean cosine (1 = collapsed)",
        {"view_cosine": ("mean cosine", BLUE, "-")},
    ),
    (
        "code entropy (below random = clusters)",
        {
            "code_entropy": ("codes", BLUE, "-"),
            "code_entropy_random": ("random vectors", GREY, "--"),
            "cluster": ("L_clust", ORANGE, "-"),
        },
    ),
    (
        "effective rank",
        {"feature_rank": ("features", BLUE, "-"), "view_rank": ("views", PURPLE, "-")},
    ),
    (
        "policy",
        {"entropy": ("entropy", GREEN, "-"), "objective_kl": ("KL by the objective", ORANGE, "-")},
    ),
]


def _line(
    axes: Axes, rows: list[dict[str, Any]], key: str, label: str, colour: str, style: str
) -> None:
    points = [(row["frames"], row[key]) for row in rows if key in row]
    if points:
        frames, values = zip(*points, strict=True)
        axes.plot(frames, values, style, color=colour, label=label, markersize=4)
