"""Learning and health curves of one run as a PNG, of its logs or of what is kept of them."""

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crosstraj.config.stored import to_dict
from crosstraj.errors import BadInput
from crosstraj.health.glossary import GLOSSARY, SCALES, Range
from crosstraj.learning.load import read_config
from crosstraj.report.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, literal, over_frames, panels
from crosstraj.report.reading import judged_by
from crosstraj.runs.read import is_kept, kept_variant, metrics
from crosstraj.runs.shipped import random_return


def draw_curves(run: Path, out: Path) -> Path:
    """Draw one run; panels without data are left out."""
    kept = run.is_file()
    if kept and not is_kept(run):
        raise BadInput(f"{run} is neither a run directory nor a kept run, GAME-sSEED.jsonl")
    rows = metrics(run)
    if not rows:
        raise BadInput(f"{run} has no rows in metrics.jsonl; give the directory of a run")
    name = f"{kept_variant(run)}, {run.stem}" if kept else run.resolve().name
    if (figure := curves_figure(rows, name, chance_of(run))) is None:
        logs = run if kept else run / "metrics.jsonl"
        raise BadInput(f"{logs} has none of the figures of a run; was it written by one?")
    try:
        figure.savefig(out, dpi=110)
    except (OSError, ValueError) as error:  # ValueError: a kind of picture that does not exist
        raise BadInput(f"{out} cannot be written: {error}") from error
    return out


def chance_of(run: Path) -> float:
    """What random play earns on the levels that a run is judged by; NaN where nobody knows."""
    try:
        config = read_config(run)
        return random_return(config, judged_by(to_dict(config))).score
    except BadInput:  # a log without its configuration, or of a method that is not ours
        return math.nan


def curves_figure(
    rows: list[dict[str, Any]], title: str, chance: float = math.nan, *, returns: bool = True
) -> Figure | None:
    """All panels for which a run's metrics have data; None if there is none.

    chance: the return of random play, drawn as a line. returns: their panel is wanted, too.
    """
    names = dict.fromkeys(key for row in rows for key in row)
    shown = [panel for panel in PANELS if names.keys() & panel[1].keys()]
    shown = [panel for panel in shown if returns or panel[1] is not RETURNS]
    # Figures of a person's own method: their scales are not known, so each has its panel.
    shown += [("", {name: (BLUE, "-")}) for name in names if "/" in name]
    if not shown:
        return None
    figure, grid = panels(len(shown), min(3, len(shown)), (4.2, 3.0), extra=0.3)
    for axes, (heading, series) in zip(grid, shown, strict=True):
        for name, (colour, style) in series.items():
            _line(axes, rows, name, colour, style)
        if series is RETURNS and math.isfinite(chance):
            axes.axhline(chance, color=GREY, linestyle="--", linewidth=1, label="random play")
        first = next(iter(series))
        axes.set_title(heading or _label(first), fontsize=10)
        over_frames(axes)
        if LOGARITHMIC & series.keys():
            axes.set_yscale("log")
        else:
            _calm(axes, SCALES.get(first, Range()))
        _bounds(axes, GLOSSARY.keys() & series.keys() & names.keys())
        if heading:
            axes.legend(fontsize=8)
    figure.suptitle(literal(title), fontsize=9)
    return figure


Series = dict[str, tuple[str, str]]  # figure of a row -> colour, line style

RETURNS: Series = {
    "train_return": (GREY, "-"),
    "seen_return": (BLUE, "o-"),
    "unseen_return": (ORANGE, "o-"),
    "validation_return": (GREEN, "o-"),
}
PREDICTORS = "what predicts the codes (nats, lower is better)"
ABOUT_LEVEL = "about the level (0 = nothing, 1 = all)"
PANELS: list[tuple[str, Series]] = [  # a panel of one figure needs no heading of its own
    ("return (raw)", RETURNS),
    (
        "views: mean cosine (1 = collapsed)",
        {"view_cosine": (BLUE, "-"), "predict_cosine": (PURPLE, "-")},
    ),
    (
        "code entropy (below random = clusters)",
        {
            "code_entropy": (BLUE, "-"),
            "code_entropy_random": (GREY, "--"),
            "cluster": (ORANGE, "-"),
        },
    ),
    (
        PREDICTORS,
        {
            "knowing_all": (ORANGE, "-"),
            "knowing_before": (BLUE, "-"),
            "knowing_time": (PURPLE, "-"),
            "knowing_action": (GREEN, "-"),
            "knowing_nothing": (GREY, "--"),
        },
    ),
    (
        "what the actions and the frame are worth (nats)",
        {"action_gain": (GREEN, "-"), "frame_gain": (BLUE, "-")},
    ),
    (
        ABOUT_LEVEL,
        {
            "codes_about_level": (ORANGE, "-"),
            "level_variance": (BLUE, "-"),
            "level_variance_untrained": (GREY, "--"),
        },
    ),
    ("", {"levels_per_cluster": (GREEN, "-")}),
    ("", {"effective_levels": (BLUE, "-")}),
    ("", {"gradient_ratio": (ORANGE, "-")}),
    ("effective rank", {"feature_rank": (BLUE, "-"), "view_rank": (PURPLE, "-")}),
    (
        "reward for skills (nats, 0 = a blind guess)",
        {
            "intrinsic_reward_fresh": (BLUE, "-"),
            "intrinsic_reward_remembered": (ORANGE, "-"),
        },
    ),
    ("", {"entropy": (GREEN, "-")}),
    ("", {"objective_kl": (ORANGE, "-")}),
]
LOGARITHMIC = {"objective_kl", "gradient_ratio"}


def _calm(axes: Axes, least: Range) -> None:
    """The axis reaches at least from one end of its usual scale to the other."""
    low, high = axes.get_ylim()
    margin = 0.04 * (max(high, least.high if math.isfinite(least.high) else high) - low)
    if math.isfinite(least.low):
        low = min(low, least.low - margin)
    if math.isfinite(least.high):
        high = max(high, least.high + margin)
    axes.set_ylim(low, high)


def _line(axes: Axes, rows: list[dict[str, Any]], name: str, colour: str, style: str) -> None:
    points = [(row["frames"], row[name]) for row in rows if name in row]
    if points:
        frames, values = zip(*points, strict=True)
        axes.plot(frames, values, style, color=colour, label=_label(name), markersize=4)


def _label(name: str) -> str:
    return GLOSSARY[name].label if name in GLOSSARY else literal(name)


def _bounds(axes: Axes, names: set[str]) -> None:
    """A pale band where the figures of a panel are healthy."""
    low, high = axes.get_ylim()
    for healthy in {GLOSSARY[name].healthy for name in names}:
        if math.isfinite(healthy.low) or math.isfinite(healthy.high):
            band = max(low, healthy.low), min(high, healthy.high)
            axes.axhspan(*band, color=GREEN, alpha=0.08, linewidth=0, label="healthy")
    axes.set_ylim(low, high)
