"""Pictures of a comparison."""

from pathlib import Path

import pytest

from crosstraj.report import comparison_plots
from crosstraj.report.comparison import compare
from crosstraj.report.drawing import BLUE, GREY, frames_in_short
from crosstraj.report.reading import find_runs, read_run
from crosstraj.report.statistics import Estimate
from tests.report.runs import make_run

pytestmark = pytest.mark.usefixtures("quick")


def test_an_evaluation_beyond_the_budget_is_in_the_picture(tmp_path: Path) -> None:
    make_run(tmp_path, "a", finals=[(1090, 2.0, 1.0)])  # a budget of 1000, in whole rollouts
    (comparison,) = compare([read_run(path) for path in find_runs([tmp_path])])
    (axes, *_) = comparison_plots.learning_curves(comparison, "unseen").axes
    assert axes.get_xlim()[1] > 1090


def test_a_run_alone_is_one_panel_with_random_play(tmp_path: Path) -> None:
    make_run(tmp_path, "a", finals=[(500, 2.0, 1.0), (1000, 5.0, 4.0)])
    (comparison,) = compare([read_run(path) for path in find_runs([tmp_path])])
    (axes,) = comparison_plots.one_run(comparison).axes
    lines = {str(line.get_label()): list(line.get_ydata()) for line in axes.lines}
    assert (lines["unseen levels"], lines["seen levels"]) == ([1.0, 4.0], [2.0, 5.0])
    assert lines["random play"][0] == comparison.random("coinrun") > 0
    assert axes.get_ylim()[0] <= 0


def test_aggregates_share_an_axis_that_noise_does_not_fill() -> None:
    close = {name: Estimate(0.012, 0.011, 0.013) for name in ("IQM", "mean", "optimality gap")}
    *scores, _ = comparison_plots.intervals({"a": close}).axes
    assert scores[0].get_xlim() == scores[1].get_xlim()
    low, high = scores[0].get_xlim()
    assert low <= 0
    assert high - low >= 0.1


def test_random_play_is_grey_in_the_figures_of_aggregates() -> None:
    found = {label: {"mean": Estimate(0.1)} for label in ("a", "random play")}
    (axes,) = comparison_plots.intervals(found).axes
    assert [line.get_color() for line in axes.lines] == [BLUE, GREY]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "random play"]
    shares = {"a": [Estimate(1.0), Estimate(0.0)], "random play": [Estimate(0.5), Estimate(0.0)]}
    lines = comparison_plots.profiles([0.0, 1.0], shares).axes[0].lines
    assert [line.get_color() for line in lines] == [BLUE, GREY]
    assert [line.get_label() for line in lines] == ["a (1 seed: no band)", "random play"]


def test_frames_are_written_as_people_do() -> None:
    shown = [frames_in_short(frames) for frames in (0, 500, 65_536, 200_000, 2_500_000)]
    assert shown == ["0", "500", "65.536k", "200k", "2.5M"]
