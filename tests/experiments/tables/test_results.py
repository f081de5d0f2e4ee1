"""What a table reads of a run: up to its budget, and the same as a report."""

import json
import math
from pathlib import Path

import pytest

from crosstraj.config.stored import to_dict
from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.tables.results import area, read_result
from crosstraj.report.reading import read_run
from tests.experiments.tables.runs import PPO, fill, judged, plan_of, update


def test_area_is_the_mean_height_of_the_curve() -> None:
    assert area([(0, 1.0), (10, 3.0)]) == 2.0
    assert area([(10, 0.0), (20, 4.0), (50, 4.0)]) == pytest.approx((20 + 120) / 40)
    assert math.isnan(area([(10, 1.0)]))


def test_a_run_counts_up_to_its_budget_although_it_went_on(tmp_path: Path) -> None:
    (job,) = prepare(plan_of({"a": PPO}, seeds=(0,)).runs(), tmp_path)
    rows = [
        *(update(48, entropy=2.5), judged(50, 1.0), update(96, entropy=2.0)),
        *(update(104, kl=0.1), judged(104, 3.0), update(150, entropy=1.0), judged(150, 7.0)),
    ]
    fill(job, rows)
    result = read_result(job)
    assert (result.finished, result.frames) == (True, 104)
    assert result.curve == [(50, 1.0), (104, 3.0)]
    assert result.figures == {
        "entropy": 2.0,
        "kl": 0.1,
        "seen_return": 9.0,
        "unseen_return": 3.0,
    }
    assert result.extremes["entropy"] == (2.0, 2.5)
    assert result.extremes["unseen_return"] == (1.0, 3.0)
    assert result.speed == pytest.approx(104 / 1.5)


def test_a_run_that_went_on_without_being_judged_here_is_not_finished_here(tmp_path: Path) -> None:
    """A rollout has 16,384 frames: judged within one of the budget of 100, or not at all."""
    (job,) = prepare(plan_of({"a": PPO}, seeds=(0,)).runs(), tmp_path)
    fill(job, [update(16384), update(32768), judged(32768, 3.0)])
    assert not read_result(job).finished


def test_a_report_and_a_table_count_the_same_of_a_run(tmp_path: Path) -> None:
    (job,) = prepare(plan_of({"a": PPO}, seeds=(0,)).runs(), tmp_path)
    fill(job, [judged(50, 1.0), update(96), judged(104, 3.0), update(150), judged(150, 7.0)])
    config = to_dict(job.config) | {"frames": 100}
    (job.directory / "config.json").write_text(json.dumps({"config": config}))
    run, result = read_run(job.directory), read_result(job)
    assert run.final == (104, 9.0, 3.0)
    assert result.curve == [(e.frames, e.held_out) for e in run.reached.evaluations]
    assert result.frames == run.reached.frames == 104
