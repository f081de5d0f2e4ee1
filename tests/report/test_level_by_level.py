"""Levels won and lost by hand, and an audit that finds what is planted."""

import math

from crosstraj.report.level_by_level import Audit, Outcome, audit, level_returns, won_and_lost
from crosstraj.report.reading import Played


def test_levels_won_and_lost_by_hand() -> None:
    ours = level_returns(
        [Played("unseen", 1, 4.0), Played("unseen", 1, 6.0), Played("unseen", 2, 1.0),
         Played("unseen", 3, 0.1 + 0.2), Played("unseen", 5, math.nan), Played("seen", 1, 0.0),
         Played("unseen", -1, 9.0)]
    )  # fmt: skip
    theirs = level_returns(
        [Played("unseen", 1, 4.5), Played("unseen", 2, 2.0), Played("unseen", 3, 0.3),
         Played("unseen", 4, 1.0), Played("unseen", 5, 1.0), Played("seen", 1, 3.0)]
    )  # fmt: skip
    assert ours["unseen", 1] == 5.0
    assert won_and_lost(ours, theirs) == [
        Outcome("seen", won=0, tied=0, lost=1, apart=0),
        Outcome("unseen", won=1, tied=1, lost=1, apart=2),
    ]


def test_the_audit_finds_planted_repeats() -> None:
    frames = {("seen", level): {f"frame {level}"} for level in range(10)}
    frames |= {("unseen", 200 + level): {f"other {level}"} for level in range(20)}
    frames["unseen", 203] = {"frame 4"}  # repeats one training level
    frames["unseen", 207] = {"frame 5"}  # two that look alike, and repeat two
    frames["unseen", 208] = {"frame 5"}
    frames["seen", 6] = {"frame 5"}
    frames["unseen", 210] = {"other 11"}  # repeats an unseen one only
    expected = {203: [4], 207: [5, 6], 208: [5, 6]}
    assert audit(frames, "unseen") == Audit(10, 20, expected, doubles=4, shared=0, unstable=0)


def test_the_audit_finds_leaked_numbers_and_levels_that_change() -> None:
    frames = {("seen", 3): {"a"}, ("unseen", 3): {"a"}, ("unseen", 4): {"b", "c"}}
    found = audit(frames, "unseen")
    assert found == Audit(1, 2, {}, doubles=0, shared=1, unstable=1)
