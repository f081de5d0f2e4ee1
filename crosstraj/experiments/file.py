"""An experiment: one short TOML file that stands for many runs, and the table made of them.

    name = "keypoints"
    title = "How many keypoints make a view?"
    reproduces = "CTRL paper, figure of the ablation over clustering timesteps"
    frames = 8_000_000
    games = ["coinrun", "bigfish"]
    seeds = [0, 1, 2]
    methods = ["ctrl:paper"]        # a method, or method:preset
    table = "returns"               # see tables/kinds.py; this is the default
    judge = "T = 2"                 # the variant that `returns` or `about` holds against each other
    baseline = "frozen"             # the variant that `paired` or `screen` holds all others against
                                    # (a rule for stopping `paired` early, [look]: see look.py)
    beside = ["untrained"]          # further baselines, which `paired` shows without a claim
    over = "objective.keypoints"    # the value that `sweep` draws returns over
    levels = "unseen"               # what tables judge by: unseen, the default, or validation
    quick = 0.01                    # the --scale of --quick: a trial within minutes

    [cluster]                       # what --ray asks of a node for each run; see cluster/needs.py
    cpus = 2

    [experts]                       # the run, or agents/NAME, whose play `screen` probes, by game
    coinrun = "runs/my-expert"

    [base]                          # values of every run, by their names in the configuration
    encoder = "laptop"

    [variants."T = 2"]              # values of some, over the base
    objective.keypoints = 2

The runs are the product of methods, variants, games and seeds; without variants, of methods, games
and seeds. A variant that names its own `method` (and `preset`) stands beside them; one that names
`games` or `seeds` has these alone; a value "{seed}" is the run's seed. Nothing heavy is imported
here, so that `--list` answers at once; jobs.py checks the values before a run begins.
"""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.errors import BadInput, unknown
from crosstraj.experiments.cluster.needs import needs_of
from crosstraj.experiments.look import KINDS, Look
from crosstraj.experiments.plan import Experiment, Values, chosen
from crosstraj.experiments.tables.kinds import TABLES, check_table

KEYS: dict[str, type] = {
    "name": str,
    "title": str,
    "reproduces": str,
    "frames": int,
    "games": list,
    "seeds": list,
    "methods": list,
    "table": str,
    "judge": str,
    "baseline": str,
    "beside": list,
    "over": str,
    "levels": str,
    "look": dict,
    "experts": dict,
    "quick": float,
    "cluster": dict,
    "base": dict,
    "variants": dict,
}
OPTIONAL = (
    *("methods", "table", "judge", "baseline", "beside", "over", "levels", "look", "experts"),
    *("quick", "cluster", "base", "variants"),
)
RESERVED = {
    "env": "games",
    "seed": "seeds",
    "saving.runs": "--runs",
    "machine.threads": "--threads",
}
WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number with a point",
    list: "a list",
    dict: "a table",
}


def read(path: Path) -> Experiment:
    """The experiment of a file, or one sentence on what is wrong with it."""
    try:
        given = tomllib.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not text
        raise BadInput(f"{path} is not TOML: {error}") from error
    try:
        return _experiment(given)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def _experiment(given: dict[str, Any]) -> Experiment:
    for key, value in given.items():
        if key not in KEYS:
            raise unknown("key", key, KEYS)
        _check_type(key, value, KEYS[key])
    for key in KEYS:
        if key not in given and key not in OPTIONAL:
            raise BadInput(f"{key} is missing; it is {WORDS[KEYS[key]]}")
    if not re.fullmatch(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-]", given["name"]):
        raise BadInput(f"name={given['name']!r} names a directory: letters, digits, - and _ only")
    if given["frames"] < 1:
        raise BadInput(f"frames={given['frames']}: must be at least 1")
    quick = given.get("quick")
    if quick is not None and not 0 < quick <= 1:
        raise BadInput(f"quick={quick}: must be above 0, and 1 at most")
    table = given.get("table", "returns")
    if table not in TABLES:
        raise unknown("table", table, TABLES)
    variants = _variants(given)
    for name, values in variants.items():
        for what in ("games", "seeds"):
            for one in chosen(values, what, ()):
                if one not in given[what]:
                    raise BadInput(f"variants.{name}.{what}: {one!r} is not in {what} above")
    beside = _listed("beside", given["beside"], str) if "beside" in given else ()
    check_table(given, table, variants)
    needs_of(given.get("cluster", {}))  # refuses what it cannot mean
    return Experiment(
        given["name"],
        given["title"],
        given["reproduces"],
        given["frames"],
        _listed("games", given["games"], str),
        _listed("seeds", given["seeds"], int),
        variants,
        table,
        quick,
        given.get("judge", ""),
        given.get("baseline", ""),
        beside,
        given.get("levels", "unseen"),
        _look(given, variants),
        given.get("experts", {}),
        given.get("cluster", {}),
        given.get("over", ""),
    )


def _look(given: dict[str, Any], variants: dict[str, Values]) -> Look | None:
    """The look that a file states, if it states one."""
    if "look" not in given:
        return None
    stated = given["look"]
    for key in stated:
        if key not in KINDS:
            raise unknown("key of look", key, KINDS)
    for key, kind in KINDS.items():
        _check_type(f"look.{key}", stated.get(key), kind)
    look = Look(**stated)
    baselines = (given["baseline"], *given.get("beside", ()))
    look.check(variants, baselines, len(given["games"]), len(given["seeds"]))
    return look


def _check_type(key: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadInput(f"{key}={value!r}: must be {WORDS[kind]}")


def _listed(key: str, values: list[Any], kind: type) -> tuple[Any, ...]:
    if not values:
        raise BadInput(f"{key} is an empty list; name at least one")
    for value in values:
        _check_type(f"entry of {key}", value, kind)
    if len(set(values)) < len(values):
        raise BadInput(f"{key}={values} names something twice")
    return tuple(values)


def _variants(given: dict[str, Any]) -> dict[str, Values]:
    """The values of each variant by its name; methods are multiplied with those that name none."""
    base = _flat(given.get("base", {}), "base")
    methods = _listed("methods", given["methods"], str) if "methods" in given else ()
    named: dict[str, Values] = {}
    for name, inner in given.get("variants", {}).items():
        _check_type(f"variants.{name}", inner, dict)
        if not name or "/" in name:
            raise BadInput(f"variant {name!r}: a name has no slash: VARIANT/GAME/sSEED names a run")
        named[name] = base | _flat(inner, f"variants.{name}")
    shared = [name for name, values in named.items() if "method" not in values]
    if shared and not methods:
        raise BadInput(f"variant {shared[0]!r} names no method, and there is no list of them")
    if not named and not methods:
        raise BadInput("neither methods nor variants are named, so there is nothing to run")
    if methods and not shared:
        named = {"": base} | named  # the methods as they are, beside variants with their own
    variants: dict[str, Values] = {}
    for name, values in named.items():
        for method in (str(values["method"]),) if "method" in values else methods:
            plain = "method" in values or (name and len(methods) == 1)
            label = name if plain else f"{method} {name}".strip()
            if label in variants:
                raise BadInput(f"variant {label!r} has the name of a method in the list")
            variants[label] = _with_method(values, method)
    return variants


def _with_method(values: Values, entry: str) -> Values:
    """Method and preset in front, checked; the entry is `method` or `method:preset`."""
    method, _, preset = entry.partition(":")
    preset = preset or str(values.get("preset", "default"))
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    rest = {key: value for key, value in values.items() if key not in ("method", "preset")}
    return {"method": method, "preset": preset, **rest}


def _flat(values: dict[str, Any], place: str, prefix: str = "") -> Values:
    """Nested tables as dotted names; plain values, and none that the experiment itself sets."""
    flat: Values = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= _flat(value, place, f"{name}.")
            continue
        if name in RESERVED:
            raise BadInput(f"{place}.{name}: this is said by {RESERVED[name]}")
        if isinstance(value, list):
            value = tuple(value)
        if name == "frames":
            _check_type(f"{place}.frames", value, int)
        if not _plain(value):
            raise BadInput(f"{place}.{name}={value!r}: must be a number, text, true or false")
        flat[name] = value
    return flat


def _plain(value: object) -> bool:
    several: Iterable[object] = value if isinstance(value, tuple) else (value,)
    return all(isinstance(one, bool | int | float | str) for one in several)
