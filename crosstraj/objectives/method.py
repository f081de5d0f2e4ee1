"""A method in one place: its name, its values, its objective, and how it is trained by default.

Every file of a method ends in its METHOD, ours as well as those that a person brings along.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crosstraj.objectives.base import NoObjective, Nothing, Objective, ObjectiveConfig


@dataclass(frozen=True)
class Method:
    name: str
    """What `--method` is given."""
    config: type[ObjectiveConfig]
    """A frozen dataclass whose fields have defaults: `--objective.FIELD` changes them."""
    objective: type[Objective]
    """Made as Kind(config, features, actions, rng)."""
    summary: str = ""
    """One line for `crosstraj methods`; the registry has those of our own methods."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of a run by their dotted names, where they are not PPO's: {"order": "joint"}."""


class Brought(NamedTuple):
    """A method that was read with `--with FILE` (config/own.py), and which bytes that file had."""

    method: Method
    file: str
    digest: str


JOINT = {"encoder_grad": "both", "order": "joint"}  # one step with the gradient of the summed loss
ALONE = Method("a policy alone", NoObjective, Nothing)
