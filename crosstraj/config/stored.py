"""A configuration as a run stores it: plain values, there and back, and what tells runs apart.

What is stored holds every value. Whoever adds one raises FORMAT, and says in UNSAID what runs did
before there was such a value: then old runs are read as what they were, whatever the new default.
What tells no runs apart leaves FORMAT as it is: files of the newest may leave that out, too. So
does what is in QUIET: it tells runs apart only where it is not as it was before it came, in
every method ("") or in the one that is named.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from crosstraj.config.dotted import as_json, identity_of, left_over
from crosstraj.config.values import POLICIES, Config, method_of
from crosstraj.envs import NAMES
from crosstraj.errors import BadInput
from crosstraj.objectives.phases import Phase

FORMAT = 2
# By the last format whose files may leave values out: which, and what their runs did.
UNSAID: dict[int, dict[str, Any]] = {
    1: {
        "pooling": "none",
        "policy.head_rate": 1.0,
        "policy.stretch": 0,
        "policy.advantages": "minibatch",
        "objective.least_rank": 0.0,
        "objective.skill_steps": 0,
        "objective.metric": "scaled",
        "objective.rectified": True,
        "representation.weight": 1.0,
        "representation.max_ratio": 0.0,
        "representation.anchor": 0.0,
        "evaluation.held_out": "unseen",
        "gymnasium.train_levels": 0,
        "gymnasium.first_level": 0,
        "machine.env_processes": False,
        "machine.precision": "fp32",
    },
    2: {
        "policy.target_kl": 0.0,
        "objective.rectified": True,  # of ATC: all files of this format have SPR's
        "saving.video": False,
        "saving.wandb": False,
        "replay.least_seen": 0.0,
    },
}
# By what turns a thing on: values that are left out where it is off, for they tell no runs apart.
OPTIONAL = {
    "memory": ("memory", "memory_width", "memory_burn_in"),
    "start": ("start",),
    "replay": ("replay",),
}
# What a run may change without becoming another run; `telling` has the one exception.
NOT_IDENTITY = ("frames", "machine", "saving", "objective.accept_weak_experts")
QUIET: dict[str, dict[str, Any]] = {
    "": {"policy.target_kl": 0.0, "replay.least_seen": 0.0},
    "atc": {"objective.rectified": True},
}


def identity(config: Config) -> str:
    """The digest of all that tells a run from another."""
    return identity_of(telling(to_dict(config)), ())


def stored_identity(values: Mapping[str, Any], version: object) -> str:
    """The same of values as a file of this format has them; of damaged ones, no run's."""
    try:
        return identity_of(telling(completed(values, version)), ())
    except (AttributeError, TypeError):
        return ""


def telling(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that tell a run from another.

    How a machine works is not among them, but how coarsely it rounds is: that is a question in
    itself, and runs that answer it must not share a directory.
    """
    quiet = QUIET[""] | QUIET.get(str(values.get("method")), {})
    as_before = [name for name, before in quiet.items() if _at(values, name) == before]
    kept, precision = left_over(values, (*NOT_IDENTITY, *as_before)), precision_of(values)
    return kept if precision == "fp32" else kept | {"precision": precision}


def precision_of(values: Mapping[str, Any]) -> str:
    return str(values.get("machine", {}).get("precision", "fp32"))


def _at(values: Mapping[str, Any], name: str) -> object:
    """The value of this dotted name, if there is one."""
    part, _, inner = name.partition(".")
    holder = values.get(part)
    return holder.get(inner) if isinstance(holder, Mapping) else None


def to_dict(config: Config) -> dict[str, Any]:
    """Plain JSON values, nested as the fields are."""
    values = dataclasses.asdict(config)
    for part in _unplayed(config.env):  # whose settings tell no runs apart
        del values[part]
    for switch, names in OPTIONAL.items():
        if getattr(config, switch) == getattr(Config(), switch):
            for name in names:
                del values[name]
    values["saving"]["runs"] = str(config.saving.runs)
    return values


def from_dict(values: Mapping[str, Any]) -> Config:
    """The inverse of `to_dict`; a value too many or too few is refused."""
    usual = Config()
    try:
        unplayed = _unplayed(values.get("env"))
        optional = (name for names in OPTIONAL.values() for name in names)
        whole = {name: getattr(usual, name) for name in (*unplayed, *optional)} | dict(values)
        _refuse_other_names(Config, whole)
        kinds = {name: type(getattr(usual, name)) for name in whole} | _kinds(whole)
        parts = {
            name: _made(kinds[name], value, name) if isinstance(value, dict) else value
            for name, value in whole.items()
        }
        phases = (_made(Phase, phase, "phases") for phase in whole["phases"])
        parts["phases"] = tuple(replace(phase, reset=tuple(phase.reset)) for phase in phases)
        parts["saving"] = replace(parts["saving"], runs=Path(parts["saving"].runs))
        return Config(**parts)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadInput(f"this configuration does not fit this version: {error}") from error


def completed(values: Mapping[str, Any], version: object) -> dict[str, Any]:
    """The same with what files of this format leave out; nothing else is checked."""
    whole = as_json(values)
    machine = whole.get("machine")
    if version == 1 and isinstance(machine, dict) and "bfloat16" in machine:  # since: precision
        machine["precision"] = "bf16" if machine.pop("bfloat16") else "fp32"
    try:
        kinds: dict[str, type] = {"": Config, **_kinds(whole)}
    except (BadInput, LookupError, TypeError, AttributeError):
        return whole  # of a method that is not ours, or damaged: whoever needs a value says so
    later = [
        table for last, table in UNSAID.items() if isinstance(version, int) and version <= last
    ]
    for name, before in ((name, before) for table in later for name, before in table.items()):
        part, _, inner = name.rpartition(".")
        if part in _unplayed(whole.get("env")) or (part in OPTIONAL and part not in whole):
            continue
        holder = whole.setdefault(part, {}) if part else whole
        kind = kinds.get(part, type(getattr(Config(), part, None)))
        if isinstance(holder, dict) and hasattr(kind, inner):
            holder.setdefault(inner, before)
    return whole


def _unplayed(env: object) -> list[str]:
    """The parts that are about other environments than this one."""
    about = {"ising": env != "ising", "gymnasium": env in NAMES}
    return [part for part, other in about.items() if other]


def _kinds(values: Mapping[str, Any]) -> dict[str, type]:
    """The classes of the two parts that a method or a value of theirs decides."""
    policy = POLICIES[values["policy"]["kind"]]
    return {"policy": policy, "objective": method_of(values["method"]).config}


def _made(kind: type, values: Mapping[str, Any], part: str) -> Any:
    _refuse_other_names(kind, values, f"{part}.")
    return kind(**values)


def _refuse_other_names(kind: type, values: Mapping[str, Any], prefix: str = "") -> None:
    names = [field.name for field in fields(kind)]
    for name in [name for name in (*names, *values) if (name in names) != (name in values)]:
        fault = "missing" if name in names else "not known to it"
        raise TypeError(f"{prefix}{name} is {fault}")
