"""Pictures of a comparison."""

from pathlib import Path

import pytest

from crosstraj.report import comparison_plots
from crosstraj.report.comparison import compare
from crosstraj.report.reading import find_runs, read_run
from tests.report.runs import make_run

pytestmark = pytest.mark.usefixtures("quick")


def test_an_evaluation_beyond_the_budget_is_in_the_picture(tmp_path: Path) -> None:
    make_run(tmp_path, "a", finals=[(1090, 2.0, 1.0)])  # a budget of 1000, in whole rollouts
    (comparison,) = compare([read_run(path) for path in find_runs([tmp_path])])
    (axes, *_) = comparison_plots.learning_curves(comparison, "unseen").axes
    assert axes.get_xlim()[1] > 1090
