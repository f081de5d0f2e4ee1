"""Any table: damaged runs, places that cannot be written, and the tables kept in results."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.config.stored import to_dict
from crosstraj.errors import BadInput
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.plan import Values
from crosstraj.experiments.tables.kinds import TABLES
from crosstraj.experiments.tables.make import make_table
from crosstraj.report.reading import read_run
from tests.experiments.tables.runs import FROZEN, PPO, fill, judged, plan_of, update


def test_a_damaged_run_is_reported_and_spoils_nothing(tmp_path: Path) -> None:
    plan = plan_of({"a": PPO})
    jobs = prepare(plan.runs(), tmp_path / "runs")
    fill(jobs[0], [update(100), judged(100, 4.0)])
    fill(jobs[1], [])
    (jobs[1].directory / "metrics.jsonl").write_text("not json\n")
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    assert "partial: 1 of 2" in text
    assert f"{jobs[1].directory} could not be read: BadInput" in text


@pytest.mark.parametrize("table", ["returns", "paired", "split", "health", "about"])
@pytest.mark.parametrize(
    "line",
    [
        "not json",
        json.dumps(judged(100, 1.0) | {"seen_return": "many"}),
        json.dumps(judged(100, 1.0) | {"unseen_return": None}),
        json.dumps({"row": "evaluation", "frames": 100}),
    ],
)
def test_reports_and_all_tables_read_a_damaged_log_by_the_same_rule(
    table: str, line: str, tmp_path: Path
) -> None:
    """Each names the run and goes on with the others."""
    plan = plan_of({"X joint": PPO, "X split": FROZEN}, seeds=(0,), table=table)
    plan = replace(plan, judge="X split", baseline="X joint")
    good, bad = prepare(plan.runs(), tmp_path / "runs")
    fill(good, [update(100), judged(100, 4.0)])
    fill(bad, [update(100), judged(100, 5.0)])
    (bad.directory / "metrics.jsonl").write_text(f"{line}\n")
    (bad.directory / "config.json").write_text(json.dumps({"config": to_dict(bad.config)}))
    text = make_table(plan, [good, bad], tmp_path / "out")[0].read_text()
    assert f"{bad.directory} could not be read: " in text
    assert "1 of 2 runs are finished" in text
    with pytest.raises(BadInput, match="cannot be read"):
        read_run(bad.directory)


def test_tables_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("precious")
    plan = plan_of({"a": PPO})
    with pytest.raises(BadInput, match="cannot be written"):
        make_table(plan, prepare(plan.runs(), tmp_path / "runs"), tmp_path / "out")


def test_hard_mode_has_no_ranges(tmp_path: Path) -> None:
    hard: Values = {"procgen.mode": "hard"}
    variants = {"X joint": PPO | hard, "X split": FROZEN | hard}
    for table in ("returns", "split"):
        plan = plan_of(variants, games=("bigfish", "coinrun"), seeds=(0,), table=table)
        jobs = prepare(plan.runs(), tmp_path / table)
        for job in jobs:
            fill(job, [update(100), judged(100, 2.0 + ("split" in job.planned.variant))])
        text = make_table(plan, jobs, tmp_path / "out" / table)[0].read_text()
        assert "mean, normalised |" not in text
        assert table == "returns" or "| bigfish | +0.50 | - |" in text


@pytest.mark.parametrize("table", ["returns", "split"])
def test_what_is_not_finished_is_in_no_mean_over_games(table: str, tmp_path: Path) -> None:
    variants = {"X joint": PPO, "X split": FROZEN}
    plan = plan_of(variants, games=("bigfish", "coinrun"), seeds=(0,), table=table)
    jobs = prepare(plan.runs(), tmp_path / "runs")
    for job in jobs:
        early = job.planned.name == "X split/coinrun/s0"
        frames = 50 if early else 100
        fill(job, [update(frames), judged(frames, 7.0 if job.planned.game == "coinrun" else 2.0)])
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    if table == "split":
        assert "| coinrun | - | - |" in text
        assert "Games that both have: X 1 of 2" in text
    else:
        assert re.search(r"\| mean, normalised \| 0\.\d+ \| - \|", text)


@pytest.mark.parametrize(
    "name",
    [
        *("learn_steps", "learn_rate", "learn", "learn_1m", "health", "situations_small"),
        *("recipe", "recipe_2m", "recipe_games"),
    ],
)
def test_the_tables_in_results_are_those_of_the_logs_kept_there(name: str, tmp_path: Path) -> None:
    """Without any run directory, as in a fresh clone."""
    plan = read(Path(f"experiments/ours/{name}.toml"))
    jobs = prepare(plan.runs(), tmp_path / "runs", Path("results") / name)
    text = make_table(plan, jobs, tmp_path)[0].read_text()
    kept = Path(f"results/{name}/table.md").read_text()
    assert text == kept, f"experiments/ours/{name}.toml --table would change it"


def test_the_words_for_tables_are_the_makers_there_are() -> None:
    from crosstraj.experiments.tables.make import MAKERS

    assert MAKERS.keys() == TABLES.keys()


def test_a_table_says_where_its_runs_are_of_several_versions_of_the_code(tmp_path: Path) -> None:
    plan = plan_of({"a": PPO}, seeds=(0, 1, 2))
    jobs = prepare(plan.runs(), tmp_path / "runs")
    for job, code in zip(jobs, (["new"], ["old", "new", "old"], None), strict=True):
        fill(job, [update(100), judged(100, 5.0)])
        if code:
            (job.directory / "config.json").write_text(json.dumps({"code": code}))
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    assert "Several versions of the code made them (runs of each): new (2), old (1)." in text
    text = make_table(plan, jobs[:1], tmp_path / "out")[0].read_text()
    assert "versions of the code" not in text
