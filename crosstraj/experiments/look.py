"""One look at a comparison before it is whole, by a rule that its file states before its first run.

    [look]
    variant = "situations"  # held against `baseline`
    seeds = 3               # once these many, the first ones listed, are done in every game
    success = 0.005         # p at most this: stop, the difference is shown
    futility = 0.05         # a gain above this is excluded: stop, more runs would not find it

Looking costs: what `success` may take of an error of .05 is taken from the test at the end, whose
p must then be at most .05 less `success`. So the error of both together is .05 at most.
"""

from typing import Any, NamedTuple

from crosstraj.errors import BadInput, unknown


class Look(NamedTuple):
    variant: str
    seeds: int
    success: float
    futility: float


KINDS: dict[str, type] = {"variant": str, "seeds": int, "success": float, "futility": float}


def look_of(given: dict[str, Any], variants: dict[str, Any]) -> Look | None:
    """The look that a file states, if it states one."""
    if "look" not in given:
        return None
    stated = given["look"]
    for key in stated:
        if key not in KINDS:
            raise unknown("key of look", key, KINDS)
    for key, kind in KINDS.items():
        if not isinstance(stated.get(key), kind):
            raise BadInput(f"look.{key} is missing or not {KIND_WORDS[kind]}")
    look = Look(**stated)
    others = [name for name in variants if name != given["baseline"]]
    if look.variant not in others:
        raise unknown("variant for look", look.variant, others)
    if not 1 <= look.seeds < len(given["seeds"]):
        raise BadInput(
            f"look.seeds={look.seeds}: a look comes before the end, so 1 at least and less than "
            f"the {len(given['seeds'])} seeds there are"
        )
    if not 0 < look.success < 0.05:
        raise BadInput(f"look.success={look.success}: must be above 0 and below .05")
    if look.futility < 0:
        raise BadInput(f"look.futility={look.futility}: must be at least 0")
    return look


KIND_WORDS = {str: "text", int: "a whole number", float: "a number with a point"}
