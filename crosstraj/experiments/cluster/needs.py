"""What a run asks of a node: processors, parts of a GPU, resources and labels that pin it.

A run resumes exactly only on a machine like the one that wrote its checkpoint, so on a cluster of
several kinds all runs of an experiment belong on one kind. An experiment file says it for all:

    [cluster]
    cpus = 2
    gpus = 0.25
    resources = { fast = 1 }        # as the nodes were started with: ray start --resources
    labels = { kind = "c7" }        # ray start --labels

and the options --cpus, --gpus, --resources and --labels go before it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from crosstraj.errors import BadInput, check_range, unknown


@dataclass(frozen=True)
class Needs:
    cpus: float = 1.0
    gpus: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_range(self, "cluster.", "cpus", "gpus", at_least=0, below=math.inf)
        for name, amount in self.resources.items():
            if not 0 < amount < math.inf:
                raise BadInput(f"cluster.resources.{name}={amount:g}: must be above 0")
        if not (self.cpus or self.gpus or self.resources):
            raise BadInput(
                "cluster.cpus=0: a run that asks for nothing is given to a node with all the "
                "others at once; say at least 1, or which GPU or resource it takes"
            )
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise BadInput(f"cluster.gpus={self.gpus:g}: above 1 it must be a whole number")

    @property
    def threads(self) -> int:
        """CPU threads of a run, where nobody says otherwise."""
        return max(1, int(self.cpus))

    def options(self) -> dict[str, Any]:
        """The same in Ray's words."""
        options: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        if self.resources:
            options["resources"] = dict(self.resources)
        if self.labels:
            options["label_selector"] = dict(self.labels)
        return options

    def met_by(self, resources: Mapping[str, float], labels: Mapping[str, str]) -> bool:
        """Could a node with all of this free take a run?"""
        asked = {"CPU": self.cpus, "GPU": self.gpus, **self.resources}
        enough = all(resources.get(name, 0.0) >= amount for name, amount in asked.items())
        return enough and all(labels.get(name) == value for name, value in self.labels.items())

    def __str__(self) -> str:
        asked = {"CPUs": f"{self.cpus:g}", "GPUs": f"{self.gpus:g}"}
        asked |= {name: f"{amount:g}" for name, amount in self.resources.items()} | dict(
            self.labels
        )
        return ", ".join(f"{name} {value}" for name, value in asked.items())


def needs_of(
    table: Mapping[str, Any],
    cpus: float | None = None,
    gpus: float | None = None,
    resources: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> Needs:
    """What the file's table [cluster] says, and the options where they are given."""
    needs = _of_file(table)
    if cpus is not None:
        needs = replace(needs, cpus=cpus)
    if gpus is not None:
        needs = replace(needs, gpus=gpus)
    if resources:
        named = _pairs("--resources", resources).items()
        amounts = {name: _number(f"--resources {name}", text) for name, text in named}
        needs = replace(needs, resources=amounts)
    return replace(needs, labels=_pairs("--labels", labels)) if labels else needs


def _of_file(table: Mapping[str, Any]) -> Needs:
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name in ("cpus", "gpus"):
            values[name] = _number(f"cluster.{name}", value)
        elif name in ("resources", "labels"):
            if not isinstance(value, dict):
                raise BadInput(f"cluster.{name}={value!r}: must be a table, name = value")
            number = name == "resources"
            values[name] = {
                key: _number(f"cluster.{name}.{key}", one) if number else str(one)
                for key, one in value.items()
            }
        else:
            raise unknown("key of cluster", name, ("cpus", "gpus", "resources", "labels"))
    return Needs(**values)


def _number(name: str, value: object) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        return float(value)
    except ValueError:
        raise BadInput(f"{name}={value!r}: must be a number") from None


def _pairs(flag: str, words: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise BadInput(f"{flag} {word!r}: must be NAME=VALUE")
        pairs[name] = value
    return pairs
