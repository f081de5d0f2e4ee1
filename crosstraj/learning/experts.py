"""The policies that play pairs of levels: uniform ones, or experts read from their directory.

`crosstraj experts` leaves <place>/<game>/experts.json, which names one run per level. Experts are
read as every checkpoint is: verified, and without pickle.
"""

import hashlib
import json
import math
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crosstraj.config.stored import completed
from crosstraj.config.values import Config
from crosstraj.envs import image_and_actions, make_envs
from crosstraj.envs.frame_stack import AnyEnvs
from crosstraj.errors import BadInput
from crosstraj.learning.evaluation import EASY_RANGE
from crosstraj.learning.load import load, read_config
from crosstraj.objectives.base import Source
from crosstraj.policies.agent import Agent

INDEX = "experts.json"


@dataclass(frozen=True)
class Expert:
    """What one expert reached on its level, and what random play reaches there."""

    level: int
    run: str  # the name of its run directory
    frames: int
    score: float  # mean raw return
    stderr: float | None  # None: of one episode
    random_score: float | None = None  # None: not measured, in older files
    random_stderr: float | None = None

    @property
    def above_random(self) -> bool:
        """Clearly: two standard errors below the one mean is above two over the other."""
        if self.stderr is None or self.random_score is None or self.random_stderr is None:
            return False
        least, most = self.score - 2 * self.stderr, self.random_score + 2 * self.random_stderr
        return least > most

    def has_all(self, most: float) -> bool:
        """Was every episode worth the most that the game has? One episode alone says little."""
        return self.stderr is not None and self.score >= most

    def good_enough(self, most: float) -> bool:
        """Clearly above random play, or with nothing left to learn on an easy level."""
        return self.above_random or self.has_all(most)

    def in_words(self) -> str:
        """Level 3: 2.00 (0.10), random play 1.95 (0.08); standard errors in brackets."""
        of_random = with_error(self.random_score, self.random_stderr)
        score = with_error(self.score, self.stderr)
        return f"level {self.level}: {score}, random play {of_random}"


def most_of(config: Config) -> float:
    """The highest return of the game; infinite where it is not known."""
    known = EASY_RANGE if config.procgen.mode == "easy" else {}
    return known[config.env][1] if config.env in known else math.inf


def with_error(score: float | None, stderr: float | None) -> str:
    """A mean return and its standard error, or what is missing of them."""
    if score is None:
        return "not measured"
    return f"{score:.2f} ({'-' if stderr is None else f'{stderr:.2f}'})"


class Index(NamedTuple):
    """What `experts.json` holds."""

    values: dict[str, Any]  # of the configuration that all experts share
    experts: dict[int, Expert]  # by level


class Experts:
    """A frozen agent for each level."""

    def __init__(self, agents: dict[int, Agent], device: torch.device) -> None:
        self.agents, self.device = agents, device
        total = hashlib.sha256()
        for level in sorted(agents):
            for name, tensor in sorted(agents[level].state_dict().items()):
                total.update(f"{level} {name}".encode())
                total.update(tensor.cpu().contiguous().numpy().tobytes())
        self.digest = total.hexdigest()

    @torch.inference_mode()
    def __call__(self, level: int, frames: Tensor) -> Tensor:
        agent = self.agents[level]
        read = agent.read(agent.encoder, frames.to(self.device))
        return agent.log_probs(read, read.new_zeros(len(read), 0)).exp().cpu()


class Stage:
    """What a run offers to an objective that plays beside the rollouts."""

    def __init__(self, config: Config, envs: AnyEnvs) -> None:
        self.config, self.actions = config, image_and_actions(envs)[1]

    def levels(self, count: int) -> range:
        first = self.config.procgen.first_level
        return range(first, first + count)

    def make_level(self, level: int) -> AnyEnvs:
        return make_level(self.config, level)

    def experts(self, levels: range, place: str, *, accept_weak: bool) -> Experts:
        return read_experts(self.config, levels, Path(place), accept_weak=accept_weak)


def make_level(config: Config, level: int) -> AnyEnvs:
    """One game that plays one level again and again."""
    return make_envs(
        config.env,
        1,
        levels="train",
        procgen=replace(config.procgen, first_level=level, train_levels=1),
        seed=0,  # of no effect: there is one level to draw from, and a level is its own seed
        frame_stack=config.frame_stack,
    )


def make_source(config: Config, envs: AnyEnvs) -> Source | None:
    """What the run's objective plays beside the rollouts, if it does."""
    return config.objective.source(Stage(config, envs))


def read_experts(config: Config, levels: range, parent: Path, *, accept_weak: bool) -> Experts:
    """The experts of these levels, or one sentence on what is missing and how to get it."""
    place = parent / config.env
    known = read_index(place).experts
    missing = [level for level in levels if level not in known]
    if missing:
        raise BadInput(
            f"{place} has experts for {len(known)} levels, and levels {levels.start} to "
            f"{levels.stop - 1} are to be played: {len(missing)} are missing, the first for level "
            f"{missing[0]}; train them with `crosstraj experts --env {config.env} --levels "
            f"{len(levels)}`, or lower objective.levels"
        )
    if not accept_weak:
        check_strength([known[level] for level in levels], place, config)
    agents = {level: read_expert(place / known[level].run, level, config) for level in levels}
    return Experts(agents, torch.device(config.machine.device))


def check_strength(experts: list[Expert], place: Path, config: Config) -> None:
    """Policies no better than chance say nothing about where good ones act alike."""
    most = most_of(config)
    weak = [expert for expert in experts if not expert.good_enough(most)]
    if not weak:
        return
    shown = "; ".join(expert.in_words() for expert in weak[:3])
    train = f"crosstraj experts --env {config.env} --levels {len(experts)}"
    if all(expert.random_score is None for expert in weak):
        fix = f"measure them with `{train}` and the values that they were trained with"
    else:
        budget = max(expert.frames for expert in weak)
        fix = f"train them beyond {budget:,} frames with `{train} --frames N`"
    raise BadInput(
        f"{place}: {len(weak)} of {len(experts)} experts are not clearly above random play on "
        f"their level ({shown}{'; ...' if len(weak) > 3 else ''}; standard errors in brackets): "
        "an expert's mean less two standard errors must be above random play's plus two, or all "
        "that the game has; "
        f"{fix}, or accept them with --objective.accept-weak-experts"
    )


def read_expert(run: Path, level: int, config: Config) -> Agent:
    """The agent of an expert's run, which must have been trained on this level as it looks here."""
    trained = read_config(run)
    here = replace(config.procgen, first_level=level, train_levels=1)
    for name, there, wanted in (
        ("method", trained.method, "ppo"),
        ("env", trained.env, config.env),
        ("procgen", trained.procgen, here),
        ("frame_stack", trained.frame_stack, config.frame_stack),
        ("memory", trained.memory, "none"),
    ):
        if there != wanted:
            raise BadInput(
                f"{run}, the expert of level {level}, was trained with {name}={there}, and "
                f"{wanted} is needed; train experts for it in another directory, and name that "
                "with objective.experts"
            )
    # On the machine of the run that learns from it, but in full precision.
    machine = replace(config.machine, compile=False, precision="fp32")
    if machine.kernels == "native":  # where there are none for this expert, it has torch's
        machine = replace(machine, kernels="auto")
    return load(run, machine=machine).agent.requires_grad_(False)


def read_index(place: Path) -> Index:
    """The experts of a directory, as far as there are any."""
    path = place / INDEX
    try:
        found = json.loads(path.read_bytes())
        names = [field.name for field in fields(Expert)]
        experts = [
            Expert(**{name: row[name] for name in names if name in row})
            for row in map(dict, found["experts"])
        ]
        for expert in experts:
            whole = type(expert.level) is int and type(expert.frames) is int
            if not whole or not re.fullmatch(r"\w[\w.-]*", expert.run):
                raise ValueError(f"{expert} has no level, frames or plain run directory")
            figures = (expert.score, expert.stderr, expert.random_score, expert.random_stderr)
            if not all(isinstance(figure, float | int | None) for figure in figures):
                raise ValueError(f"{expert} has returns that are no numbers")
        values = completed(dict(found["values"]), found.get("format", 1))
        return Index(values, {expert.level: expert for expert in experts})
    except FileNotFoundError:
        return Index({}, {})
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadInput(f"{path} is damaged ({error}); remove it, and train the experts") from error
