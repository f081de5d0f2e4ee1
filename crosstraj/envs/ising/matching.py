"""The rules of the composite Ising matching task: its values, its goals, and N games of it.

The reward as printed, `literal`, is worth -1/2 on average whatever is chosen: turning all spins
round changes nothing in the dynamics, so every site of every lattice is up as often as down. Only
what such a turn leaves alone can tell temperatures apart; `energy`, the default, compares the mean
product of neighbouring spins. docs/ising.md has this and every other choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from crosstraj.envs.generators import packed, unpack
from crosstraj.envs.ising.lattice import Boundary, Dynamics, Rule, Spins, exact_correlation, picture
from crosstraj.envs.levels import Split
from crosstraj.errors import BadInput, check_range

Frames = npt.NDArray[np.uint8]  # [N, H, W, C]
State = Mapping[str, npt.NDArray[Any]]

BETA_LIMIT = 100.0  # colder than this nothing ever flips against its neighbours
GOALS = 6  # spawn key of the goals' random numbers: the sixth model
BLANK = -1  # "no model": nothing has been chosen yet


@dataclass(frozen=True)
class IsingConfig:
    """The Ising matching task; defaults resolve what the paper leaves open (docs/ising.md)."""

    reward: Literal["energy", "literal"] = "energy"
    """Compare energies with the goal's, or sites as printed (then every choice is worth -.5)."""
    side: int = 32
    """Rows and columns of a lattice (paper 32); even."""
    models: int = 5
    """Lattices, one temperature and one action each (paper 5)."""
    low: float = 0.01
    """Least inverse temperature (paper)."""
    high: float = 0.3
    """Greatest inverse temperature (paper); the models form an even grid from low to high."""
    as_temperature: bool = False
    """Read low and high as temperatures instead of inverse ones; for the literal reward."""
    rule: Rule = "metropolis"
    """How a proposed site flips: metropolis (the author's simulator), or heat-bath (Glauber)."""
    rounds: int = 8
    """Rounds per sweep, one colour each; they propose a site with probability 2 / rounds."""
    boundary: Boundary = "periodic"
    """A torus, or free edges."""
    sweeps: int = 1
    """Sweeps per step of the environment."""
    burn_in: int = 0
    """Sweeps before an episode begins (paper: random start)."""
    horizon: int = 64
    """Steps per episode; then time is out (truncated)."""
    first_frame: Literal["random", "blank"] = "random"
    """What is seen before the first choice: some model, or an empty frame."""
    instance: int = 0
    """Number of the problem instance: which goal; independent of the run's seed."""
    instances: int = 1
    """Goals to train on, one per episode; more than one needs show_goal, and tests on new ones."""
    show_goal: bool = False
    """Show the goal as a second channel."""
    goal_on_grid: bool = True
    """The goal's temperature is one of the models', or anywhere between them."""
    goal_sweeps_least: int = 50
    """The goal evolves at least this many sweeps."""
    goal_sweeps_most: int = 200
    """The goal evolves at most this many sweeps."""

    def __post_init__(self) -> None:
        counts = ("models", "sweeps", "horizon", "instances", "goal_sweeps_least")
        check_range(self, "ising.", *counts, at_least=1)
        check_range(self, "ising.", "burn_in", "instance", at_least=0)
        if self.goal_sweeps_most < self.goal_sweeps_least:
            raise BadInput(
                f"ising.goal_sweeps_most={self.goal_sweeps_most} is less than "
                f"ising.goal_sweeps_least={self.goal_sweeps_least}; raise it"
            )
        if self.instances > 1 and not self.show_goal:
            raise BadInput(
                f"ising.instances={self.instances}: an agent that cannot see the goal can learn "
                "one only; give show_goal=True, or instances=1"
            )
        self._check_temperatures()
        self.dynamics(self.betas)  # refuses sides and rounds that it cannot use

    def _check_temperatures(self) -> None:
        least = 1 / BETA_LIMIT if self.as_temperature else 0.0
        if not least <= self.low <= self.high <= BETA_LIMIT:
            raise BadInput(
                f"ising.low={self.low}, ising.high={self.high}: "
                f"{'temperatures' if self.as_temperature else 'inverse temperatures'} must be "
                f"between {least:g} and {BETA_LIMIT:g}, the lower one first"
            )
        if self.reward == "energy" and self.models > 1 and self.energy_range < 1e-3:
            raise BadInput(
                f"ising.reward=energy cannot tell models from {self.low} to {self.high} apart: "
                "their energies are equal; spread them, or take reward=literal"
            )

    @cached_property
    def betas(self) -> tuple[float, ...]:
        """The models' inverse temperatures."""
        grid = np.linspace(self.low, self.high, self.models)
        return tuple((1 / grid if self.as_temperature else grid).tolist())

    @cached_property
    def energy_range(self) -> float:
        """Between the extreme models, in equilibrium, per bond; 1 where there is one model only."""
        ends = [exact_correlation(beta) for beta in (self.betas[0], self.betas[-1])]
        return abs(ends[1] - ends[0]) if self.models > 1 else 1.0

    def dynamics(self, betas: Sequence[float]) -> Dynamics:
        return Dynamics(
            self.side,
            self.side,
            betas,
            rule=self.rule,
            rounds=self.rounds,
            boundary=self.boundary,
        )

    def goals(self, split: Split) -> range:
        """The instances of a split. A goal that is not seen must be the same in all."""
        place = {"train": 0, "test": 1, "validation": 2}[split] if self.show_goal else 0
        first = self.instance + place * self.instances
        return range(first, first + self.instances)


class Goal(NamedTuple):
    picture: npt.NDArray[np.int8]  # [H, W], each -1 or 1
    correlation: float  # of neighbouring spins
    beta: float  # the inverse temperature it comes from; NaN if it was given


def make_goal(config: IsingConfig, instance: int) -> Goal:
    """The last state of a lattice at a temperature of its own after a random number of sweeps."""
    rng = np.random.default_rng(np.random.SeedSequence(instance, spawn_key=(GOALS,)))
    # In turn, so that five instances have the five temperatures: as likely each, and less chance.
    beta = config.betas[instance % config.models]
    if not config.goal_on_grid:
        beta = float(rng.uniform(min(config.betas), max(config.betas)))
    sweeps = int(rng.integers(config.goal_sweeps_least, config.goal_sweeps_most + 1))
    dynamics = config.dynamics([beta])
    spins = dynamics.random([rng])
    for _ in range(sweeps):
        dynamics.sweep(spins, [rng])
    return Goal(picture(spins)[0, 0], float(dynamics.correlation(spins)[0, 0]), beta)


def given_goal(config: IsingConfig, goal: npt.ArrayLike) -> Goal:
    """A goal of the caller's own: [side, side] of -1 and 1."""
    drawn = np.asarray(goal)
    if drawn.shape != (config.side, config.side) or not np.isin(drawn, (-1, 1)).all():
        raise BadInput(
            f"goal: an array {list(drawn.shape)} of {drawn.dtype} was given; "
            f"[{config.side}, {config.side}] of -1 and 1 is needed"
        )
    drawn = drawn.astype(np.int8)
    products = [drawn[1:] * drawn[:-1], drawn[:, 1:] * drawn[:, :-1]]
    if config.boundary == "periodic":
        products += [drawn[0] * drawn[-1], drawn[:, 0] * drawn[:, -1]]
    together = np.concatenate([part.ravel() for part in products])
    return Goal(drawn, float(together.mean()), float("nan"))


class Games:
    """The rules and the state of N games; both environments below are doors to it."""

    def __init__(
        self, config: IsingConfig, count: int, split: Split, goal: npt.ArrayLike | None
    ) -> None:
        if count < 1:
            raise BadInput(f"num_envs={count}: at least 1 environment is needed")
        self.config, self.dynamics = config, config.dynamics(config.betas)
        self.instances = config.goals(split)
        self.goals: dict[int, Goal] = {}
        if goal is not None:
            self.goals = dict.fromkeys(self.instances, given_goal(config, goal))
        self.spins: Spins = np.ones((count, 2, *self.dynamics.shape), np.int8)
        self.model = np.full(count, BLANK)  # which one is seen
        self.instance = np.full(count, self.instances.start)
        self.steps = np.zeros(count, np.int64)
        channels = 2 if config.show_goal else 1
        self.frame_space = Box(0, 255, (config.side, config.side, channels), np.uint8)
        self.action_space = Discrete(config.models)

    def goal(self, instance: int) -> Goal:
        if instance not in self.goals:
            self.goals[instance] = make_goal(self.config, instance)
        return self.goals[instance]

    def begin(self, rows: npt.NDArray[np.int64], rngs: Sequence[np.random.Generator]) -> None:
        """A new episode in these rows, each from the generator of its row."""
        fresh = self.dynamics.random(rngs)
        for _ in range(self.config.burn_in):
            self.dynamics.sweep(fresh, rngs)
        self.spins[rows], self.steps[rows] = fresh, 0
        for row, rng in zip(rows, rngs, strict=True):
            self.instance[row] = self.instances[int(rng.integers(len(self.instances)))]
            if self.config.first_frame == "random":
                self.model[row] = rng.integers(self.config.models)
            else:
                self.model[row] = BLANK

    def step(
        self, actions: npt.NDArray[Any], rngs: Sequence[np.random.Generator]
    ) -> tuple[Frames, npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Frames, rewards and whose time is out."""
        models, count = self.config.models, len(self.model)
        whole = np.issubdtype(actions.dtype, np.integer)
        if not whole or actions.shape != (count,) or actions.min() < 0 or actions.max() >= models:
            raise BadInput(
                f"actions={actions!r}: {count} whole numbers from 0 to {models - 1} are needed"
            )
        for _ in range(self.config.sweeps):
            self.dynamics.sweep(self.spins, rngs)
        self.model[:] = actions
        self.steps += 1
        return self.frames(), self.reward(), self.steps >= self.config.horizon

    def chosen(self) -> Spins:
        """The lattices that are seen, as sets of one: [N, 2, 2, H/2, W/2, 1]."""
        return self.spins[np.arange(len(self.model)), ..., self.model][..., None]

    def reward(self) -> npt.NDArray[np.float64]:
        """Of the chosen lattices, in [-1, 0]."""
        goals = [self.goal(int(instance)) for instance in self.instance]
        if self.config.reward == "energy":
            aim = np.array([goal.correlation for goal in goals])
            miss = (self.dynamics.correlation(self.chosen())[:, 0] - aim) / self.config.energy_range
            return -np.minimum(miss**2, 1.0)
        # |s - G|^2 / (4 sites): a site that differs counts 4, so this is the share that differs.
        aims = np.stack([goal.picture for goal in goals])
        return -(picture(self.chosen())[:, 0] != aims).mean(axis=(1, 2))

    def frames(self) -> Frames:
        seen = picture(self.chosen())
        seen[self.model == BLANK] = -1
        if self.config.show_goal:
            aims = np.stack([self.goal(int(instance)).picture for instance in self.instance])
            seen = np.concatenate([seen, aims[:, None]], axis=1)
        return (np.moveaxis(seen, 1, -1) > 0).astype(np.uint8, order="C") * np.uint8(255)

    def info(self) -> dict[str, npt.NDArray[Any]]:
        """Of the frames: the model that each shows (-1: none), and the number of its goal."""
        return {"model": self.model.copy(), "level_seed": self.instance.copy()}

    def get_state(self, rngs: Sequence[np.random.Generator]) -> dict[str, npt.NDArray[Any]]:
        return {
            "spins": self.spins.copy(),
            "model": self.model.copy(),
            "instance": self.instance.copy(),
            "steps": self.steps.copy(),
            "generators": np.stack([packed(rng) for rng in rngs]),
        }

    def set_state(self, state: State, rngs: Sequence[np.random.Generator]) -> None:
        mine = self.get_state(rngs)
        fits = mine.keys() <= state.keys() and all(
            state[key].shape == mine[key].shape and state[key].dtype == mine[key].dtype
            for key in mine
        )
        if not fits or not self._possible(state):
            raise BadInput(
                f"a saved state with {sorted(state)} does not fit {len(self.model)} games of "
                f"{self.config}, or is damaged; restore it into an environment made alike"
            )
        for key in ("spins", "model", "instance", "steps"):
            getattr(self, key)[:] = state[key]
        for rng, words in zip(rngs, state["generators"], strict=True):
            unpack(words, rng)

    def _possible(self, state: State) -> bool:
        """Whether these values can come up here at all: other numbers would go wrong later."""
        return bool(
            np.isin(state["spins"], (-1, 1)).all()
            and ((state["model"] >= BLANK) & (state["model"] < self.config.models)).all()
            and np.isin(state["instance"], self.instances).all()
            and ((state["steps"] >= 0) & (state["steps"] <= self.config.horizon)).all()
        )
