"""The tables there are, by the words of an experiment file, and what each asks of the file.

Nothing heavy is imported here; make.py has the function behind each name.
"""

import re
from collections.abc import Iterable
from typing import Any, get_args

from crosstraj.errors import BadInput, unknown
from crosstraj.experiments.plan import Judged, Value, Values

TABLES = {
    "returns": "unseen and seen return, area under the curve, health, by variant and game",
    "paired": "relative gain of each variant over `baseline`, by pairs of game and seed",
    "split": "gain of variants `X split` or `X split Y` over variant `X joint`, by game",
    "sweep": "held-out return over the value that `over` names, by method and game",
    "health": "spread, rank and clusters of the representation, and what they must be, by run",
    "about": "what codes are about, and what they hold beyond shortcuts, by game and variant",
    "ising": "return, silhouette and agreement with the true models, by number of clusters",
    "samples": "random states of the largest clusters, by game and variant",
    "maps": "t-SNE of what each snapshot meets, by variant",
    "course": "the two losses and the likeness of consecutive clusters over training, by variant",
    "temperature": "silhouette and unseen return over training, by temperature and preset",
    "screen": "how much of an expert's behaviour a linear probe reads off each variant's features",
}
# Tables that read weights; `screen` reads them once, and remembers what it measured.
WEIGHTS = ("ising", "samples", "maps", "course", "temperature")
JUDGED = ("returns", "about")  # tables that hold one variant against each other
ASKED: dict[str, tuple[str, ...]] = {  # by which tables a key is read
    "judge": JUDGED,
    "baseline": ("paired", "screen"),
    "beside": ("paired",),
    "look": ("paired",),
    "over": ("sweep",),
}
# Tables that ask nothing of evaluations, and so of the levels these play.
UNJUDGED = ("health", "about", "samples", "maps", "course")


def joint_of(variants: Iterable[str]) -> dict[str, str]:
    """The variant that each split one is compared with: `X joint` of `X split` or `X split Y`."""
    found = (re.fullmatch(r"(.+) split(?: .+)?", name) for name in variants)
    return {match[0]: f"{match[1]} joint" for match in found if match}


def line_of(values: Values) -> str:
    """The line of `sweep` that a variant is on: its method, and its preset where it has one."""
    method, preset = str(values["method"]), str(values["preset"])
    return method if preset == "default" else f"{method}:{preset}"


def check_table(given: dict[str, Any], table: str, variants: dict[str, Values]) -> None:
    """Does the file say what its table needs, and nothing that only another one reads?"""
    if table == "split":
        _check_pairs(variants)
    if table == "sweep":
        _check_sweep(given.get("over"), variants)
    levels = given.get("levels", "unseen")
    if levels not in get_args(Judged):
        raise unknown("levels", levels, get_args(Judged))
    if table not in UNJUDGED:
        _check_levels(levels, variants)
    for key, only in ASKED.items():
        if key in given and table not in only:
            tables = " or ".join(map(repr, only))
            raise BadInput(f"{key} is for table = {tables}, and this is {table!r}; leave it out")
    for key in ("judge", "baseline"):
        if key in given and given[key] not in variants:
            raise unknown(f"variant for {key}", given[key], variants)
    if table in ("paired", "screen") and "baseline" not in given:
        raise BadInput(
            f"table = {table!r} needs `baseline`: the variant to hold all others against"
        )
    for name in given.get("beside", ()):
        others = [variant for variant in variants if variant != given["baseline"]]
        if name not in others:
            raise unknown("variant for beside", name, others)
    _check_experts(given, table)
    if table == "about" and "judge" not in given:
        raise BadInput("table = 'about' needs `judge`: the variant to hold against shortcuts")


def _check_experts(given: dict[str, Any], table: str) -> None:
    """Does `screen`, and no other table, have an expert for every game?"""
    experts = given.get("experts", {})
    if table != "screen":
        if experts:
            raise BadInput(f"experts is for table = 'screen', and this is {table!r}; leave it out")
        return
    for game in given["games"]:
        if not isinstance(experts.get(game), str):
            raise BadInput(f"experts.{game} is missing: the run or agents/NAME that plays {game}")
    for game in experts:
        if game not in given["games"]:
            raise BadInput(f"experts.{game}: {game!r} is not in games above")


def _check_levels(levels: str, variants: dict[str, Values]) -> None:
    """Does every run play the levels that the table judges by?"""
    for name, values in variants.items():
        held_out = values.get("evaluation.held_out", "unseen")
        if held_out not in (levels, "both"):
            raise BadInput(
                f"levels={levels!r}, but variant {name!r} is evaluated with evaluation.held_out="
                f"{held_out!r}; make them equal, or set evaluation.held_out = 'both'"
            )


def _check_sweep(over: str | None, variants: dict[str, Values]) -> None:
    """Do the variants of a line differ in that value, and in nothing else?"""
    if over is None:
        raise BadInput("table = 'sweep' needs `over`: the value that variants differ in")
    first: dict[str, str] = {}
    places: dict[tuple[str, Value], str] = {}
    for name, values in variants.items():
        value, line = values.get(over), line_of(values)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput(f"variant {name!r} gives no number for over = {over!r}; give it one")
        other = first.setdefault(line, name)
        if {**values, over: 0} != {**variants[other], over: 0}:
            raise BadInput(
                f"variants {other!r} and {name!r} are both of {line} and differ in more than "
                f"over = {over!r}; make all else equal"
            )
        if (twin := places.setdefault((line, value), name)) != name:
            raise BadInput(f"variants {twin!r} and {name!r} have the same {over}; leave one out")


def _check_pairs(variants: Iterable[str]) -> None:
    names = set(variants)
    joint = set(joint_of(names).values())
    for name in names - joint:
        if joint_of([name]).get(name) not in names:
            raise BadInput(
                f"variant {name!r}: table = 'split' compares pairs named `X joint` and `X split`"
            )
