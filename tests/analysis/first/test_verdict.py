"""The sentence of a first run says what its numbers bear, and no more."""

import math

from crosstraj.analysis.first.verdict import Judged, verdict

CHANCE = Judged("random play", 3.0, 0.2)
YOURS = Judged("your agent", 6.4, 0.4)
SHIPPED = Judged("agents/coinrun-ctrl", 8.9, 0.2)


def test_all_three_numbers_are_in_one_sentence():
    said = str(verdict("coinrun", CHANCE, YOURS, SHIPPED))
    assert "random play 3.0, yours 6.4, the agent that comes with crosstraj 8.9." in said
    assert "has learnt something" in said
    assert said.endswith("One seed each is no ranking.")


def test_without_a_shipped_agent_or_random_play_nothing_is_made_up():
    said = str(verdict("coinrun", CHANCE._replace(score=math.nan), YOURS, None))
    assert "never seen: yours 6.4." in said
    assert "does not show that it has learnt" in said
    assert "comes with" not in said


def test_what_is_within_the_error_is_not_called_learnt():
    near = YOURS._replace(score=4.1)  # 4.1 - .784 < 3 + .392
    assert "not above random play by more than its error" in str(verdict("x", CHANCE, near, None))
    above = YOURS._replace(score=4.2)
    assert "has learnt" in str(verdict("x", CHANCE, above, None))
    below = YOURS._replace(score=1.5)
    assert "worse than at random" in str(verdict("x", CHANCE, below, None))
