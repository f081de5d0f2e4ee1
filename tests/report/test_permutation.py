"""The paired statistic against closed forms, hand calculations and enumeration."""

import itertools
import math

import numpy as np
import pytest

from crosstraj.report import permutation
from crosstraj.report.permutation import (
    Verdict,
    in_words,
    is_shown,
    not_rejected,
    pair,
    sign_flip,
    verdict,
)
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


def test_the_limits_are_where_the_test_begins_to_reject() -> None:
    """Tried by the test itself: every d from far below to far above the gains."""
    rng = np.random.default_rng(0)
    for level in (0.05, 0.045, 0.2):
        gain = rng.normal(0.1, 1.0, (3, 3)) * (1, 2, 4)
        low, high = not_rejected(gain, level)
        step = (high - low) / 100
        for d in np.arange(low - 20 * step, high + 20 * step, step) + step / 2:
            assert (sign_flip(gain - d) > level) == (low <= d <= high)
        assert sign_flip(gain - low) > level
        assert sign_flip(gain - high) > level


def test_the_limits_of_a_few_pairs_by_hand() -> None:
    """Of 0, 1, 5 three flips and their mirror images lie apart: {0 | 3}, {1 | 2.5}, {5 | 0.5}."""
    gain = np.array([[0.0], [1.0], [5.0]])
    assert not_rejected(gain, 0.25) == (0.0, 5.0)
    assert not_rejected(gain, 0.5) == (0.5, 3.0)
    assert not_rejected(gain, 0.75) == (1.0, 2.5)
    assert not_rejected(gain, 0.2) == (-math.inf, math.inf)  # 2 of 8 patterns are always as far
    found = verdict(
        {"a": {0: 1.5, 1: 1.5}, "b": {0: 1.5, 1: 1.5}},
        {"a": {0: 1.0, 1: 1.0}, "b": {0: 1.0, 1: 1.0}},
        {"a": 0.0, "b": 0.0},
    )
    assert in_words("x", "ppo", found).endswith(
        "so few pairs can show nothing and exclude nothing."
    )


def test_the_limits_of_drawn_patterns_are_near_those_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gain = np.random.default_rng(0).normal(0.25, 1.0, (4, 3))
    exact = not_rejected(gain)
    monkeypatch.setattr(permutation, "EXACT", 2**11)
    assert not_rejected(gain) == pytest.approx(exact, abs=0.15)
    low, high = not_rejected(gain)
    assert sign_flip(gain - low) > 0.05 >= sign_flip(gain - low + 1e-3)
    assert sign_flip(gain - high) > 0.05 >= sign_flip(gain - high - 1e-3)


def drawn(rng: np.random.Generator, seeds: int, gains: str) -> permutation.Matrix:
    """Gains of three games around zero, in the mean over games."""
    noise = rng.normal(0, 1, (seeds, 3))
    match gains:
        case "alike":
            return noise
        case "one game noisier":
            return noise * (1, 1, 10)
        case "each game noisier":
            return noise * (1, 2, 4)
        case "another gain in each game":
            return noise + np.array([-1, 0, 1])
        case "skew":
            return rng.exponential(1.0, (seeds, 3)) - 1
    raise AssertionError(gains)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize(
    ("gains", "least"),
    [
        ("alike", 0.93),
        ("one game noisier", 0.93),
        ("each game noisier", 0.93),
        ("another gain in each game", 0.96),
        ("skew", 0.88),  # what is assumed does not hold
    ],
)
def test_the_true_gain_is_within_the_limits_as_often_as_said(
    gains: str, least: float, seeds: int
) -> None:
    """And outside of the bootstrap's interval far too often, so that nothing is decided by it."""
    rng = np.random.default_rng(0)
    runs = 1000 if seeds == 3 else 300
    held = bootstrapped = 0
    for _ in range(runs):
        gain = drawn(rng, seeds, gains)
        low, high = not_rejected(gain)
        held += low <= 0 <= high
        again = gain[rng.integers(0, seeds, (500, seeds, 3)), np.arange(3)].mean((1, 2))
        bootstrapped += np.quantile(again, 0.025) <= 0 <= np.quantile(again, 0.975)
    assert held / runs >= least
    assert bootstrapped / runs < 0.91


def test_one_seed_shows_nothing_in_however_many_games() -> None:
    """Six pairs of one sign have p = 2 / 64, but say nothing of what another seed would do."""
    games = "abcdef"
    baseline = {game: {0: 1.0} for game in games}
    ours = {game: {0: 1.0 + 0.1 * index} for index, game in enumerate(games, 1)}
    found = verdict(ours, baseline, dict.fromkeys(games, 0.0))
    assert found.p == 2 / 64
    assert not is_shown(found)
    assert in_words("x", "ppo", found) == (
        "x over ppo: +35.0 %; one seed has no interval, so nothing is shown and nothing excluded."
    )


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
    def words(value: float, low: float, high: float, p: float, level: float = 0.05) -> str:
        found = Verdict(Estimate(value, 0.01, 0.02), p, level, low, high, {}, 15, {})
        assert is_shown(found) == ("is shown." in in_words("x", "ppo", found))
        return in_words("x", "ppo", found)

    assert words(0.1, 0.05, 0.2, 0.01) == (
        "x over ppo: +10.0 % (95 % interval +5.0 % to +20.0 %, p = 0.01, 15 pairs): "
        "a gain is shown."
    )
    assert words(-0.1, -0.2, -0.05, 0.01).endswith(": a loss is shown.")
    excluded = ": no gain is shown; a gain above 7.3 % is excluded at 95 % at this budget."
    assert words(0.01, -0.05, 0.0734, 0.5).endswith(excluded)  # whatever the bootstrap says
    assert words(0.05, -0.001, 0.0734, 0.047, 0.045).endswith(
        "is excluded at 95.5 % at this budget."
    )
    one = Verdict(Estimate(0.1), 1.0, 0.05, NAN, NAN, {}, 1, {})
    assert in_words("x", "ppo", one).endswith("nothing is shown and nothing excluded.")
    none = Verdict(Estimate(NAN), NAN, 0.05, NAN, NAN, {}, 0, {})
    assert "nothing can be said" in in_words("x", "ppo", none)
