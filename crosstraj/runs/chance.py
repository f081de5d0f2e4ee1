"""What random play earns, by a run's values as they are stored. Imports nothing heavy."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from crosstraj.config.dotted import identity_of
from crosstraj.errors import BadInput

RESULTS = Path(__file__).parents[2] / "results"  # of the checkout
RANDOM = Path("results/random")  # where it is measured into, and looked for first


class Chance(NamedTuple):
    """What random play earns on some levels: the mean raw return and its standard error."""

    score: float  # NaN: not measured
    stderr: float

    @property
    def measured(self) -> bool:
        return math.isfinite(self.score)


UNMEASURED = Chance(math.nan, math.nan)

# Levels not trained on are 2^30 at least, and random play has learnt from none of them: which few
# the training takes away makes no difference to its mean. It is measured with these taken away.
USUAL = {"first_level": 0, "train_levels": 200}
FEW = 1_000_000


def task_in(values: Mapping[str, Any], levels: str) -> dict[str, Any]:
    """What the return of random play depends on."""
    task = {part: values[part] for part in ("procgen", "ising", "gymnasium") if part in values}
    for part in ("procgen", "gymnasium"):
        if levels != "seen" and part in task and trains_on_few(task[part]):
            task[part] = task[part] | USUAL
    return {"game": values["env"], "levels": levels} | task


def trains_on_few(split: Mapping[str, int]) -> bool:
    """Are nearly all levels left to play that were not trained on?"""
    return split["train_levels"] > 0 and split["first_level"] + split["train_levels"] <= FEW


def file_in(values: Mapping[str, Any], levels: str, place: Path) -> Path:
    identity, game = identity_of(task_in(values, levels), ()), values["env"]
    return place / f"{game.replace('/', '-').replace(':', '-')}-{levels}-{identity[:8]}.json"


def random_in(values: Mapping[str, Any], levels: str, places: Iterable[Path]) -> Chance:
    """What was measured, in the first of these places that has it; UNMEASURED where none has."""
    for place in places:
        path = file_in(values, levels, place)
        try:
            found = json.loads(path.read_bytes())
            spread = found.get("stderr")  # one episode has none
            return Chance(float(found["return"]), math.nan if spread is None else float(spread))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise BadInput(f"{path} is damaged ({error}); remove it and measure again") from error
    return UNMEASURED
