"""A configuration as a run stores it: plain values, there and back, and what tells runs apart."""

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

from crosstraj.config.dotted import identity_of
from crosstraj.config.phases import Phase
from crosstraj.config.values import POLICIES, Config, objective_of
from crosstraj.envs import GymnasiumConfig
from crosstraj.errors import BadInput

# Values that came after runs had been made, and what those runs did: there it is not written down,
# so that they keep their names and go on.
LATER: dict[str, Any] = {
    "objective.least_rank": 0.0,
    "objective.skill_steps": 0,
    "policy.head_rate": 1.0,
    "pooling": "none",
    "policy.stretch": 0,
    "policy.advantages": "minibatch",
    "representation.weight": 1.0,
    "representation.max_ratio": 0.0,
    "representation.anchor": 0.0,
    "evaluation.held_out": "unseen",
    "objective.metric": "scaled",
    "objective.rectified": True,
}
# What a run may change without becoming another run.
NOT_IDENTITY = ("frames", "machine", "saving", "objective.accept_weak_experts")


def identity(config: Config) -> str:
    """The digest of all that tells a run from another."""
    return identity_of(to_dict(config), NOT_IDENTITY)


def to_dict(config: Config) -> dict[str, Any]:
    """Plain JSON values, nested as the fields are."""
    values = dataclasses.asdict(config)
    if config.env != "ising":  # its settings tell no other runs apart
        del values["ising"]
    if config.gymnasium == GymnasiumConfig():  # runs without a split are as they were before
        del values["gymnasium"]
    for name, before in LATER.items():
        part, _, inner = name.rpartition(".")
        holder = values[part] if part else values
        if holder.get(inner) == before:
            del holder[inner]
    values["saving"]["runs"] = str(config.saving.runs)
    return values


def from_dict(values: dict[str, Any]) -> Config:
    """The inverse of `to_dict`; values that this version does not know are refused."""
    usual = Config()
    try:
        values = values | {"machine": _machine(values["machine"])}
        objective = objective_of(values.get("method", ""))
        later = {k: v for k, v in _before("objective").items() if hasattr(objective, k)}
        phases, policy = values.get("phases", ()), values["policy"]
        parts: dict[str, Any] = {
            "phases": tuple(Phase(**p | {"reset": tuple(p["reset"])}) for p in phases),
            "policy": POLICIES[policy.get("kind", "ppo")](**policy),
            "objective": objective(**later | values["objective"]),
        }
        for name in values.keys() - parts.keys():
            value = values[name]
            parts[name] = type(getattr(usual, name))(**value) if isinstance(value, dict) else value
        parts["saving"] = replace(parts["saving"], runs=Path(parts["saving"].runs))
        return Config(**parts)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadInput(f"this configuration does not fit this version: {error}") from error


def _machine(values: dict[str, Any]) -> dict[str, Any]:
    """Runs were written with a switch, bfloat16, before there was a precision to choose."""
    kept = {name: value for name, value in values.items() if name != "bfloat16"}
    return kept | ({"precision": "bf16"} if values.get("bfloat16") else {})


def _before(part: str) -> dict[str, Any]:
    """The later values of one part of a configuration, by their names there."""
    prefix = f"{part}."
    return {k.removeprefix(prefix): v for k, v in LATER.items() if k.startswith(prefix)}
