"""Statistics of a report beside values known by construction, scipy's and rliable's own."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from rliable import library, metrics
from scipy import stats

from crosstraj.report import statistics
from crosstraj.report.split_gains import split_over_joint
from crosstraj.report.statistics import (
    Estimate,
    Scores,
    aggregate,
    finite_spread,
    matrix,
    mean_difference,
    probability_of_improvement,
    profile,
    spread,
)


def drawn(seed: int, games: int, seeds: int, spread: float = 0.1) -> dict[str, list[float]]:
    """Scores around a level of each game's own."""
    rng = np.random.default_rng(seed)
    return {
        f"game {index:02}": rng.normal(rng.uniform(0, 1), spread, seeds).tolist()
        for index in range(games)
    }


def by_scipy(statistic: Callable[..., float], samples: list[list[float]]) -> tuple[float, float]:
    """Each sample resampled by itself: games are strata."""
    interval = stats.bootstrap(
        samples,
        lambda *resampled: statistic(*resampled),
        vectorized=False,
        paired=False,
        n_resamples=4000,
        method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval
    return float(interval.low), float(interval.high)


# --- Aggregates


def test_mean_and_deviation_are_those_of_a_sample() -> None:
    assert spread([1.0, 3.0]) == (2.0, pytest.approx(math.sqrt(2)), 2)
    assert spread([4.0]) == (4.0, None, 1)
    assert spread([]).seeds == 0


def test_a_value_that_is_not_finite_shows_or_is_left_out() -> None:
    """Reports name it and show NaN; tables of experiments leave it out and count the others."""
    nan, inf = math.nan, math.inf
    for values in ([1.0, nan], [nan, nan], [inf, -inf], [1.0, inf]):
        mean, deviation, seeds = spread(values)
        assert not math.isfinite(mean)
        assert deviation is not None
        assert math.isnan(deviation)
        assert seeds == 2
    assert spread([nan])[1:] == (None, 1)
    assert finite_spread([2.0, nan, inf]) == (2.0, None, 1)
    assert finite_spread([nan]).seeds == 0


def test_aggregates_by_hand() -> None:
    found = aggregate({"a": [0.0, 1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0, 12.0]})
    assert found["IQM"].value == 3.5  # of 2, 3, 4, 5: neither 0 nor 12
    assert found["mean"].value == pytest.approx((1.5 + 6.75) / 2)
    assert found["median"].value == pytest.approx((1.5 + 6.75) / 2)  # of two games
    assert found["optimality gap"].value == pytest.approx(1 - 7 / 8)


@pytest.mark.parametrize(("seed", "games", "seeds"), [(0, 3, 5), (1, 8, 3), (2, 1, 10)])
def test_the_interval_of_the_iqm_is_that_of_scipys_stratified_bootstrap(
    seed: int, games: int, seeds: int
) -> None:
    scores = drawn(seed, games, seeds)
    found = aggregate(scores)["IQM"]

    def iqm(*samples: list[float]) -> float:
        return float(stats.trim_mean(np.concatenate(samples), 0.25))

    low, high = by_scipy(iqm, list(scores.values()))
    assert found.value == pytest.approx(iqm(*scores.values()))
    assert found.low == pytest.approx(low, abs=0.06 * (high - low))
    assert found.high == pytest.approx(high, abs=0.06 * (high - low))
    assert low < found.value < high


def test_seeds_are_drawn_within_games_never_across() -> None:
    """Games far apart, equal seeds: nothing varies but the game, so the interval has no width."""
    for entry in aggregate({"a": [0.1] * 5, "b": [0.9] * 5}).values():
        assert entry.low == entry.value == entry.high


def test_games_with_unequal_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="equally many seeds"):
        matrix({"a": [1.0, 2.0], "b": [1.0]})
    with pytest.raises(ValueError, match="equally many seeds"):
        aggregate({"a": [], "b": []})
    assert matrix({"b": [3.0, 4.0], "a": [1.0, 2.0]}).tolist() == [[1.0, 3.0], [2.0, 4.0]]


@pytest.mark.parametrize("bad", [0, 3])
def test_a_nan_is_never_taken_for_a_score(bad: int) -> None:
    scores = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.5, 0.6, 0.7, 0.8]}
    scores["b"][bad] = math.nan
    whole = drawn(0, 2, 4)
    assert all(math.isnan(x) for entry in aggregate(scores).values() for x in entry)
    assert all(math.isnan(x) for entry in profile(scores, [0.1, 0.9]) for x in entry)
    assert all(
        math.isnan(x) for x in probability_of_improvement(scores, {game: [1.0] for game in "ab"})
    )
    nan = split_over_joint(scores, dict(zip("ab", whole.values(), strict=True)), easy=True)
    assert all(math.isnan(x) for entry in nan.ratio.values() for x in entry)


def test_one_seed_has_a_value_and_no_interval() -> None:
    alone: Scores = {"a": [0.5], "b": [0.7]}
    assert aggregate(alone)["mean"].value == pytest.approx(0.6)
    found = [*aggregate(alone).values(), *profile(alone, [0.6])]
    found.append(probability_of_improvement(alone, {"a": [0.1, 0.2], "b": [0.1, 0.9]}))
    for entry in found:
        assert not math.isnan(entry.value)
        assert math.isnan(entry.low)
        assert math.isnan(entry.high)


def test_numpys_global_generator_is_neither_used_nor_left_changed() -> None:
    scores = drawn(3, 4, 4)
    np.random.seed(7)  # noqa: NPY002
    first = aggregate(scores)
    after = np.random.random(5).tolist()  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    assert np.random.random(5).tolist() == after  # noqa: NPY002
    assert aggregate(scores) == first  # whatever the generator's state


def test_the_generator_comes_back_when_a_statistic_fails() -> None:
    np.random.seed(7)  # noqa: NPY002
    before = np.random.random(3).tolist()  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    with pytest.raises(ZeroDivisionError), statistics._global_numpy(0):
        raise ZeroDivisionError
    assert np.random.random(3).tolist() == before  # noqa: NPY002


# --- Profiles and improvement


def test_a_profile_is_the_share_of_runs_above_each_threshold() -> None:
    scores = {"a": [0.0, 0.2], "b": [0.4, 0.6]}
    found = [entry.value for entry in profile(scores, [-1.0, 0.0, 0.3, 0.6])]
    assert found == [1.0, 0.75, 0.5, 0.0]  # above, not at
    taus = np.linspace(-0.2, 1.2, 17)
    many = drawn(5, 6, 4)
    expected = library.score_distributions(matrix(many), taus)
    assert [entry.value for entry in profile(many, taus.tolist())] == pytest.approx(expected)


def test_probability_of_improvement_by_hand() -> None:
    ours, theirs = {"a": [2.0, 4.0]}, {"a": [1.0, 3.0]}  # 2 beats 1; 4 beats both: 3 of 4
    assert probability_of_improvement(ours, theirs).value == 0.75
    assert probability_of_improvement(theirs, ours).value == 0.25
    assert probability_of_improvement(ours, ours).value == 0.5
    ties = probability_of_improvement({"a": [1.0], "b": [5.0]}, {"a": [1.0], "b": [9.0]})
    assert ties.value == 0.25  # a half on a, nothing on b
    sure = probability_of_improvement({"a": [5.0, 6.0]}, {"a": [1.0, 2.0, 3.0]})
    assert sure == Estimate(1.0, 1.0, 1.0)


def test_probability_of_improvement_is_rliables_with_scipys_interval() -> None:
    ours, theirs = drawn(1, 3, 6, 0.3), drawn(1, 3, 4, 0.3)
    theirs["game 01"][0] = ours["game 01"][2]  # a tie
    found = probability_of_improvement(ours, theirs)
    expected = metrics.probability_of_improvement(matrix(ours), matrix(theirs))
    assert found.value == pytest.approx(expected)

    def wins(*samples: list[float]) -> float:
        pairs = zip(samples[:3], samples[3:], strict=True)
        return float(np.mean([_u(x, y) for x, y in pairs]))

    low, high = by_scipy(wins, [*ours.values(), *theirs.values()])
    assert found.low == pytest.approx(low, abs=0.06 * (high - low))
    assert found.high == pytest.approx(high, abs=0.06 * (high - low))


def _u(x: list[float], y: list[float]) -> float:
    return float(np.mean([(a > b) + 0.5 * (a == b) for a in x for b in y]))


def test_probability_of_improvement_needs_the_same_games() -> None:
    with pytest.raises(ValueError, match="same games"):
        probability_of_improvement({"a": [1.0]}, {"b": [1.0]})


def test_the_mean_difference_is_welchs_for_one_game_and_averages_games() -> None:
    ours, theirs = [1.0, 2.5, 4.0], [0.5, 0.7]
    found = mean_difference({"a": ours}, {"a": theirs})
    expected = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert found == pytest.approx((2.5 - 0.6, expected.low, expected.high))
    twice = mean_difference({"a": ours, "b": ours}, {"a": theirs, "b": theirs})
    assert twice.value == pytest.approx(found.value)
    # Half the variance, twice the degrees of freedom.
    variance, freedom = 2.25 / 3 + 0.02 / 2, (2.25 / 3 + 0.02 / 2) ** 2 / (0.75**2 / 2 + 0.01**2)
    reach = stats.t.ppf(0.975, 2 * freedom) * math.sqrt(variance / 2)
    assert twice.high - twice.value == pytest.approx(reach)
    one = mean_difference({"a": [1.0], "b": ours}, {"a": [3.0], "b": theirs})
    assert (one.value, math.isnan(one.low)) == (pytest.approx((-2 + 1.9) / 2), True)
    assert mean_difference({"a": [1.0, 1.0]}, {"a": [0.0, 0.0]}) == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="the same games"):
        mean_difference({"a": ours}, {"b": theirs})
