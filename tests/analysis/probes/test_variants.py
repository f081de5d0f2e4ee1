"""Variants of several seeds against untrained encoders and a baseline, by one expert."""

from pathlib import Path

import numpy as np
import pytest

from crosstraj.analysis.probes.judge import Pair
from crosstraj.analysis.probes.variants import UNTRAINED, Entry, Line, lines, with_untrained
from crosstraj.report.statistics import Estimate

RESAMPLED = np.array([0.0, -0.1, 0.1])  # what two resamples add


def pair(share: float, noise: np.ndarray = RESAMPLED) -> Pair:
    return Pair(share + noise, share / 2 + noise)


def test_each_seed_is_held_against_its_own_untrained_encoder_and_baseline():
    found = {
        (UNTRAINED, 0): pair(0.1),
        (UNTRAINED, 1): pair(0.3),
        ("ppo", 0): pair(0.2),
        ("ppo", 1): pair(0.4),
        ("ours", 0): pair(0.7),
        ("ours", 1): pair(0.5),
        ("half", 1): pair(0.6),
        ("alone", 2): pair(0.9),  # the baseline has no such seed
    }
    table = {line.variant: line for line in lines(found, "ppo", 5)}
    assert list(table) == [UNTRAINED, "ppo", "ours", "half"]
    assert table["ours"].seeds == [0, 1]
    assert table["half"].seeds == [1]
    assert table["ours"].share.value == pytest.approx(0.6)
    assert table["ours"].share_over_untrained.value == pytest.approx((0.6 + 0.2) / 2)
    assert table["ours"].share_over_baseline.value == pytest.approx((0.5 + 0.1) / 2)
    assert table["half"].share_over_baseline.value == pytest.approx(0.2)
    assert table["half"].auc_over_untrained.value == pytest.approx(0.15)
    assert table["ppo"].share_over_baseline == pytest.approx((0, 0, 0))
    assert table[UNTRAINED].share_over_untrained == pytest.approx((0, 0, 0))
    # On the same resamples the noise of both cancels, so a difference has no width.
    low, high = table["ours"].share_over_baseline[1:]
    assert (low, high) == pytest.approx((0.3, 0.3))
    assert table["ours"].share.low < 0.55


@pytest.mark.parametrize(
    ("untrained", "baseline", "passes"),
    [(0.01, 0.01, True), (-0.01, 0.01, False), (0.01, -0.01, False), (0.01, np.nan, False)],
)
def test_a_variant_passes_where_both_intervals_lie_above_zero(
    untrained: float, baseline: float, passes: bool
) -> None:
    both = (Estimate(0.5, low, 1) for low in (untrained, baseline))
    assert Line("ours", [0], Estimate(1), *both, *[Estimate(1)] * 3).passes is passes


def test_untrained_encoders_are_the_baselines_and_seeds_without_it_wait() -> None:
    known = [("ours", 0, "a"), ("ppo", 1, "b"), ("ppo", 0, "c"), ("ours", 2, "d")]
    runs = [Entry(variant, seed, Path(run), 9) for variant, seed, run in known]
    found = with_untrained(runs, "ppo")
    starts = [Entry(UNTRAINED, 1, Path("b"), 0), Entry(UNTRAINED, 0, Path("c"), 0)]
    assert found == [*starts, *runs[:3]]


def test_a_seed_whose_untrained_encoder_is_missing_is_in_no_line() -> None:
    found = {(UNTRAINED, 0): pair(0.1), ("ppo", 0): pair(0.2), ("ppo", 1): pair(0.3)}
    assert [line.seeds for line in lines(found, "ppo", 5)] == [[0], [0]]
