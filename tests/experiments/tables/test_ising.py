"""The table and figure of the study on Ising models, also of a part of its runs."""

import json
import math
from pathlib import Path

import pytest

from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.tables.ising import ising, table
from crosstraj.experiments.tables.results import Result
from tests.experiments.tables.ising_rows import STUDY, rows


def test_the_table_has_spreads_bounds_and_the_papers_numbers() -> None:
    lines = table(rows()).split("\n")
    five = next(line for line in lines if line.startswith("| 5 |")).split(" | ")
    # Return; share (-.2 + .4) / (-.1 + .4); silhouettes .55 and .55; changes .21 and .01.
    assert five[1:6] == ["2", "-0.200 ± 0.000", "0.667 ± 0.000", "0.550 ± 0.000", "0.110 ± 0.141"]
    assert five[6:9] == ["0.500 ± 0.000", "0.250 ± 0.000", "0.750 ± 0.000"]
    assert five[9:] == ["-0.020", "0.651", "0.145 |"]
    assert "| 3 | 2 |" in "\n".join(lines)
    text = "\n".join(lines)
    assert "| uniform policy | 2 | -0.400 ± 0.000 |" in text
    assert "| best arm | 2 | -0.100 ± 0.000 |" in text
    assert "| worst arm | 2 | -0.900 ± 0.000 |" in text


def test_table_figure_and_drawing_are_written_also_of_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read(STUDY)
    empty = [
        Result(
            *(run.variant, run.game, run.seed, 1, "x", True, 0, False),
            *("unseen", [], {}, {}, math.nan, ""),
        )
        for run in plan.runs()
    ]
    files = ising(plan, empty, tmp_path)
    assert [file.name for file in files] == ["table.md", "table.json", "task.png"]
    assert "**Partial**: 0 of 50 runs" in (tmp_path / "table.md").read_text()
    monkeypatch.setattr("crosstraj.experiments.tables.ising.measured", lambda results: rows())
    # Drawn just now.
    monkeypatch.setattr("crosstraj.experiments.tables.ising.draw_task", lambda path: path)
    files = ising(plan, empty, tmp_path)
    assert {"figure.png", "task.png"} < {file.name for file in files}
    assert all(file.stat().st_size > 0 for file in files)
    values = json.loads((tmp_path / "table.json").read_bytes())
    assert values["largest change in silhouette at, by seed"] == {"0": 5, "1": 3}


def test_the_study_has_ten_numbers_of_clusters_and_a_goal_for_each_seed() -> None:
    jobs = prepare(read(STUDY).runs(), Path("runs"))
    assert len(jobs) == 50
    clusters = [job.config.objective.clusters for job in jobs[:10]]  # type: ignore[union-attr]
    assert clusters == [2, 3, 4, 5, 6, 7, 8, 10, 20, 50]
    assert all(job.config.ising.instance == job.config.seed for job in jobs)
    assert {job.config.seed for job in jobs} == set(range(5))
