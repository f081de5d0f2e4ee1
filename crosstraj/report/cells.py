"""Numbers as cells of a table: what is no number is said to be so, and one seed has no spread."""

import math

from crosstraj.report.statistics import Estimate, Spread

NONE = "–"
RANDOM_PLAY = "random play"  # the name of its row, column or line


def number(value: float, form: str = ".2f", *, absent: str = "NaN") -> str:
    return absent if math.isnan(value) else format(value, form)


def small_number(value: float, digits: int = 2) -> str:
    """With two places, but for what these would round to nothing."""
    return f"{value:.{digits}e}" if 0 < abs(value) < 0.005 else f"{value:.2f}"


def with_deviation(found: Spread, form: str = ".2f", *, absent: str = NONE) -> str:
    """Mean, and standard deviation where there are two values."""
    if not found.seeds:
        return absent
    beside = "" if found.deviation is None else f" ± {number(found.deviation, form)}"
    return f"{number(found.mean, form)}{beside}"


def with_seeds(found: Spread, form: str = ".2f") -> str:
    """The same, and how many there are."""
    return f"{with_deviation(found, form)} ({found.seeds})" if found.seeds else NONE


def rounded(found: Spread) -> str:
    """Mean and deviation in as few digits as tell them apart from nothing."""
    beside = "" if found.deviation is None else f" ± {found.deviation:.2g}"
    return f"{small_number(found.mean)}{beside}" if found.seeds else "-"


def with_interval(estimate: Estimate, form: str = ".3f") -> str:
    value, low, high = (number(entry, form) for entry in estimate)
    return value if math.isnan(estimate.low) else f"{value} [{low}, {high}]"
