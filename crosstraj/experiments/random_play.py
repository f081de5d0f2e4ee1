"""Random play on the levels that runs are judged by: measured once for each task, and kept.

What a method has learnt is what it has above this. `crosstraj experiment FILE --random` measures
it; results/random has one file for each game, kind of levels and way the game is set up.
"""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from crosstraj.config.dotted import identity_of
from crosstraj.config.groups import EvaluationConfig, LevelSplit
from crosstraj.config.stored import to_dict
from crosstraj.config.values import Config
from crosstraj.disk import write_whole
from crosstraj.errors import BadInput

PLACE = Path("results/random")
EPISODES = 512  # the standard error is then about a twentieth of the returns' deviation
ENVS = 64


def task_of(config: Config, levels: LevelSplit) -> dict[str, Any]:
    """What the return of random play depends on."""
    values = to_dict(config)
    return {"game": config.env, "levels": levels} | {
        part: values[part] for part in ("procgen", "ising", "gymnasium") if part in values
    }


def file_of(config: Config, levels: LevelSplit, place: Path = PLACE) -> Path:
    identity = identity_of(task_of(config, levels), ())
    return place / f"{config.env.replace('/', '-').replace(':', '-')}-{levels}-{identity[:8]}.json"


def read(config: Config, levels: LevelSplit, place: Path = PLACE) -> float:
    """The mean raw return of random play; NaN where it has not been measured."""
    path = file_of(config, levels, place)
    try:
        return float(json.loads(path.read_bytes())["return"])
    except FileNotFoundError:
        return math.nan
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BadInput(f"{path} is damaged ({error}); remove it and measure again") from error


def measure(config: Config, levels: LevelSplit, place: Path = PLACE) -> Path:
    """Play at random with seed 0, unless it was done; the file that holds the result."""
    from crosstraj.experiments.expert_runs import random_play

    path = file_of(config, levels, place)
    if path.exists():
        return path
    evaluation = EvaluationConfig(episodes=EPISODES, envs=ENVS)
    mean, stderr = random_play(replace(config, seed=0, evaluation=evaluation), levels)
    found = task_of(config, levels) | {"episodes": EPISODES, "return": mean, "stderr": stderr}
    try:
        place.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(found, indent=1).encode() + b"\n")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror or error}") from error
    return path
