"""Values within limits, open and closed."""

import math
from types import SimpleNamespace

import pytest

from crosstraj.errors import BadInput, check_range


@pytest.mark.parametrize(
    ("value", "limits", "rule"),
    [
        (0, {"at_least": 1}, "at least 1"),
        (0.0, {"above": 0}, "above 0"),
        (1.0, {"at_least": 0, "below": 1}, "at least 0 and below 1"),
        (1.5, {"above": 0, "at_most": 1}, "above 0 and at most 1"),
        (math.nan, {"at_least": 0}, "at least 0"),
    ],
)
def test_a_value_beyond_a_limit_is_refused_and_one_at_it_only_if_it_is_open(value, limits, rule):
    with pytest.raises(BadInput) as refused:
        check_range(SimpleNamespace(wrong=value), "place.", "wrong", **limits)
    assert str(refused.value) == f"place.wrong={value}: must be {rule}"


def test_values_within_their_limits_are_taken_the_closed_ends_too():
    values = SimpleNamespace(low=0, high=1.0)
    check_range(values, "", "low", "high", at_least=0, at_most=1)
    check_range(values, "", "high", above=0)
