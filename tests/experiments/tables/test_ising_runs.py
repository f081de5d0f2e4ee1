"""The rule that reads the number of models from silhouettes, on numbers with a known answer."""

import math

import pytest

from crosstraj.experiments.tables.ising import sentences
from crosstraj.experiments.tables.ising_runs import PAPER, answers, changes, largest_change
from tests.experiments.tables.ising_rows import rows


def test_the_rule_finds_the_papers_five_in_the_papers_numbers() -> None:
    silhouettes = {e: silhouette for e, (_, silhouette) in PAPER.items()}
    change = changes(silhouettes)
    assert change[5] == pytest.approx(0.145)
    assert change[4] == pytest.approx(0.079 / 2, abs=1e-9)  # two clusters at once
    assert change[50] == pytest.approx(0.515 / 44)
    assert 2 not in change
    assert max(change, key=lambda e: change[e]) == 5


def test_a_change_counts_whichever_way_it_goes_and_every_number_is_needed() -> None:
    flat = dict.fromkeys(range(2, 9), 0.5)
    assert largest_change(flat | {6: 0.9, 7: 0.8, 8: 0.7}) == 6
    assert largest_change(flat | {8: 0.1}) == 8
    assert largest_change(flat | {50: -1.0}) == 3  # a tie: the first
    assert largest_change({e: s for e, s in flat.items() if e != 4}) is None
    assert largest_change(flat | {4: math.nan}) is None


def test_the_rule_is_applied_to_every_seed_on_its_own() -> None:
    assert answers(rows()) == {0: 5, 1: 3}
    partly = [r for r in rows() if r.seed == 0 or r.clusters != 7]
    assert answers(partly) == {0: 5}
    assert "In 1 of 2 seeds; it is at E = 5 (seed 0), 3 (seed 1)" in sentences(
        rows(), answers(rows())
    )
    assert "no answer" in sentences([], {})
