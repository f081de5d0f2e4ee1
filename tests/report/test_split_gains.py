"""What splitting gains, by hand and against the published column."""

import math

import pytest

from crosstraj.report.published import SPLIT_OVER_JOINT
from crosstraj.report.split_gains import Improvement, improvement, over_games, split_over_joint


def test_the_paper_s_own_column_has_these_statistics() -> None:
    """Table of split updates, SPR: bossfight's +10.36 makes the mean of +.74."""
    column = [0.15, 10.36, -0.02, -0.13, 0.14, 2.05, 0.12, -0.1, -0.03, 0.0]
    column += [0.08, -0.15, 0.03, -0.31, -0.18, -0.15]
    found = over_games([Improvement(x, -x) for x in column])
    assert found["mean"][0] == pytest.approx(0.74, abs=0.005)
    ordered = sorted(column)
    assert found["median"][0] == pytest.approx((ordered[7] + ordered[8]) / 2)
    assert found["IQM"][0] == pytest.approx(sum(ordered[4:12]) / 8)
    assert found["IQM"][1] == pytest.approx(-found["IQM"][0])


def test_the_split_statistic_by_hand() -> None:
    assert improvement("coinrun", split=8.0, joint=6.0, easy=True) == (pytest.approx(2 / 6), 0.4)
    assert (
        improvement("fruitbot", split=-1.0, joint=-2.0, easy=True).ratio == 0.5
    )  # better is above zero
    assert math.isnan(improvement("coinrun", split=1.0, joint=0.0, easy=True).ratio)
    assert math.isnan(improvement("chess", split=1.0, joint=2.0, easy=True).ranged)
    assert math.isnan(improvement("coinrun", split=8.0, joint=6.0, easy=False).ranged)
    found = split_over_joint(
        {"coinrun": [7.0, 9.0], "maze": [5.0, 5.0], "ninja": [2.0, 2.0], "heist": [9.0, 9.0]},
        {"coinrun": [6.0, 6.0], "maze": [5.0, 5.0], "ninja": [4.0, 4.0], "heist": [3.0, 3.0]},
        easy=True,
    )
    assert {game: entry.ratio for game, entry in found.games.items()} == {
        "coinrun": pytest.approx(1 / 3), "maze": 0.0, "ninja": -0.5, "heist": 2.0,
    }  # fmt: skip
    assert found.ratio["mean"].value == pytest.approx((1 / 3 - 0.5 + 2) / 4)
    assert found.ratio["median"].value == found.ratio["IQM"].value == pytest.approx(1 / 6)
    # Only coinrun's seeds differ: its mean is 7, 8 or 9, so the ratio's mean moves by 1/6 over 4.
    low, high = (found.ratio["mean"].value + step / 24 for step in (-1, 1))
    assert found.ratio["mean"][1:] == (pytest.approx(low), pytest.approx(high))
    assert found.ranged["mean"].value == pytest.approx((2 / 5 + 0 - 2 / 6.5 + 6 / 6.5) / 4)


def test_the_published_split_column_has_its_published_mean_and_the_median_behind_it() -> None:
    column = SPLIT_OVER_JOINT["spr"]
    found = split_over_joint(
        {game: [1.0 + ratio] for game, ratio in column.items()},
        {game: [1.0] for game in column},
        easy=True,
    )
    assert found.ratio["mean"].value == pytest.approx(0.74, abs=0.005)
    assert found.ratio["median"].value == pytest.approx(-0.01, abs=0.006)
    assert math.isnan(found.ratio["mean"].low)  # one seed


def test_an_undefined_ratio_is_nan_in_the_means_too() -> None:
    ours, theirs = {"coinrun": [1.0], "maze": [2.0]}, {"coinrun": [0.0], "maze": [1.0]}
    found = split_over_joint(ours, theirs, easy=True)
    assert all(math.isnan(entry.value) for entry in found.ratio.values())
    assert found.ranged["mean"].value == pytest.approx(0.2)
