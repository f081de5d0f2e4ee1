"""The most important figures first, in a sentence or two; and one run as one table."""

import math

from crosstraj.learning.evaluation import normalised
from crosstraj.report.cells import NONE, RANDOM_PLAY, number
from crosstraj.report.comparison import Comparison, Variant
from crosstraj.report.document import Block, Table, Text
from crosstraj.report.reading import Evaluation
from crosstraj.report.sections.aggregates import Aggregates
from crosstraj.report.sections.returns import NO_RANGE, about_paper, published
from crosstraj.report.statistics import Estimate

AGGREGATE = "IQM"
NO_SHARED_GAME = (
    "No single figure sums these runs up, because no game with a known range was finished by every "
    "variant. Returns by game are in the tables."
)


def headline(comparison: Comparison, found: Aggregates | None) -> list[Block]:
    """What came out, and how far it can be trusted."""
    if not comparison.judged:
        return [Text("No run has reached its budget yet, so there is nothing to judge.")]
    if comparison.finished_runs == 1:
        return [Text(_one(comparison))]
    if found is None:
        return [Text(NO_SHARED_GAME)]
    said = [_estimate(label, row) for label, row in found.with_random.items()]
    games = f"{len(found.games)} games" if len(found.games) > 1 else found.games[0]
    text = (
        f"Normalised return on {comparison.levels} levels of {games} after {comparison.budget:,} "
        f"frames ({AGGREGATE} over games and seeds): {'; '.join(said)}. {_verdict(found)}"
    )
    return [Text(text)]


def _estimate(label: str, row: dict[str, Estimate]) -> str:
    value, low, high = row[AGGREGATE]
    interval = "" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]"
    return f"{label} {number(value, '.3f')}{interval}"


def _verdict(found: Aggregates) -> str:
    """Whether the best stands apart from all others."""
    rows = sorted((row[AGGREGATE] for row in found.found.values()), key=lambda e: -e.value)
    if len(rows) < 2:
        return "There is nothing to compare it with."
    if any(math.isnan(row.low) for row in rows):
        return "With one seed of a variant there is no interval, and no ranking."
    best = max(found.found, key=lambda label: found.found[label][AGGREGATE].value)
    if rows[0].low > max(row.high for row in rows[1:]):
        return f"The interval of {best} is above those of all others."
    return "The intervals of the best overlap: these runs do not show which is better."


def the_run(comparison: Comparison) -> tuple[Variant, str, Evaluation]:
    """The variant, game and last evaluation of the only run."""
    (variant,) = comparison.judged
    (game,) = variant.games
    (final,) = variant.finals(game)
    return variant, game, final


def _one(comparison: Comparison) -> str:
    variant, game, final = the_run(comparison)
    chance = comparison.random(game)
    random = f"; random play has {chance:.2f}" if math.isfinite(chance) else ""
    return (
        f"{variant.config['method']} on {game} after {comparison.budget:,} frames: "
        f"{number(final.held_out)} on {comparison.levels} levels, {number(final.seen)} on seen "
        f"ones{random}. One seed is no ranking."
    )


def one_run(comparison: Comparison) -> list[Block]:
    """Everything that the tables of a comparison say, for a single run."""
    variant, game, final = the_run(comparison)
    easy = bool(comparison.normalisable([game]))
    theirs = [entry for _, beside in published(comparison) for entry in beside]
    held_out = comparison.levels

    def row(name: str, value: float, chance: float, *, judged: bool) -> list[str]:
        scaled = number(normalised(game, value), ".3f") if easy and judged else NONE
        known = [entry.column.get(game) if name == held_out else None for entry in theirs]
        return [
            *(name, number(value), number(chance, absent=NONE), scaled),
            *(NONE if one is None else number(one.mean) for one in known),
        ]

    rows = [
        row(held_out, final.held_out, comparison.random(game), judged=True),
        row("seen", final.seen, comparison.random(game, "seen"), judged=True),
        row("seen minus " + held_out, final.seen - final.held_out, math.nan, judged=False),
    ]
    head = ["levels", "return", RANDOM_PLAY, "normalised", *(entry.name for entry in theirs)]
    changed = ", ".join(f"{name}={value}" for name, value in variant.changed.items())
    values = f"{variant.config['method']}, preset {variant.config['preset']}"
    caption = (
        f"Raw return on {held_out} levels and on seen ones of {values}"
        f"{', with ' if changed else ''}{changed}, seed {variant.seeds(game)[0]}, after "
        f"{comparison.budget:,} frames."
    )
    if any(entry.name.endswith("paper") for entry in theirs):
        caption += f" {about_paper(comparison)}"
    blocks: list[Block] = [Table(caption, head, rows)]
    return blocks if easy else [*blocks, Text(NO_RANGE)]
