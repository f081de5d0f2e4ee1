"""The paired statistic against closed forms, hand calculations and enumeration."""

import itertools
import math

import numpy as np
import pytest

from crosstraj.report import permutation
from crosstraj.report.permutation import Verdict, in_words, is_shown, pair, sign_flip, verdict
from crosstraj.report.statistics import Estimate

NAN = float("nan")


def test_the_gain_is_a_share_of_what_the_baseline_has_above_random_play() -> None:
    """By hand. a: baseline's mean 4, random 2, so gains (5 - 3) / 2 and (4 - 5) / 2; b: 10 - 0."""
    baseline = {"a": {0: 3.0, 1: 5.0}, "b": {0: 8.0, 1: 12.0}}
    ours = {"a": {0: 5.0, 1: 4.0}, "b": {1: 12.0, 0: 9.0}}
    pairs = pair(ours, baseline, {"a": 2.0, "b": 0.0})
    assert (pairs.games, pairs.seeds, pairs.left_out) == (["a", "b"], [0, 1], {})
    np.testing.assert_allclose(pairs.gain, [[1.0, 0.1], [-0.5, 0.0]])
    found = verdict(ours, baseline, {"a": 2.0, "b": 0.0})
    assert found.gain.value == pytest.approx(0.15)
    assert found.by_game == {"a": pytest.approx(0.25), "b": pytest.approx(0.05)}
    assert found.pairs == 4


def test_only_seeds_that_all_games_have_of_both_are_paired_and_the_rest_is_named() -> None:
    baseline = {
        "a": {0: 1.0, 1: 2.0, 2: 3.0},
        "b": {0: 4.0, 1: NAN, 2: 6.0},
        "lost": {0: 1.0, 2: 1.0},
        "unmeasured": {0: 1.0, 2: 1.0},
        "not begun": {0: 1.0},
    }
    ours = {"a": {0: 1.0, 1: 2.0, 2: 3.0, 3: 9.0}, "b": {0: 4.0, 1: 5.0, 2: 6.0}}
    ours |= {"lost": {0: 1.0, 2: 1.0}, "unmeasured": {0: 1.0, 2: 1.0}}
    pairs = pair(ours, baseline, {"a": 0.0, "b": 0.0, "lost": 1.0, "not begun": 0.0})
    assert (pairs.games, pairs.seeds) == (["a", "b"], [0, 2])
    assert (pairs.gain == 0).all()
    assert pairs.left_out == {
        "unmeasured": "random play is not measured",
        "not begun": "no seed is finished by both",
        "lost": "the baseline is not above random play",
    }
    assert verdict({}, baseline, {"a": 0.0}).pairs == 0
    apart = pair({"a": {0: 1.0}, "b": {1: 1.0}}, {"a": {0: 1.0}, "b": {1: 1.0}}, {"a": 0, "b": 0})
    assert (apart.games, apart.seeds, apart.gain.size) == ([], [], 0)


@pytest.mark.parametrize("count", [1, 2, 5, 15])
def test_equal_gains_are_as_extreme_only_with_all_signs_alike(count: int) -> None:
    assert sign_flip(np.full((count, 1), 0.3)) == 2 / 2**count
    assert sign_flip(np.full((count, 1), -0.3)) == 2 / 2**count


def test_p_is_the_share_of_patterns_at_least_as_far_from_zero() -> None:
    """Of 1, 2, 4 with signs the sums are +-7, +-5, +-3, +-1, each once."""
    assert sign_flip(np.array([[1.0, 2.0, 4.0]])) == 2 / 8
    assert sign_flip(np.array([[-1.0, 2.0, 4.0]])) == 4 / 8
    assert sign_flip(np.array([[-1.0], [-2.0], [4.0]])) == 8 / 8
    assert sign_flip(np.array([[0.1, -0.1], [0.2, -0.2]])) == 1.0  # the mean is 0, as far as can be
    assert sign_flip(np.zeros((3, 2))) == 1.0


def test_rounding_does_not_hide_a_pattern_that_is_as_far() -> None:
    """0.1 + 0.2 + 0.3 and the other way round differ in their last bit."""
    gain = np.array([[0.1, 0.2, 0.3, 1e-17, 0.7]])
    assert sign_flip(gain) == sign_flip(gain[:, ::-1]) == 4 / 32  # the sign of 1e-17 is free


def test_a_sample_of_the_patterns_agrees_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    gain = np.random.default_rng(0).normal(0.25, 1.0, (4, 3))
    exact = sign_flip(gain)
    monkeypatch.setattr(permutation, "EXACT", 2**11)  # fewer than the 2^12 that there are
    drawn = sign_flip(gain)
    assert drawn != exact
    assert drawn == sign_flip(gain)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2**11))
    monkeypatch.undo()
    assert sign_flip(np.ones((4, 5))) == pytest.approx(1 / (1 + 2**15), abs=2e-4)  # never 0
    assert sign_flip(np.ones((4, 5))) > 0


def test_the_interval_is_that_of_all_resamples_of_seeds_within_each_game() -> None:
    """Two games, three seeds: 27 x 27 equally likely resamples; pairs stay together."""
    baseline = {"a": {0: 9.0, 1: 10.0, 2: 11.0}, "b": {0: 9.0, 1: 10.0, 2: 11.0}}
    gains = {"a": (0.0, 1.0, 5.0), "b": (-2.0, 0.0, 1.0)}
    ours = {g: {s: baseline[g][s] + 10 * gains[g][s] for s in range(3)} for g in baseline}
    found = verdict(ours, baseline, {"a": 0.0, "b": 0.0})
    means = {
        game: [np.mean(row) for row in itertools.product(values, repeat=3)]
        for game, values in gains.items()
    }
    all_of_them = [(x + y) / 2 for x in means["a"] for y in means["b"]]
    low, high = np.quantile(all_of_them, [0.025, 0.975])
    step = 1 / 6 + 1e-9  # between two possible means: a sample may end one further in
    assert found.gain.value == pytest.approx(np.mean([0, 1, 5, -2, 0, 1]))
    assert abs(found.gain.low - low) <= step
    assert abs(found.gain.high - high) <= step


def test_words_say_what_is_shown_or_excluded_and_never_that_there_is_no_gain() -> None:
    def words(value: float, low: float, high: float, p: float) -> str:
        found = Verdict(Estimate(value, low, high), p, {}, 15, {})
        assert is_shown(found) == ("is shown." in in_words("x", "ppo", found))
        return in_words("x", "ppo", found)

    assert words(0.1, 0.05, 0.2, 0.01) == (
        "x over ppo: +10.0 % (95 % interval +5.0 % to +20.0 %, p = 0.01, 15 pairs): "
        "a gain is shown."
    )
    assert words(-0.1, -0.2, -0.05, 0.01).endswith(": a loss is shown.")
    excluded = ": no gain is shown; a gain above 7.3 % is excluded at 95 % at this budget."
    assert words(0.01, -0.05, 0.0734, 0.5).endswith(excluded)
    assert words(0.05, 0.01, 0.0734, 0.06).endswith(excluded)  # the interval alone does not do
    assert words(-0.1, -0.2, -0.01, 0.06).endswith("any gain is excluded at 95 % at this budget.")
    one = Verdict(Estimate(0.1), 1.0, {}, 1, {})
    assert in_words("x", "ppo", one).endswith("nothing is shown and nothing excluded.")
    none = Verdict(Estimate(NAN), NAN, {}, 0, {})
    assert "nothing can be said" in in_words("x", "ppo", none)
