"""The paper's split table, for methods that were run with split and with joint updates."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np

from crosstraj.health.glossary import returns_on
from crosstraj.report.cells import NONE, number, with_interval
from crosstraj.report.comparison import EQUAL_SEEDS, Comparison, Variant, balanced
from crosstraj.report.document import Block, Items, Table, Text
from crosstraj.report.labels import variant_of
from crosstraj.report.published import SPLIT_OVER_JOINT
from crosstraj.report.split_gains import CENTRES, Improvements, split_over_joint


def split_blocks(comparison: Comparison) -> list[Block]:
    """A table for each pair of variants, split and joint, on the games that both have."""
    blocks: list[Block] = []
    for split, joint in _split_pairs(comparison.judged):
        games = sorted(set(split.games) & set(joint.games))
        if not games:
            continue
        (ours, left), (theirs, more) = balanced(split, games), balanced(joint, games)
        easy = comparison.normalisable(games) == games
        paper = SPLIT_OVER_JOINT.get(split.config["method"], {})
        caption = (
            f"Split ({split.label}) over joint ({joint.label}) updates of the encoder, "
            f"{returns_on(comparison.levels)} after {comparison.budget:,} frames: (split - joint) "
            "/ |joint|, and the difference in units of the game's range. Paper: its table over "
            "16 games."
        )
        head = ["game", "(split - joint) / |joint|", "difference / range", "paper"]
        blocks.append(Table(caption, head, _rows(split_over_joint(ours, theirs, easy=easy), paper)))
        if left or more:
            blocks += [Text(EQUAL_SEEDS), Items(left + more)]
    return blocks


def _rows(found: Improvements, paper: Mapping[str, float]) -> list[list[str]]:
    """A row per game, then one per centre over games."""
    rows = []
    for game, (ratio, ranged) in found.games.items():
        theirs = number(paper[game], "+.2f") if game in paper else NONE
        rows.append([game, number(ratio, "+.2f"), number(ranged, "+.3f"), theirs])
    for name, centre in CENTRES.items():
        theirs = number(float(centre(np.array([*paper.values()]))), "+.2f") if paper else NONE
        ours = with_interval(found.ratio[name], "+.2f")
        rows.append([name, ours, with_interval(found.ranged[name], "+.3f"), theirs])
    return rows


def _split_pairs(judged: Sequence[Variant]) -> Iterator[tuple[Variant, Variant]]:
    """Variants that differ only in who trains the encoder: the objective alone, or both."""

    def rest(variant: Variant) -> str:
        return variant_of(variant.config, "encoder_grad", "order")

    for split, joint in permutations(judged, 2):
        routes = split.config.get("encoder_grad"), joint.config.get("encoder_grad")
        if routes == ("ssl", "both") and rest(split) == rest(joint):
            yield split, joint
