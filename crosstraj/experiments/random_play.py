"""Random play on the levels that runs are judged by: measured once for each task, and kept.

What a method has learnt is what it has above this. `crosstraj experiment FILE --random` measures
it for the games of a file, `python -m tools.random_play` for all of Procgen; results/random has one
file for each game, kind of levels and way the game is set up, which `runs/shipped.py` reads.
"""

import json
from dataclasses import replace
from pathlib import Path

from crosstraj.config.groups import EvaluationConfig, LevelSplit
from crosstraj.config.values import Config
from crosstraj.disk import write_whole
from crosstraj.errors import BadInput
from crosstraj.runs.chance import RANDOM
from crosstraj.runs.shipped import file_of, random_return, task_of

EPISODES = 512  # the standard error is then about a twentieth of the returns' deviation
ENVS = 64
SETTINGS = {"procgen", "gymnasium"}  # where the levels of a game are chosen
OF_THE_GAME = ("env", "frame_stack", "gymnasium", "ising", "machine", "procgen")


def read(config: Config, levels: LevelSplit, place: Path = RANDOM) -> float:
    """The mean raw return of random play; NaN where it has not been measured."""
    return random_return(config, levels, place).score


def measure(config: Config, levels: LevelSplit, place: Path = RANDOM) -> Path:
    """Play at random with seed 0, unless it was done; the file that holds the result."""
    from crosstraj.experiments.expert_runs import random_play

    path = file_of(config, levels, place)
    if path.exists():
        return path
    task = task_of(config, levels)
    # The levels of the task rather than of the run, so that it matters to nobody who measures.
    parts = {part: replace(getattr(config, part), **task[part]) for part in SETTINGS & task.keys()}
    # And of no method, which may ask for more levels than these.
    game = {name: getattr(config, name) for name in OF_THE_GAME}
    evaluation = EvaluationConfig(episodes=EPISODES, envs=ENVS)
    played = replace(Config(), seed=0, evaluation=evaluation, **(game | parts))
    mean, stderr = random_play(played, levels)
    found = task | {"episodes": EPISODES, "return": mean, "stderr": stderr}
    try:
        place.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(found, indent=1).encode() + b"\n")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror or error}") from error
    return path
