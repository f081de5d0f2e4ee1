"""Reading a run for a report: what is finished, what is damaged, what is given twice."""

from pathlib import Path

import pytest

from crosstraj.errors import BadInput
from crosstraj.report.reading import find_runs, read_run
from tests.report.runs import make_run

pytestmark = pytest.mark.usefixtures("quick")


def test_a_run_trained_to_its_budget_but_not_judged_there_is_partial(tmp_path: Path) -> None:
    path = make_run(tmp_path, "a", frames=500, finals=[])
    assert read_run(path).state == "partial: 500 of 500 frames, not judged at the end"


def test_damaged_values_of_a_level_split_are_named(tmp_path: Path) -> None:
    for index, wrong in enumerate([7, {"train_levels": "many"}]):
        path = make_run(tmp_path, str(index), env="A-v0", changed={"gymnasium": wrong})
        with pytest.raises(BadInput, match="gymnasium"):
            read_run(path)


def test_the_same_run_given_twice_counts_once(tmp_path: Path) -> None:
    path = make_run(tmp_path / "runs", "a")
    assert find_runs([path, tmp_path / "runs", path / "../a"]) != []
    assert len(find_runs([path, tmp_path / "runs", path / "../a"])) == 1
