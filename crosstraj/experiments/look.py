"""One look at a comparison before it is whole, by a rule that its file states before its first run.

    [look]
    variant = "situations"  # held against `baseline`
    seeds = 3               # once these many, the first ones listed, are done in every game
    success = 0.005         # p at most this: stop, the difference is shown
    futility = 0.05         # a gain above this is excluded: stop, more runs would not find it

Looking costs: what `success` may take of an error of .05 is taken from the test at the end, whose
p must then be at most .05 less `success`. So the error of both together is .05 at most.
"""

from collections.abc import Collection
from typing import NamedTuple

from crosstraj.errors import BadInput, unknown

KINDS: dict[str, type] = {"variant": str, "seeds": int, "success": float, "futility": float}


class Look(NamedTuple):
    variant: str
    seeds: int
    success: float
    futility: float

    def check(self, others: Collection[str], seeds: int) -> None:
        """Is it a look at one of the other variants, before the end, at a price that is there?"""
        if self.variant not in others:
            raise unknown("variant for look", self.variant, others)
        if not 1 <= self.seeds < seeds:
            raise BadInput(
                f"look.seeds={self.seeds}: a look comes before the end, so 1 at least and less "
                f"than the {seeds} seeds there are"
            )
        if not 0 < self.success < 0.05:
            raise BadInput(f"look.success={self.success}: must be above 0 and below .05")
        if self.futility < 0:
            raise BadInput(f"look.futility={self.futility}: must be at least 0")
