"""What comes with a checkout of crosstraj: trained agents, and what random play earns.

`agents/<name>` means results/agents/<name> of the checkout, unless there is such a path here. An
installed package without its checkout has neither, and says so.
"""

import json
from pathlib import Path
from typing import Any

from crosstraj.config.groups import LevelSplit
from crosstraj.config.stored import to_dict
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.runs.chance import RANDOM, RESULTS, Chance, file_in, random_in, task_in

AGENTS = "agents"


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


def task_of(config: Config, levels: LevelSplit) -> dict[str, Any]:
    """What the return of random play depends on."""
    return task_in(to_dict(config), levels)


def file_of(config: Config, levels: LevelSplit, place: Path = RANDOM) -> Path:
    return file_in(to_dict(config), levels, place)


def random_return(config: Config, levels: LevelSplit, *places: Path) -> Chance:
    """What was measured, in these places or else the usual ones; UNMEASURED where none has it."""
    return random_in(to_dict(config), levels, places or (RANDOM, RESULTS / "random"))
