"""Values that a person leaves out and that follow from those given, so that all fit together."""

from collections.abc import Mapping
from typing import Any

from crosstraj.config.values import Config

MINIBATCHES = ("policy.minibatches", "representation.minibatches")


def fitted(values: Mapping[str, Any], start: Config) -> dict[str, Any]:
    """Dotted values, to be laid over `start`, with those that follow from them."""
    return with_equal_minibatches(with_fitting_envs(values, start.evaluation.envs), start)


def with_equal_minibatches(values: Mapping[str, Any], start: Config) -> dict[str, Any]:
    """The same, with as many minibatches of the objective as of the policy where both step at once.

    One of the two may be given, and decides; else it is the policy's.
    """
    given = [values[name] for name in MINIBATCHES if name in values]
    if values.get("order", start.order) != "joint" or len(given) == 2:
        return dict(values)
    count = given[0] if given else start.policy.minibatches
    same = start.policy.minibatches == count == start.representation.minibatches
    return dict(values) if same else {**values, **dict.fromkeys(MINIBATCHES, count)}


def with_fitting_envs(values: Mapping[str, Any], at_most: int) -> dict[str, Any]:
    """The same; where they name episodes alone, with the environments that fit them."""
    episodes = values.get("evaluation.episodes")
    if not isinstance(episodes, int) or "evaluation.envs" in values or at_most < 1:
        return dict(values)
    envs = fitting_envs(episodes, at_most)
    return dict(values) if envs == at_most else {**values, "evaluation.envs": envs}


def fitting_envs(episodes: int, at_most: int) -> int:
    """The largest number of environments that divides the episodes."""
    if episodes < 1 or at_most < 1:
        return at_most  # refused with the other values
    return next(envs for envs in range(min(episodes, at_most), 0, -1) if episodes % envs == 0)
