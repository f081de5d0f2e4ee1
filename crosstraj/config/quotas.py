"""How many environments play a number of evaluation episodes, each the same number of them."""

from collections.abc import Mapping
from typing import Any


def fitting_envs(episodes: int, at_most: int) -> int:
    """The largest number of environments that divides the episodes."""
    if episodes < 1 or at_most < 1:
        return at_most  # refused with the other values
    return next(envs for envs in range(min(episodes, at_most), 0, -1) if episodes % envs == 0)


def with_fitting_envs(values: Mapping[str, Any], at_most: int) -> dict[str, Any]:
    """Dotted values; where they name episodes alone, with the environments that fit them."""
    episodes = values.get("evaluation.episodes")
    if not isinstance(episodes, int) or "evaluation.envs" in values or at_most < 1:
        return dict(values)
    envs = fitting_envs(episodes, at_most)
    return dict(values) if envs == at_most else {**values, "evaluation.envs": envs}
