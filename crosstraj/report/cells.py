"""Rows of a table, and numbers as its cells: NaN shows as NaN, and one seed has no spread."""

import math
from collections.abc import Sequence

from crosstraj.report.statistics import Estimate, mean_and_sd

NONE = "–"


def number(value: float, digits: int = 2, *, sign: str = "") -> str:
    return "NaN" if math.isnan(value) else f"{value:{sign}.{digits}f}"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean, standard deviation where there are two values, and how many there are."""
    if not values:
        return NONE
    mean, sd = mean_and_sd(values)
    beside = f" ± {number(sd, digits)}" if len(values) > 1 else ""
    return f"{number(mean, digits)}{beside} ({len(values)})"


def with_interval(estimate: Estimate, digits: int = 3, *, sign: str = "") -> str:
    value, low, high = (number(entry, digits, sign=sign) for entry in estimate)
    return value if math.isnan(estimate.low) else f"{value} [{low}, {high}]"


def row(*words: str) -> str:
    return f"| {' | '.join(word.replace('|', chr(92) + '|') for word in words)} |"
