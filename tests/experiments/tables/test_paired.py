"""The table of relative gains by pairs of game and seed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.tables.make import make_table
from crosstraj.runs.shipped import file_of
from tests.experiments.tables.runs import FROZEN, PPO, fill, judged, plan_of, update


def test_the_paired_table_says_what_is_gained_over_the_baseline_and_what_is_excluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: bigfish's baseline is 3 above random play, b gains .3 and .3; coinrun 4, 0 and 0."""
    monkeypatch.chdir(tmp_path)
    plan = plan_of({"a": PPO, "b": FROZEN}, games=("bigfish", "coinrun"), table="paired")
    plan = replace(plan, baseline="a")
    jobs = prepare(plan.runs(), tmp_path / "runs")
    scores = {"a/bigfish": 4.0, "b/bigfish": 4.3, "a/coinrun": 6.0, "b/coinrun": 6.0}
    for job in jobs:
        score = scores[f"{job.planned.variant}/{job.planned.game}"] + job.planned.seed
        fill(job, [judged(50, 1.0), update(100), judged(100, score)])
    first = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    assert "b, coinrun: left out, random play is not measured" in first
    assert "b: no pair with a yet, so nothing can be said." in first
    for job in jobs:
        file = file_of(job.config, "unseen")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"return": 1.5 if job.planned.game == "bigfish" else 2.5}))
    assert len(list(Path("results/random").iterdir())) == 2  # by game, not by variant or seed
    written = make_table(plan, jobs, tmp_path / "out")
    text = written[0].read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["b", "+10.0", "+0.0", "+5.0 [+5.0, +5.0]", "0.5", "4"] in lines
    assert ["bigfish", "1.50", "4.50", "3.00"] in lines
    assert ["coinrun", "2.50", "6.50", "4.00"] in lines
    assert "a gain above 5.0 % is excluded at 95 % at this budget." in text
    found = json.loads(written[1].read_text())
    assert found["verdicts"]["b"]["p"] == 0.5  # 4 pairs, two of them 0: 8 of 16 patterns
    assert found["random"] == {"bigfish": 1.5, "coinrun": 2.5}
