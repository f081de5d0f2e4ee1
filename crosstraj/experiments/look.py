"""One look at a comparison before it is whole, by a rule that its file states before its first run.

    [look]
    variant = "situations"  # held against `baseline`
    seeds = 3               # once these many, the first ones listed, are done in every game
    success = 0.005         # p at most this: stop, the difference is shown
    futility = 0.05         # a gain above this is excluded: stop, more runs would not find it

Looking costs: what `success` may take of an error of .05 is taken from the test at the end, whose
p must then be at most .05 less `success`. So the error of both together is .05 at most. Nothing is
claimed at another moment, nor of another variant. A gain is excluded at the look by the interval
of 95 %, which errs in one case of forty on that side, and as rarely at the end.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from crosstraj.errors import BadInput, unknown

KINDS: dict[str, type] = {"variant": str, "seeds": int, "success": float, "futility": float}


class Look(NamedTuple):
    variant: str
    seeds: int
    success: float
    futility: float

    def check(
        self,
        variants: Mapping[str, Collection[str]],
        baselines: Sequence[str],
        games: int,
        seeds: int,
    ) -> None:
        """Is it a look at one of the other variants, before the end, that may stop for success?"""
        others = [name for name in variants if name not in baselines]
        if self.variant not in others:
            raise unknown("variant for look", self.variant, others)
        for name in (self.variant, baselines[0]):
            for what in ("games", "seeds"):
                if what in variants[name]:
                    raise BadInput(
                        f"variants.{name}.{what}: a look is at all pairs, so {self.variant} and "
                        f"{baselines[0]} need all games and seeds; leave it out"
                    )
        if not 2 <= self.seeds < seeds:
            raise BadInput(
                f"look.seeds={self.seeds}: one seed shows nothing, and a look comes before the "
                f"end, so 2 at least and less than the {seeds} seeds there are"
            )
        if not 0 < self.success < 0.05:
            raise BadInput(f"look.success={self.success}: must be above 0 and below .05")
        least = 2 / 2 ** (self.seeds * games)
        if least > self.success:
            raise BadInput(
                f"look.success={self.success}: {self.seeds} seeds of {games} games have a p of "
                f"{least:.2g} at least, so this look could never stop for success; raise "
                "look.success or look.seeds, or take more games"
            )
        if self.futility < 0:
            raise BadInput(f"look.futility={self.futility}: must be at least 0")
