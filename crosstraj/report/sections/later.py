"""Runs of methods that are not in the CTRL paper, and what was published of these: row by row."""

import math

from crosstraj.report.cells import NONE, RANDOM_PLAY, number, with_seeds
from crosstraj.report.comparison import Comparison, Variant
from crosstraj.report.document import Block, Table
from crosstraj.report.published_later import BASELINES, LATER, LATER_FRAMES, SOURCES, later_name
from crosstraj.report.sections.returns import as_published
from crosstraj.report.statistics import spread


def later_returns(comparison: Comparison) -> list[Block]:
    """Each variant of such a method, below its variants the method as published, and PPO's."""
    names = [later_name(variant.config) for variant in comparison.judged]
    if not as_published(comparison) or not {*names} - {*BASELINES, ""}:
        return []
    rows = [] if "PPO" in names else [_theirs(comparison, "PPO")]
    for place, (variant, name) in enumerate(zip(comparison.judged, names, strict=True)):
        if name:
            rows.append(_ours(comparison, variant))
        if name and name not in names[place + 1 :]:
            rows.append(_theirs(comparison, name))
    random = (number(comparison.random(game), absent=NONE) for game in comparison.games)
    rows.append([RANDOM_PLAY, NONE, "ours", *random])
    caption = (
        "What has been published of methods in this comparison, below our variants of each: raw "
        f"return on {comparison.levels} levels, mean ± standard deviation over seeds (how many, "
        f"for ours). Published: after {LATER_FRAMES:,} frames"
    )
    same = comparison.budget == LATER_FRAMES
    caption += "." if same else "; ours have another budget, so compare each with PPO at its own."
    return [Table(caption, ["variant", "frames", "source", *comparison.games], rows)]


def _ours(comparison: Comparison, variant: Variant) -> list[str]:
    finals = (variant.finals(game) for game in comparison.games)
    cells = (with_seeds(spread(final.held_out for final in runs)) for runs in finals)
    return [variant.label, f"{comparison.budget:,}", "ours", *cells]


def _theirs(comparison: Comparison, name: str) -> list[str]:
    entries = (LATER[name][game] for game in comparison.games)
    cells = (f"{mean:.1f}" + ("" if math.isnan(sd) else f" ± {sd:.1f}") for mean, sd in entries)
    return [f"{name}, published", f"{LATER_FRAMES:,}", SOURCES[name], *cells]
