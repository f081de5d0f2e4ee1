"""Which runs may stand beside each other, and which are averaged.

Runs are compared only if they have the same budget and the same task (levels and way of acting),
and averaged over seeds only if they have the same values: a variant. What is missing, partial or
double is named and left out; nothing is averaged over it in silence.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crosstraj.config.dotted import identity_of
from crosstraj.config.groups import LevelSplit
from crosstraj.config.stored import FORMAT, completed, from_dict
from crosstraj.envs import GAMES
from crosstraj.errors import BadInput
from crosstraj.health.glossary import GLOSSARY
from crosstraj.learning.evaluation import EASY_RANGE, normalised
from crosstraj.report.document import plain
from crosstraj.report.labels import changed_values, label_of, shared_values, variant_of
from crosstraj.report.published import METHOD_COLUMNS
from crosstraj.report.reading import Evaluation, RunData, judged_by
from crosstraj.report.statistics import Scores
from crosstraj.runs.read import kept_variant
from crosstraj.runs.shipped import random_return

RANGES = GLOSSARY["normalised"].label
EQUAL_SEEDS = "Left out so that each game has equally many seeds:"


@dataclass
class Variant:
    """Runs with the same values but for game and seed."""

    label: str
    config: dict[str, Any]  # of one of them
    changed: dict[str, Any]  # values that are not the preset's
    finished: dict[tuple[str, int], RunData] = field(default_factory=dict)  # by game and seed
    partial: dict[tuple[str, int], RunData] = field(default_factory=dict)

    def seeds(self, game: str) -> list[int]:
        return sorted(seed for name, seed in self.finished if name == game)

    @property
    def games(self) -> list[str]:
        return sorted({game for game, _ in self.finished})

    def finals(self, game: str) -> list[Evaluation]:
        """The last evaluation of each seed."""
        runs = (self.finished[game, seed] for seed in self.seeds(game))
        return [final for run in runs if (final := run.final) is not None]


@dataclass
class Comparison:
    budget: int
    task: dict[str, Any]
    variants: list[Variant]
    doubles: list[str]  # runs that are there twice
    shared: dict[str, Any] = field(default_factory=dict)  # changed values that all variants have

    @property
    def judged(self) -> list[Variant]:
        """Variants with something to put in a table."""
        return [variant for variant in self.variants if variant.finished]

    @property
    def finished_runs(self) -> int:
        return sum(len(variant.finished) for variant in self.variants)

    @property
    def all_runs(self) -> int:
        return self.finished_runs + sum(len(variant.partial) for variant in self.variants)

    @property
    def games(self) -> list[str]:
        return sorted({game for variant in self.variants for game in variant.games})

    @property
    def title(self) -> str:
        words = [f"{self.budget:,} frames", f"{self.acting} actions"]
        if self.levels == "validation":
            words.append("judged by validation levels")
        if count := self.train_levels:
            procgen, split = self.task["procgen"], self.task["gymnasium"]
            first = (procgen or split).get("first_level", 0)
            mode = f"{procgen.get('mode', '?')} " if procgen else ""
            words.insert(1, f"{mode}levels {first} to {first + count - 1}")
        return ", ".join(words)

    @property
    def train_levels(self) -> int:
        """How many levels the runs were trained on; 0: there was no split."""
        return int((self.task["procgen"] or self.task["gymnasium"]).get("train_levels", 0))

    @property
    def levels(self) -> LevelSplit:
        """What the runs are judged by, beside the levels that they trained on."""
        levels: LevelSplit = self.task["levels"]
        return levels

    def random(self, game: str, levels: LevelSplit | None = None) -> float:
        """The return of random play on the levels that runs are judged by; NaN: not measured."""
        runs = (run for v in self.variants for run in (v.finished | v.partial).items())
        config = next((run.config for (name, _), run in runs if name == game), None)
        try:
            known = from_dict(completed(config or {}, FORMAT))
            return random_return(known, levels or self.levels).score
        except BadInput:  # of a method or a version that is not ours
            return math.nan

    @property
    def acting(self) -> str:
        return "greedy" if self.task["greedy"] else "sampled"

    def normalisable(self, games: Iterable[str]) -> list[str]:
        """Those of the games for which a range is known: Procgen's in easy mode."""
        return with_range(games, easy=self.task["procgen"].get("mode") == "easy")

    @property
    def shared_games(self) -> list[str]:
        """Games with a range that every judged variant has played to the end."""
        played = [set(variant.games) for variant in self.judged]
        return self.normalisable(sorted(set.intersection(*played))) if played else []


def compare(runs: Sequence[RunData]) -> list[Comparison]:
    """Comparisons by budget and task: that of most runs first, then the largest budget."""
    groups: dict[str, list[RunData]] = {}
    for run in runs:
        task = _task(run.config)
        groups.setdefault(identity_of(task | {"budget": run.budget}, ()), []).append(run)
    found = [_comparison(group) for group in groups.values()]
    return sorted(found, key=lambda one: (-one.all_runs, -one.budget, one.title))


def _task(config: Mapping[str, Any]) -> dict[str, Any]:
    """What must be equal for returns to be comparable, as far as this game reads it."""
    ising = {**config.get("ising", {}), "instance": None}  # each goal is a game of its own
    return {
        "procgen": config.get("procgen", {}) if config["env"] in GAMES else {},
        "ising": ising if config["env"] == "ising" else {},
        "gymnasium": config.get("gymnasium", {}),
        "greedy": bool(config.get("evaluation", {}).get("greedy")),
        "levels": judged_by(config),
    }


def _comparison(runs: Sequence[RunData]) -> Comparison:
    variants: dict[str, Variant] = {}
    doubles: list[str] = []
    shared = shared_values(runs)
    holds: dict[Path, set[str]] = {}  # a directory of several variants is not called after one
    for run in runs:
        holds.setdefault(run.path.parent, set()).add(variant_of(run.config))
    for run in runs:
        identity = variant_of(run.config)
        if identity not in variants:
            changed = changed_values(run.config)
            told = changed and {k: v for k, v in changed.items() if k not in shared}
            kept = kept_variant(run.path) if len(holds[run.path.parent]) == 1 else ""
            names = plain(kept)[:60], label_of(run.config, told, identity)
            taken = {"", *(variant.label for variant in variants.values())}
            label = next((n for n in names if n not in taken), f"{names[1]} #{identity[:6]}")
            variants[identity] = Variant(label, run.config, changed or {})
        variant, key = variants[identity], (run.game, run.seed)
        if key in variant.finished | variant.partial:
            again = f"{variant.label}, {run.game}, seed {run.seed} again"
            doubles.append(f"double: {run.path} is {again}")
            continue
        (variant.partial if run.final is None else variant.finished)[key] = run
    order = {method: index for index, method in enumerate(METHOD_COLUMNS)}
    ordered = sorted(
        variants.values(), key=lambda v: (order.get(v.config["method"], len(order)), v.label)
    )
    return Comparison(runs[0].budget, _task(runs[0].config), ordered, doubles, shared)


def named(comparison: Comparison) -> list[str]:
    """Everything that is not in the tables of a comparison and why, in words."""
    said = list(comparison.doubles)
    seeds = sorted({seed for variant in comparison.variants for _, seed in variant.finished})
    for variant in comparison.variants:
        for (game, seed), run in sorted(variant.partial.items()):
            said.append(f"{run.state}: {variant.label}, {game}, seed {seed} ({run.path})")
        there = {*variant.finished, *variant.partial}
        absent = [(g, seed) for g in comparison.games for seed in seeds if (g, seed) not in there]
        said += [f"missing: {words}" for words in _by_seeds(variant, absent)]
        for (game, seed), run in sorted(variant.finished.items()):
            if run.final is not None and math.isnan(run.final.seen + run.final.held_out):
                said.append(f"NaN: {variant.label}, {game}, seed {seed} ({run.path})")
    counts = {run.config.get("evaluation", {}).get("episodes") for run in _finished(comparison)}
    if len(counts) > 1:
        said.append(f"mixed: runs were judged by {' or '.join(sorted(map(str, counts)))} episodes")
    return said


def _by_seeds(variant: Variant, runs: Iterable[tuple[str, int]]) -> list[str]:
    """Games and seeds in words, games with the same seeds together."""
    seeds: dict[str, list[str]] = {}
    for game, seed in runs:
        seeds.setdefault(game, []).append(str(seed))
    games: dict[str, list[str]] = {}
    for game, numbers in seeds.items():
        games.setdefault(", ".join(numbers), []).append(game)
    return [f"{variant.label}: seed {ones} of {', '.join(names)}" for ones, names in games.items()]


def _finished(comparison: Comparison) -> list[RunData]:
    return [run for variant in comparison.variants for run in variant.finished.values()]


def balanced(variant: Variant, games: Iterable[str]) -> tuple[Scores, list[str]]:
    """Raw held-out returns with equally many seeds per game, and which runs that leaves out."""
    games = list(games)
    count = min(len(variant.seeds(game)) for game in games)
    left = [(game, seed) for game in games for seed in variant.seeds(game)[count:]]
    scores = {game: [final.held_out for final in variant.finals(game)[:count]] for game in games}
    return scores, _by_seeds(variant, left)


def with_range(games: Iterable[str], *, easy: bool) -> list[str]:
    return [game for game in games if easy and game in EASY_RANGE]


def normalised_scores(scores: Scores) -> Scores:
    return {game: [normalised(game, score) for score in row] for game, row in scores.items()}
