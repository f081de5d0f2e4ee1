"""What the codes of clusterings are about: collapsed or not, and levels or situations."""

import math
from collections.abc import Sequence

from crosstraj.health.glossary import GLOSSARY
from crosstraj.learning.watch import first_rank, verdict
from crosstraj.report.cells import NONE, number
from crosstraj.report.comparison import Comparison, Variant
from crosstraj.report.document import Block, Heading, Table, Text
from crosstraj.report.statistics import spread
from crosstraj.runs.log import last_figures

Figures = dict[str, float]  # the last that a run recorded
ALIVE = GLOSSARY["view_cosine"].alive
HEAD = {  # figure -> heading and form of its mean
    "codes_about_level": ("{} in the codes", ".0%"),
    "levels_per_cluster": ("{}s per cluster", ".2f"),
    "level_variance": ("{} in the features", ".0%"),
    "level_variance_untrained": ("the same, untrained", ".0%"),
    "lead": ("lead over repeating", ".2f"),
    "action_gain": (GLOSSARY["action_gain"].short, ".3f"),
}


def code_blocks(comparison: Comparison) -> list[Block]:
    """The verdict on one run in words, on several as a table; nothing where none has codes."""
    where = "level" if comparison.train_levels else "episode"
    runs = [run for variant in comparison.judged for run in variant.finished.values()]
    if len(runs) == 1:
        rows = runs[0].reached.rows
        figures, before = last_figures(rows), first_rank(rows)
        said = verdict(figures, levels=where == "level", rank_before=before)
        if said is None:
            return []
        return [Heading("The representation in words", 3), Text(f"{said[0].upper()}{said[1:]}.")]
    found = {variant.label: coded(variant) for variant in comparison.judged}
    found = {label: figures for label, figures in found.items() if figures}
    shown = [name for name in HEAD if any(name in run for runs in found.values() for run in runs)]
    table = [
        [label, collapsed(figures), *(mean(figures, name) for name in shown)]
        for label, figures in found.items()
    ]
    head = ["variant", "collapsed", *(HEAD[name][0].format(where) for name in shown)]
    title = Heading("What the codes are about", 3)
    return [title, Table(caption(where, shown), head, table)] if table else []


def coded(variant: Variant) -> list[Figures]:
    """The figures of those runs that have recorded what their codes are about."""
    found = [last_figures(run.reached.rows) for run in variant.finished.values()]
    found = [run for run in found if {"codes_about_level", "view_cosine"} <= run.keys()]
    return [
        run | {"lead": run["knowing_before"] - run["knowing_all"]}
        if {"knowing_before", "knowing_all"} <= run.keys()
        else run
        for run in found
    ]


def collapsed(runs: Sequence[Figures]) -> str:
    count = sum(not ALIVE.holds(run["view_cosine"]) for run in runs)
    return f"{count} of {len(runs)} run{'s' if len(runs) > 1 else ''}"


def mean(runs: Sequence[Figures], name: str) -> str:
    found = spread(run.get(name, math.nan) for run in runs)
    return number(found.mean, HEAD[name][1], absent=NONE)


def caption(where: str, shown: Sequence[str]) -> str:
    said = (
        f"Means over the runs of a variant, at their end. Collapsed: the mean cosine of the views "
        f"is not {ALIVE}. {where.capitalize()} in the codes: an estimate of how much of what they "
        f"say is which {where} a view is from. {where.capitalize()}s per cluster: over their value "
        f"under permuted codes; 1 where the {where} does not matter. {where.capitalize()} in the "
        f"features: share of their variance that lies between {where}s, beside that of an encoder "
        "that nobody trained."
    )
    if "lead" in shown:
        said += " Lead over repeating: nats by which the codes are foretold better than by"
        said += " repeating the code before."
    if "action_gain" in shown:
        said += " Actions' worth: nats by which knowing the actions helps."
    return said
