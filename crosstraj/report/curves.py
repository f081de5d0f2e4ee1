"""Learning and health curves of one run as a PNG, from its metrics.jsonl alone."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crosstraj.errors import BadInput
from crosstraj.report.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, literal, over_frames, panels
from crosstraj.runs.log import read_rows


def draw_curves(run: Path, out: Path) -> Path:
    """Draw one run; panels without data are left out."""
    rows = read_rows(run / "metrics.jsonl")
    if not rows:
        raise BadInput(f"{run} has no rows in metrics.jsonl; give the directory of a run")
    if (figure := curves_figure(rows, run.resolve().name)) is None:
        raise BadInput(
            f"{run}/metrics.jsonl has none of the figures of a run; was it written by one?"
        )
    try:
        figure.savefig(out, dpi=110)
    except (OSError, ValueError) as error:  # ValueError: a kind of picture that does not exist
        raise BadInput(f"{out} cannot be written: {error}") from error
    return out


def curves_figure(rows: list[dict[str, Any]], title: str) -> Figure | None:
    """All panels for which a run's metrics have data; None if there is none."""
    names = dict.fromkeys(key for row in rows for key in row)
    shown = [panel for panel in PANELS if names.keys() & panel[1].keys()]
    # Figures of a person's own method: their scales are not known, so each has its panel.
    own = [name for name in names if "/" in name]
    shown += [(literal(name), {name: (literal(name), BLUE, "-")}) for name in own]
    if not shown:
        return None
    figure, grid = panels(len(shown), min(3, len(shown)), (4.2, 3.0), extra=0.3)
    for axes, (heading, series) in zip(grid, shown, strict=True):
        for key, (label, colour, style) in series.items():
            _line(axes, rows, key, label, colour, style)
        axes.set_title(heading, fontsize=10)
        over_frames(axes)
        axes.legend(fontsize=8)
        if LOGARITHMIC & series.keys():
            axes.set_yscale("log")
    figure.suptitle(literal(title), fontsize=9)
    return figure


Series = dict[str, tuple[str, str, str]]  # figure of a row -> label, colour, line style

PANELS: list[tuple[str, Series]] = [
    (
        "return (raw)",
        {
            "train_return": ("training, last 100 episodes", GREY, "-"),
            "seen_return": ("seen levels", BLUE, "o-"),
            "unseen_return": ("unseen levels", ORANGE, "o-"),
            "validation_return": ("validation levels", GREEN, "o-"),
        },
    ),
    (
        "views: mean cosine (1 = collapsed)",
        {
            "view_cosine": ("views", BLUE, "-"),
            "predict_cosine": ("v' of the prediction loss", PURPLE, "-"),
        },
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
        "what predicts the codes (nats, lower is better)",
        {
            "knowing_all": ("the method", ORANGE, "-"),
            "knowing_before": ("repeating the code before", BLUE, "-"),
            "knowing_time": ("position and time", PURPLE, "-"),
            "knowing_action": ("the action alone", GREEN, "-"),
            "knowing_nothing": ("nothing (partners shuffled)", GREY, "--"),
        },
    ),
    (
        "what the actions and the frame are worth (nats)",
        {"action_gain": ("actions", GREEN, "-"), "frame_gain": ("frame", BLUE, "-")},
    ),
    (
        "about the level (0 = nothing, 1 = all)",
        {
            "codes_about_level": ("codes: share that is the level", ORANGE, "-"),
            "level_variance": ("features: variance between levels", BLUE, "-"),
            "level_variance_untrained": ("the same, untrained encoder", GREY, "--"),
        },
    ),
    (
        "levels per cluster (1 = as under permuted codes)",
        {"levels_per_cluster": ("levels per cluster", GREEN, "-")},
    ),
    (
        "objective's gradient on the encoder, over the policy's",
        {"gradient_ratio": ("before the bound", ORANGE, "-")},
    ),
    (
        "effective rank",
        {"feature_rank": ("features", BLUE, "-"), "view_rank": ("views", PURPLE, "-")},
    ),
    (
        "reward for skills (nats, 0 = a blind guess)",
        {
            "intrinsic_reward_fresh": ("episodes begun in the rollout", BLUE, "-"),
            "intrinsic_reward_remembered": ("episodes it was trained on", ORANGE, "-"),
        },
    ),
    ("policy entropy", {"entropy": ("entropy", GREEN, "-")}),
    (
        "KL of the policy by one objective update",
        {"objective_kl": ("KL", ORANGE, "-")},
    ),
]
LOGARITHMIC = {"objective_kl", "gradient_ratio"}


def _line(
    axes: Axes, rows: list[dict[str, Any]], key: str, label: str, colour: str, style: str
) -> None:
    points = [(row["frames"], row[key]) for row in rows if key in row]
    if points:
        frames, values = zip(*points, strict=True)
        axes.plot(frames, values, style, color=colour, label=label, markersize=4)
