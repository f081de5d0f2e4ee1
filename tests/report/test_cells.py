"""Numbers as cells: what is missing, tiny or has no interval."""

import math

from crosstraj.report.cells import number, rounded, with_deviation, with_interval, with_seeds
from crosstraj.report.statistics import Estimate, spread


def test_a_number_that_is_none_is_said_to_be_so() -> None:
    assert [number(1.256), number(-1.0, "+.1f"), number(0.5, ".1%")] == ["1.26", "-1.0", "50.0%"]
    assert [number(math.nan), number(math.nan, absent="")] == ["NaN", ""]


def test_a_spread_has_a_deviation_from_two_values_on() -> None:
    two, one, none = spread([1.0, 3.0]), spread([2.0]), spread([])
    assert [with_seeds(s) for s in (two, one, none)] == ["2.00 ± 1.41 (2)", "2.00 (1)", "–"]
    assert with_deviation(two, ".3f") == "2.000 ± 1.414"
    assert with_deviation(none, absent="-") == "-"
    assert with_seeds(spread([1.0, math.nan])) == "NaN ± NaN (2)"
    assert rounded(spread([0.001, 0.003])) == "2.00e-03 ± 0.0014"


def test_an_estimate_has_an_interval_where_there_is_one() -> None:
    assert with_interval(Estimate(0.5)) == "0.500"
    assert with_interval(Estimate(0.5, -0.1, 1.0), "+.1f") == "+0.5 [-0.1, +1.0]"


def test_a_cell_has_few_digits_and_no_deviation_of_one_value() -> None:
    assert [rounded(spread(v)) for v in ([2.0, 4.0], [2.0], [0.0012], [])] == [
        "3.00 ± 1.4",
        "2.00",
        "1.20e-03",
        "-",
    ]
