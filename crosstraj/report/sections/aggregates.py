"""Over games and seeds: IQM and its peers, and the probability of improvement."""

from itertools import combinations
from typing import NamedTuple

from crosstraj.health.glossary import returns_on
from crosstraj.report.cells import NONE, RANDOM_PLAY, with_interval
from crosstraj.report.comparison import (
    EQUAL_SEEDS,
    RANGES,
    Comparison,
    balanced,
    normalised_scores,
)
from crosstraj.report.document import Block, Items, Table, Text
from crosstraj.report.sections.returns import normalised_random_play
from crosstraj.report.statistics import (
    Estimate,
    Scores,
    aggregate,
    probability_of_improvement,
)


class Aggregates(NamedTuple):
    games: list[str]
    scores: dict[str, Scores]  # by variant: normalised, equally many seeds per game
    found: dict[str, dict[str, Estimate]]
    pairs: list[tuple[str, str, Estimate]]  # ours, theirs, P(ours beats theirs)
    left_out: list[str]
    random: Scores  # of random play: one per game; empty where a game's is not known

    @property
    def with_random(self) -> dict[str, dict[str, Estimate]]:
        """The variants, and last, where it is known for every game, random play."""
        return self.found | ({RANDOM_PLAY: aggregate(self.random)} if self.random else {})


def aggregates(comparison: Comparison) -> Aggregates | None:
    """Over the games that all variants share; none if there is no such game."""
    games = comparison.shared_games
    if not games:
        return None
    scores, left_out = {}, []
    for variant in comparison.judged:
        raw, left = balanced(variant, games)
        scores[variant.label] = normalised_scores(raw)
        left_out += left
    seeds = {label: len(next(iter(rows.values()))) for label, rows in scores.items()}
    pairs = [
        (later, earlier, probability_of_improvement(scores[later], scores[earlier]))
        for earlier, later in combinations(scores, 2)
        if min(seeds[later], seeds[earlier]) > 1  # of one seed it would be 0 or 1, by chance
    ]
    found = {label: aggregate(rows) for label, rows in scores.items()}
    random = {g: row for g, row in normalised_random_play(comparison).items() if g in games}
    complete = random if len(random) == len(games) else {}
    return Aggregates(games, scores, found, pairs, left_out, complete)


def aggregate_blocks(comparison: Comparison, all_of: Aggregates | None) -> list[Block]:
    if all_of is None:
        return [Text("No aggregates: no game with a known range was finished by every variant.")]
    if comparison.finished_runs < 2:
        return [Text("One run: there is nothing to aggregate, and one seed gives no interval.")]
    blocks: list[Block] = [
        Text(f"Games, played to the end by every variant: {', '.join(all_of.games)}.")
    ]
    unused = sorted(set(comparison.games) - set(all_of.games))
    if unused:
        blocks.append(
            Text(f"Not finished by every variant, or without a range: {', '.join(unused)}.")
        )
    if all_of.left_out:
        blocks.append(Text(EQUAL_SEEDS))
        blocks.append(Items(all_of.left_out))
    seeds = {label: len(next(iter(rows.values()))) for label, rows in all_of.scores.items()}
    rows = [
        [label, str(seeds.get(label, NONE)), *(with_interval(entry) for entry in row.values())]
        for label, row in all_of.with_random.items()
    ]
    head = ["variant", "seeds", *next(iter(all_of.found.values()))]
    caption = f"{returns_on(comparison.levels).capitalize()}, {RANGES}, with 95 % intervals."
    blocks.append(Table(caption, head, rows))
    if alone := [label for label, count in seeds.items() if count == 1]:
        blocks.append(Text(f"One seed gives no interval: {'; '.join(alone)}."))
    if all_of.pairs:
        pairs = [
            [f"{ours} over {theirs}", with_interval(estimate)]
            for ours, theirs, estimate in all_of.pairs
        ]
        caption = (
            "Probability that a run of the first beats one of the second on the same game (ties "
            "count half), mean over games, with 95 % intervals; pairs with at least two seeds each."
        )
        blocks.append(Table(caption, ["pair", "probability"], pairs))
    return blocks
