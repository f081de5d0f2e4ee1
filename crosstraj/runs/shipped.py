"""What comes with a checkout of crosstraj: trained agents, and what random play earns.

`agents/<name>` means results/agents/<name> of the checkout, unless there is such a path here. An
installed package without its checkout has neither, and says so.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from crosstraj.config.dotted import identity_of
from crosstraj.config.groups import LevelSplit
from crosstraj.config.stored import to_dict
from crosstraj.config.values import Config
from crosstraj.errors import BadInput

RESULTS = Path(__file__).parents[2] / "results"
AGENTS = "agents"
RANDOM = Path("results/random")  # where it is measured into, and looked for first


# --- Agents


def named(run: Path) -> Path:
    """The path of a run, or of an agent that comes with crosstraj, by its name."""
    if run.exists() or len(run.parts) != 2 or run.parts[0] != AGENTS:
        return run
    place = RESULTS / AGENTS / run.parts[1]
    if not (place / "config.json").is_file():
        known = ", ".join(f"{AGENTS}/{name}" for name in agents()) or "none"
        raise BadInput(f"{run} is not an agent that comes with crosstraj; there are: {known}")
    return place


def agents() -> list[str]:
    """The names of the agents that come with crosstraj."""
    return sorted(path.parent.name for path in (RESULTS / AGENTS).glob("*/config.json"))


def agent_for(game: str) -> Path | None:
    """An agent for this game that comes with crosstraj: of several the first by name."""
    for name in agents():
        place = RESULTS / AGENTS / name
        if json.loads((place / "config.json").read_bytes())["config"].get("env") == game:
            return place
    return None


def comes_along(run: Path) -> bool:
    """Is this one of them? What is made of it then goes elsewhere."""
    return run.resolve().is_relative_to((RESULTS / AGENTS).resolve())


# --- Random play


class Chance(NamedTuple):
    """What random play earns on some levels: the mean raw return and its standard error."""

    score: float  # NaN: not measured
    stderr: float

    @property
    def measured(self) -> bool:
        return math.isfinite(self.score)


UNMEASURED = Chance(math.nan, math.nan)


def task_of(config: Config, levels: LevelSplit) -> dict[str, Any]:
    """What the return of random play depends on."""
    values = to_dict(config)
    return {"game": config.env, "levels": levels} | {
        part: values[part] for part in ("procgen", "ising", "gymnasium") if part in values
    }


def file_of(config: Config, levels: LevelSplit, place: Path = RANDOM) -> Path:
    identity = identity_of(task_of(config, levels), ())
    return place / f"{config.env.replace('/', '-').replace(':', '-')}-{levels}-{identity[:8]}.json"


def random_return(config: Config, levels: LevelSplit, *places: Path) -> Chance:
    """What was measured, in the first of these places that has it; the usual ones if none is given.

    UNMEASURED where none has.
    """
    for place in places or (RANDOM, RESULTS / "random"):
        path = file_of(config, levels, place)
        try:
            found = json.loads(path.read_bytes())
            spread = found.get("stderr")  # one episode has none
            return Chance(float(found["return"]), math.nan if spread is None else float(spread))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise BadInput(f"{path} is damaged ({error}); remove it and measure again") from error
    return UNMEASURED
