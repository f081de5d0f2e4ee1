"""Levels won and lost between variants, and the audit of repeated levels."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from crosstraj.health.glossary import returns_on
from crosstraj.report.cells import NONE, number
from crosstraj.report.comparison import Comparison, Variant
from crosstraj.report.document import Block, Items, Table, Text
from crosstraj.report.level_by_level import (
    AUDIT_LIMIT,
    Level,
    Outcome,
    audit,
    gather_frames,
    level_returns,
    won_and_lost,
)
from crosstraj.report.reading import Played, RunData


def won_levels(comparison: Comparison) -> list[tuple[str, Outcome]]:
    """For each pair of variants, their levels pooled over the games that both have played."""
    found = []
    for earlier, later in combinations(comparison.judged, 2):
        games = set(later.games) & set(earlier.games)
        total: dict[str, Outcome] = {}
        for game in sorted(games):
            for one in won_and_lost(_levels(later, game), _levels(earlier, game)):
                before = total.get(one.split, Outcome(one.split, 0, 0, 0, 0))
                sums = (x + y for x, y in zip(before[1:], one[1:], strict=True))
                total[one.split] = Outcome(one.split, *sums)
        pair = f"{later.label} over {earlier.label}"
        found += [(pair, one) for one in total.values() if sum(one[1:])]
    return found


def _levels(variant: Variant, game: str) -> dict[Level, float]:
    return level_returns(_episodes(variant, game))


def _episodes(variant: Variant, game: str) -> Iterator[Played]:
    for seed in variant.seeds(game):
        yield from variant.finished[game, seed].episodes


NOT_RECORDED = (
    "Nothing is said of single levels: these runs have not recorded on which levels their "
    "episodes were (episodes.jsonl)."
)


def recorded(comparison: Comparison) -> bool:
    """Whether any run has kept its episodes."""
    runs = (run for v in comparison.variants for run in (v.finished | v.partial).values())
    return any(run.episodes or run.first_frames for run in runs)


def level_blocks(comparison: Comparison, found: Sequence[tuple[str, Outcome]]) -> list[Block]:
    runs = [run for variant in comparison.judged for run in variant.finished.values()]
    silent = [str(run.path) for run in runs if not run.episodes]
    blocks: list[Block] = []
    if silent:
        blocks.append(Text("These runs have no episodes.jsonl, and no part in what follows:"))
        blocks.append(Items(silent))
    if found:
        rows = [[pair, *map(str, one)] for pair, one in found]
        head = ["pair", "levels", "won", "tied", "lost", "not comparable"]
        caption = (
            "Levels on which the first variant's mean return is above, equal to and below the "
            "second's, all seeds and games together; not comparable: played by one of them only, "
            "or NaN. Returns by level are in levels.csv."
        )
        blocks.append(Table(caption, head, rows))
    elif len(comparison.judged) > 1:
        blocks.append(Text("No level was played by two variants."))
    return blocks


def level_rows(comparison: Comparison) -> Iterator[list[str]]:
    """The rows of levels.csv, but for the task."""
    for variant in comparison.judged:
        for game in variant.games:
            for (split, level), score in _levels(variant, game).items():
                yield [
                    str(comparison.budget),
                    variant.label,
                    game,
                    split,
                    str(level),
                    f"{score:.6g}",
                ]


def audit_blocks(comparison: Comparison) -> list[Block]:
    """Repeated levels by game; runs that stack frames are audited apart."""
    groups: dict[tuple[str, int], list[RunData]] = {}
    for variant in comparison.variants:
        for (game, _), run in {**variant.finished, **variant.partial}.items():
            if run.first_frames:
                groups.setdefault((game, run.config.get("frame_stack", 1)), []).append(run)
    if not groups:
        return [Text("No level audit: no run has recorded the first frames of its levels.")]
    rows, split = [], []
    for (game, stack), runs in sorted(groups.items()):
        found = audit(gather_frames(runs), comparison.levels)
        share = len(found.repeats) / found.held_out if found.held_out else math.nan
        name = game if stack == 1 else f"{game}, {stack} frames stacked"
        trained = comparison.train_levels
        seen = f"{found.seen} of {trained}" if trained else str(found.seen)
        repeated = f"{len(found.repeats)} ({share:.1%})" if found.held_out else NONE
        rows.append([name, seen, str(found.held_out), repeated, *map(str, found[3:])])
        split += _by_repeat(comparison, game, set(found.repeats))
    held_out = comparison.levels
    one = "an unseen one" if held_out == "unseen" else f"a {held_out} one"
    head = [
        "game", "seen levels played", f"{held_out} levels played",
        f"{held_out} that repeat a seen one", f"{held_out} that repeat {one}",
        "numbers in both", "levels with two first frames",
    ]  # fmt: skip
    blocks: list[Block] = [Table("Level audit by first frames.", head, rows), Text(AUDIT_LIMIT)]
    if split:
        head = ["variant", "game", f"{returns_on(held_out)}, repeated levels", "other levels"]
        blocks.append(Table("Does repetition help? Mean return (episodes).", head, split))
    return blocks


def _by_repeat(comparison: Comparison, game: str, repeated: set[int]) -> list[list[str]]:
    rows = []
    for variant in comparison.judged if repeated else []:
        judged = [e for e in _episodes(variant, game) if e.split == comparison.levels]
        parts: tuple[list[float], list[float]] = ([], [])
        for episode in judged:
            parts[episode.level not in repeated].append(episode.score)
        if judged:
            shown = (f"{number(float(np.mean(p)))} ({len(p)})" if p else NONE for p in parts)
            rows.append([variant.label, game, *shown])
    return rows
