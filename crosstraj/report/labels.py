"""Which runs are one variant, and what it is called: by its values, but for those of the task.

Runs of one variant differ in game and seed alone. Its label is its method, its preset and what was
changed from it; what all variants share is told once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from crosstraj.config.dotted import dotted, identity_of
from crosstraj.config.presets import preset, with_gru
from crosstraj.config.stored import precision_of, telling, to_dict
from crosstraj.data.level_replay import ReplayConfig
from crosstraj.errors import BadInput
from crosstraj.objectives.idaac import TunedObjective
from crosstraj.policies.daac import Tuned
from crosstraj.report.document import plain
from crosstraj.report.reading import RunData

TOLD = 3  # changed values that a label may name; of more it names two and counts the rest

# What runs of one variant may differ in. The task is the comparison's: `procgen`, `ising` or
# `gymnasium`, and how it is judged.
NOT_VARIANT = (
    "seed",
    "env",
    "frames",
    "machine",
    "saving",
    "on_nonfinite",
    "evaluation",
    "procgen",
    "ising",
    "gymnasium",
)


def shared_values(runs: Sequence[RunData]) -> dict[str, Any]:
    """Values that are no preset's, and the same in every variant: said once, not in each label."""
    several = {variant_of(run.config): changed_values(run.config) for run in runs}
    if len(several) < 2 or any(changed is None for changed in several.values()):
        return {}
    first, *others = [changed or {} for changed in several.values()]
    return {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in others)
    }


def variant_of(config: Mapping[str, Any], *without: str) -> str:
    """What runs have in common that differ in game and seed alone (and in these keys)."""
    return identity_of(telling(config), (*NOT_VARIANT, *_of_the_game(config), *without))


def _of_the_game(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Values that IDAAC's table of games has chosen, if it was asked to."""
    own = TunedObjective._fields if config.get("method") == "idaac" else ()
    names = [f"policy.{name}" for name in Tuned._fields] + [f"objective.{name}" for name in own]
    return tuple(names) if config.get("policy", {}).get("per_game") else ()


def changed_values(config: dict[str, Any]) -> dict[str, Any] | None:
    """Values that are not those of the run's preset; None if this version does not know it."""
    try:
        start = replace(preset(config["method"], config["preset"]), env=config["env"])
        start = with_gru(start) if config.get("memory") == "gru" else start
    except BadInput:
        return None
    # What is left out where it is off; the memory is named, but not what comes with it.
    off = {"memory": "none", "replay": asdict(ReplayConfig()), "precision": "fp32"}
    base = dotted(to_dict(start) | off)
    return {
        name: value
        for name, value in (dotted(config) | {"precision": precision_of(config)}).items()
        if name.partition(".")[0] not in NOT_VARIANT
        and name not in _of_the_game(config)
        and base.get(name) != value
    }


def label_of(config: Mapping[str, Any], changed: Mapping[str, Any] | None, identity: str) -> str:
    """A short name: method, preset unless it is the default, and what was changed."""
    words = plain(config["method"])[:40]
    if config["preset"] != "default":
        words += f" {plain(config['preset'])[:40]}"
    if changed is None:
        return f"{words} #{identity[:6]}"
    values = [f"{name.removeprefix('objective.')}={value}" for name, value in changed.items()]
    shown = values if len(values) <= TOLD else values[: TOLD - 1]
    told = ", ".join([words, *(plain(value)[:60] for value in shown)])
    return f"{told} and {len(values) - len(shown)} more" if len(shown) < len(values) else told
