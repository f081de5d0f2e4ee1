"""What is gained when only the representation loss trains the encoder: split against joint.

Per game (split - joint) / |joint|, the statistic that the paper most likely printed, and the
difference in units of the game's range, which a joint return near zero cannot blow up; then mean,
median and interquartile mean over games.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import trim_mean

from crosstraj.evaluate import EASY_RANGE
from crosstraj.plan import Experiment
from crosstraj.report.results import Result, write_json
from crosstraj.report.returns import by_cell, details, draw, final, heading, notes, row

STATISTICS: dict[str, Callable[[list[float]], Any]] = {
    "mean": np.mean,
    "median": np.median,
    "IQM": lambda values: trim_mean(values, 0.25),
}


def gains(game: str, joint: float, split: float) -> tuple[float, float]:
    """(split - joint) / |joint|, and the difference normalised by the game's range."""
    low, high = EASY_RANGE.get(game, (math.nan, math.nan))
    relative = (split - joint) / abs(joint) if joint else math.nan
    return relative, (split - joint) / (high - low)


def split(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """The table of gains, then everything by row; games without both are left out of the means."""
    cells = by_cell(results)
    games = list(dict.fromkeys(game for _, game in cells))
    methods = [name.removesuffix(" joint") for name in plan.variants if name.endswith(" joint")]
    found = {
        method: {
            game: gains(
                game,
                final(cells[f"{method} joint", game], "unseen_return").mean,
                final(cells[f"{method} split", game], "unseen_return").mean,
            )
            for game in games
        }
        for method in methods
    }
    overall = {method: over_games(list(found[method].values())) for method in methods}
    head = [f"{m}{kind}" for m in methods for kind in (", relative", ", of range")]
    lines = [row("split - joint, unseen return", *head), "|---" * (len(head) + 1) + "|"]
    for game in games:
        lines.append(row(game, *(shown(x) for m in methods for x in found[m][game])))
    for name in STATISTICS:
        lines.append(row(f"**{name}**", *(shown(x) for m in methods for x in overall[m][name])))
    meaning = (
        "relative: (split - joint) / |joint| of mean unseen returns; of range: (split - joint) / "
        "(R_max - R_min) of easy mode. IQM: mean of the middle half of the games."
    )
    text = [heading(plan, results), "\n".join(lines), meaning, details(cells), notes(results)]
    (out / "table.md").write_text("\n\n".join(text) + "\n")
    values = {
        "experiment": plan.name,
        "scale": plan.scale,
        "gains": found,
        "overall": overall,
        "runs": results,
    }
    picture = draw(plan, cells, out / "figure.png")
    return [out / "table.md", write_json(out / "table.json", values), picture]


def over_games(pairs: list[tuple[float, float]]) -> dict[str, list[float]]:
    """Each statistic over games, of both gains; nan where no game has one."""
    columns = [[x for x in column if math.isfinite(x)] for column in zip(*pairs, strict=True)]
    return {
        name: [float(of(column)) if column else math.nan for column in columns]
        for name, of in STATISTICS.items()
    }


def shown(gain: float) -> str:
    return f"{gain:+.2f}" if math.isfinite(gain) else "-"
