"""The runs that an experiment stands for: the product of its variants, games and seeds.

`file.py` makes an `Experiment` of a TOML file; jobs.py makes its runs exact.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from crosstraj.experiments.look import Look

Judged = Literal["unseen", "validation"]
Value = bool | int | float | str | tuple[int | float | str, ...]
Values = dict[str, Value]  # by dotted name


@dataclass(frozen=True)
class Planned:
    """One run: what a `crosstraj train` command says."""

    variant: str
    game: str
    seed: int
    values: Values  # method and preset first, then base and variant; the budget last

    @property
    def name(self) -> str:
        return f"{self.variant}/{self.game}/s{self.seed}"

    @property
    def frames(self) -> int:
        frames = self.values["frames"]
        assert isinstance(frames, int)
        return frames

    def command(self, more: Values) -> list[str]:
        """The words after `crosstraj`; `more` says what belongs to the machine, not the run."""
        words = ["train"]
        for name, value in (self.values | {"env": self.game, "seed": self.seed} | more).items():
            flag = name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
                continue
            several = value if isinstance(value, tuple) else (value,)
            words += [f"--{flag}", *map(str, several)]
        return words


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    reproduces: str
    frames: int
    games: tuple[str, ...]
    seeds: tuple[int, ...]
    variants: dict[str, Values]  # resolved: each with its method and preset
    table: str
    quick: float | None = None  # the scale of a trial within minutes
    judge: str = ""  # the variant that is held against each other; none
    baseline: str = ""  # the variant that all others are paired with; none
    beside: tuple[str, ...] = ()  # further baselines, which decide nothing
    levels: Judged = "unseen"  # what variants are judged by, beside the levels they trained on
    look: Look | None = None  # a rule for stopping early
    experts: dict[str, str] = field(default_factory=dict)  # the run that `screen` plays, by game
    cluster: dict[str, Any] = field(default_factory=dict)  # what --ray asks of a node for each run
    over: str = ""  # the value that `sweep` draws returns over
    scale: float = 1.0

    def runs(self) -> list[Planned]:
        """All runs, seed by seed, so that an unfinished experiment has every variant."""
        return [
            Planned(
                variant,
                game,
                seed,
                _of_seed(values, seed)
                | {"frames": self._shrunk(values.get("frames", self.frames))},
            )
            for seed in self.seeds[: self._shrunk(len(self.seeds))]
            for game in self.games[: self._shrunk(len(self.games))]
            for variant, values in self.variants.items()
            if seed in chosen(values, "seeds", self.seeds)
            and game in chosen(values, "games", self.games)
        ]

    def _shrunk(self, count: Value) -> int:
        """In proportion and rounded up, so at least 1; nine digits, for .7 * 10 is above 7."""
        assert isinstance(count, int)
        return math.ceil(round(count * self.scale, 9))


def chosen(values: Values, what: str, of_all: tuple[Any, ...]) -> tuple[Any, ...]:
    """The games or seeds that a variant is for: its own, or all."""
    found = values.get(what, of_all)
    return found if isinstance(found, tuple) else (found,)


def _of_seed(values: Values, seed: int) -> Values:
    """The values of a run, without what only chooses runs."""
    return {
        name: seed if value == "{seed}" else value
        for name, value in values.items()
        if name not in ("games", "seeds")
    }
