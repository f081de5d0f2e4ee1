"""One expert per level: a PPO run of its own for each, held against random play on its level.

Each expert is an ordinary run directory under <saving.runs>/<game>, so that a command that was
stopped goes on where it was; `experts.json` beside them names the runs and what they reached.
"""

import json
import math
from dataclasses import asdict, replace
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from crosstraj.config.dotted import differences, identity_of
from crosstraj.config.groups import LevelSplit
from crosstraj.config.stored import FORMAT, telling, to_dict
from crosstraj.config.values import Config
from crosstraj.data.rollout import Decision
from crosstraj.disk import write_whole
from crosstraj.envs import GAMES, image_and_actions
from crosstraj.errors import BadInput, Unsaved
from crosstraj.learning.display import display_for
from crosstraj.learning.evaluation import Examiner, evaluate, summarise
from crosstraj.learning.experts import INDEX, Expert, most_of, read_index, with_error
from crosstraj.learning.place import open_run
from crosstraj.learning.signals import Stop
from crosstraj.loop import train
from crosstraj.nn.memory import Frames
from crosstraj.objectives import Objective
from crosstraj.randomness import EVALUATIONS, generator

PLAYER = 2  # of the evaluation's streams: the others are the splits'
# What may differ between two commands for the same experts: the level is each expert's own.
LEVELS = ("procgen.first_level", "procgen.train_levels")


class RandomPlayer:
    """Every action alike."""

    memory = 0

    def __init__(self, actions: int) -> None:
        self.actions = actions

    def act(
        self, frames: Frames, context: Tensor, rng: torch.Generator, *, greedy: bool = False
    ) -> Decision:
        action = torch.randint(self.actions, (len(frames),), generator=rng)
        nothing = torch.zeros(len(frames))
        return Decision(action, nothing, nothing, nothing[:, None])


def expert_config(config: Config, level: int) -> Config:
    """The run of one level's expert."""
    procgen = replace(config.procgen, first_level=level, train_levels=1)
    saving = replace(config.saving, runs=config.saving.runs / config.env)
    return replace(config, procgen=procgen, saving=saving)


def train_experts(
    config: Config, levels: int, stop: Stop, *, allow_inexact: bool = False
) -> list[Expert]:
    """An expert for each level from the first on; finished ones are found, partial ones go on."""
    check(config, levels)
    place = config.saving.runs / config.env
    index = read_index(place)
    check_values(config, index.values)
    experts, first = index.experts, config.procgen.first_level
    wanted = range(first, first + levels)
    for level in wanted:
        if level in experts and complete(experts[level], config.frames):
            continue
        title = f"expert {level - first + 1} of {levels}: {config.env}, level {level}"
        expert = train_expert(expert_config(config, level), title, stop, allow_inexact)
        experts = read_index(place).experts | {level: expert}  # others may train other levels
        write_index(config, experts)
    return [experts[level] for level in wanted]


def complete(expert: Expert, frames: int) -> bool:
    """Trained to the budget, and held against random play."""
    return expert.frames >= frames and expert.random_score is not None


def check(config: Config, levels: int) -> None:
    if config.method != "ppo":
        raise BadInput(f"method={config.method}: experts are trained with ppo")
    if config.env not in GAMES:
        raise BadInput(f"{config.env} has no levels of its own: experts are for Procgen's games")
    if levels < 1:
        raise BadInput(f"levels={levels}: at least 1 expert is needed; the paper has 40")


def check_values(config: Config, there: dict[str, Any]) -> None:
    """Experts of one directory are trained alike."""
    here = to_dict(config)
    if there and identity_of(telling(there), LEVELS) != identity_of(telling(here), LEVELS):
        raise BadInput(
            f"{config.saving.runs / config.env} holds experts with other values "
            f"({differences(there, here)}); use those, or another --saving.runs"
        )


def train_expert(config: Config, title: str, stop: Stop, allow_inexact: bool) -> Expert:
    with (
        display_for(config.frames, title) as display,
        open_run(config, display, allow_inexact=allow_inexact) as run,
    ):
        display.say(title)
        summary = run.summary() if run.finished else train(config, run, display, stop)
    assert summary is not None
    score, stderr = random_play(config)
    return Expert(
        level=config.procgen.first_level,
        run=run.directory.name,
        frames=summary["frames"],
        score=summary["seen_return"],
        stderr=_finite(summary["seen_stderr"]),
        random_score=score,
        random_stderr=stderr,
    )


def random_play(config: Config, split: LevelSplit = "seen") -> tuple[float, float | None]:
    """Mean raw return of random play, on the expert's own level or others; its standard error."""
    pool = Examiner(config).pool(split)
    player = RandomPlayer(image_and_actions(pool.envs)[1])
    rng = generator(config.seed, EVALUATIONS, PLAYER)
    episodes = evaluate(pool, player, Objective(), config.evaluation.episodes, rng)
    pool.envs.close()
    figures = summarise({"random": episodes})
    return figures["random_return"], _finite(figures["random_stderr"])


def _finite(number: float) -> float | None:
    """One episode has no standard error, and JSON no NaN."""
    return number if math.isfinite(number) else None


def write_index(config: Config, experts: dict[int, Expert]) -> None:
    rows = [
        asdict(expert) | {"above_random": expert.above_random}
        for _, expert in sorted(experts.items())
    ]
    values = {"format": FORMAT, "values": to_dict(config)}
    body = {"game": config.env, "experts": rows, **values}
    path = config.saving.runs / config.env / INDEX
    try:
        write_whole(path, json.dumps(body, indent=1).encode())
    except OSError as error:
        raise Unsaved(f"{path} could not be written: {error.strerror or error}") from error


def table_of(config: Config, experts: list[Expert]) -> Table:
    most = most_of(config)
    table = Table(
        "level",
        "frames",
        "expert",
        "random play",
        "above random",
        title=f"experts on {config.env}, raw return on their level (standard error)",
        caption=f"{sum(expert.good_enough(most) for expert in experts)} of {len(experts)} experts "
        "are clearly above random play: their mean less two standard errors is above random play's "
        "plus two, or all that the game has",
    )
    for expert in experts:
        table.add_row(
            str(expert.level),
            f"{expert.frames:,}",
            with_error(expert.score, expert.stderr),
            with_error(expert.random_score, expert.random_stderr),
            "yes" if expert.above_random else "has all" if expert.has_all(most) else "no",
        )
    return table
