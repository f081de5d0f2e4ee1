"""A method in one place: its name, its values, its objective, and how it is trained by default.

`OWN` holds the methods that a person brings along with `--with FILE` (config/own.py): empty
otherwise, and never filled from a run directory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crosstraj.objectives.base import Objective, ObjectiveConfig


@dataclass(frozen=True)
class Method:
    name: str
    """What `--method` is given."""
    config: type[ObjectiveConfig]
    """A frozen dataclass whose fields have defaults: `--objective.FIELD` changes them."""
    objective: type[Objective]
    """Made as Kind(config, features, actions, rng)."""
    summary: str = ""
    """One line, for `crosstraj methods`."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of a run by their dotted names, where they are not PPO's: {"order": "joint"}."""


@dataclass(frozen=True)
class Brought:
    """A method that was read from a file, and which bytes that file had."""

    method: Method
    file: str
    digest: str


OWN: dict[str, Brought] = {}
