"""What was run, and the paper's table: returns by game, ours with the published ones beside."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from crosstraj.health.glossary import GLOSSARY, returns_on
from crosstraj.learning.evaluation import normalised
from crosstraj.report.cells import NONE, RANDOM_PLAY, number, with_seeds
from crosstraj.report.comparison import RANGES, Comparison, Variant, normalised_scores
from crosstraj.report.document import Block, Items, Table, Text
from crosstraj.report.published import (
    ABLATION_SEEDS,
    PAPER_FRAMES,
    PAPER_SEEDS,
    Column,
    Published,
    openai_ppo,
    paper_columns,
)
from crosstraj.report.reading import Evaluation
from crosstraj.report.statistics import Scores, spread


def variants(comparison: Comparison) -> list[Block]:
    rows = [
        [
            variant.label,
            variant.config["method"],
            variant.config["preset"],
            ", ".join(
                f"{name}={value}"
                for name, value in variant.changed.items()
                if name not in comparison.shared
            )
            or NONE,
            str(len(variant.games)),
            _counts([len(variant.seeds(game)) for game in variant.games]),
            str(len(variant.partial)),
        ]
        for variant in comparison.variants
    ]
    head = ["variant", "method", "preset", "changed from the preset", "games", "seeds", "partial"]
    caption = "What was run; each variant is averaged by itself."
    if comparison.shared:
        values = ", ".join(f"{name}={value}" for name, value in comparison.shared.items())
        caption += f" All of them: {values}."
    blocks: list[Block] = [Table(caption, head, rows)]
    by_method: dict[str, list[str]] = {}
    for variant in comparison.variants:
        by_method.setdefault(variant.config["method"], []).append(variant.label)
    mixed = [
        f"{method} was run with {len(labels)} sets of values, which are not averaged: "
        + "; ".join(labels)
        for method, labels in by_method.items()
        if len(labels) > 1
    ]
    return [*blocks, Items(mixed)] if mixed else blocks


def _counts(counts: Iterable[int]) -> str:
    known = sorted(set(counts))
    return " to ".join(map(str, sorted({known[0], known[-1]}))) if known else "0"


class Beside(NamedTuple):
    """A published column, and the place after which it stands."""

    name: str
    column: Column


def as_published(comparison: Comparison) -> bool:
    """Whether the levels are those that all published numbers are about."""
    procgen = comparison.task["procgen"]
    return (procgen.get("mode"), procgen.get("train_levels")) == ("easy", 200)


def published(comparison: Comparison) -> list[tuple[Variant, list[Beside]]]:
    """Each judged variant with the columns to put after it: those of its method, once."""
    theirs = as_published(comparison)
    found: list[tuple[Variant, list[Beside]]] = []
    done: set[str] = set()
    for variant in reversed(comparison.judged):
        columns = paper_columns(variant.config) if theirs else {}
        beside = [Beside(f"{name}, paper", c) for name, c in columns.items() if name not in done]
        if "PPO" in columns and "PPO" not in done:
            beside += _openai(comparison)
        done |= set(columns)
        found.insert(0, (variant, beside))
    return found


def _openai(comparison: Comparison) -> list[Beside]:
    found = {game: openai_ppo(game, comparison.budget) for game in comparison.games}
    known = {game: entry for game, entry in found.items() if entry is not None}
    if not known:
        return []
    column = {game: Published(entry.test, math.nan) for game, entry in known.items()}
    frames = next(iter(known.values())).frames
    return [Beside(f"PPO, OpenAI at {frames:,}", column)]


def returns(comparison: Comparison) -> list[Block]:
    """The paper's table: return on levels not trained on, ours and theirs."""
    columns = published(comparison)
    head = ["game"]
    for variant, beside in columns:
        head += [variant.label, *(entry.name for entry in beside)]
    head.append(RANDOM_PLAY)
    rows = []
    for game in comparison.games:
        row = [game]
        for variant, beside in columns:
            row.append(with_seeds(spread(final.held_out for final in variant.finals(game))))
            row += [_theirs(entry.column.get(game)) for entry in beside]
        rows.append([*row, number(comparison.random(game), absent=NONE)])
    caption = (
        f"Raw return on {comparison.levels} levels: mean ± standard deviation over seeds (number "
        f"of seeds), ours after {comparison.budget:,} frames."
    )
    if any(beside for _, beside in columns):
        caption += f" {about_paper(comparison)}"
    return [Table(caption, head, rows)]


def about_paper(comparison: Comparison) -> str:
    """What published numbers are, and why they may not be of one kind with ours."""
    same = comparison.budget == PAPER_FRAMES
    budget = "." if same else ": another budget, so the numbers are not of one kind."
    return (
        f"Paper: CTRL paper, after {PAPER_FRAMES:,} frames, {PAPER_SEEDS} seeds (ablations "
        f"{ABLATION_SEEDS}){budget} Its starpilot, fruitbot, chaser, miner and plunder disagree "
        "with every other published source."
    )


def normalised_random_play(comparison: Comparison) -> Scores:
    """What random play earns, normalised, in the games where it was measured and a range known."""
    games = comparison.normalisable(comparison.games)
    known = {game: comparison.random(game) for game in games}
    return normalised_scores({g: [score] for g, score in known.items() if math.isfinite(score)})


NO_RANGE = "No normalised scores: ranges are known for Procgen's games in easy mode."


def _theirs(entry: Published | None) -> str:
    if entry is None:
        return NONE
    return number(entry.mean) if math.isnan(entry.sd) else f"{entry.mean:.1f} ± {entry.sd:.1f}"


def seen_and_gap(comparison: Comparison) -> list[Block]:
    frames = f"after {comparison.budget:,} frames: mean ± standard deviation over seeds (seeds)"
    return [
        _by_game(
            f"Raw return on seen levels {frames}.",
            comparison,
            lambda final: final.seen,
            chance=True,
        ),
        _by_game(
            f"{GLOSSARY['gap'].label.capitalize()} ({comparison.levels} levels), {frames}.",
            comparison,
            lambda final: final.seen - final.held_out,
        ),
    ]


def _by_game(
    caption: str,
    comparison: Comparison,
    value: Callable[[Evaluation], float],
    *,
    chance: bool = False,
) -> Table:
    """A row per game and a column per variant; of random play, too, where it has such a value."""
    judged, last = comparison.judged, [RANDOM_PLAY] if chance else []
    rows = []
    for game in comparison.games:
        known = [number(comparison.random(game, "seen"), absent=NONE)] if chance else []
        ours = (with_seeds(spread(map(value, v.finals(game)))) for v in judged)
        rows.append([game, *ours, *known])
    return Table(caption, ["game", *(variant.label for variant in judged), *last], rows)


def normalised_returns(comparison: Comparison) -> list[Block]:
    """Each game's score on a common scale, and the mean over games where none is missing."""
    games = comparison.normalisable(comparison.games)
    if not games:
        return [Text(NO_RANGE)]
    columns = published(comparison)
    head, rows = ["game"], [[game] for game in games]
    mean = [f"mean of {len(games)}"]
    for variant, beside in columns:
        head.append(variant.label)
        ours = normalised_scores({g: [f.held_out for f in variant.finals(g)] for g in games})
        for row in rows:
            row.append(with_seeds(spread(ours[row[0]]), ".3f"))
        mean.append(_mean_over_games({g: float(np.mean(v)) for g, v in ours.items() if v}, games))
        for name, column in beside:
            head.append(name)
            theirs = {g: normalised(g, column[g].mean) for g in games if g in column}
            for row in rows:
                row.append(number(theirs[row[0]], ".3f") if row[0] in theirs else NONE)
            mean.append(_mean_over_games(theirs, games))
    head.append(RANDOM_PLAY)
    random = {game: score for game, (score,) in normalised_random_play(comparison).items()}
    for row in rows:
        row.append(number(random.get(row[0], math.nan), ".3f", absent=NONE))
    mean.append(_mean_over_games(random, games))
    caption = (
        f"{GLOSSARY['normalised'].short.capitalize()} {returns_on(comparison.levels)} after "
        f"{comparison.budget:,} frames (published: see above), {RANGES}. The mean over games is "
        "given where no game is missing."
    )
    others = sorted(set(comparison.games) - set(games))
    left: list[Block] = [Text(f"Without a known range: {', '.join(others)}.")] if others else []
    return [Table(caption, head, [*rows, mean]), *left]


def _mean_over_games(scores: dict[str, float], games: Sequence[str]) -> str:
    if set(scores) != set(games):
        return f"{NONE} ({len(scores)} games)"
    return number(float(np.mean(list(scores.values()))), ".3f")
