"""The table of health: last figures, median KL, and words for a rank that has fallen."""

import json
from pathlib import Path

import pytest

from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.tables.make import make_table
from tests.experiments.tables.runs import PPO, fill, judged, plan_of, update


def test_the_health_of_a_run_is_its_last_figures_the_median_kl_and_the_change_of_scale(
    tmp_path: Path,
) -> None:
    plan = plan_of({"a": PPO}, seeds=(0, 1, 2, 3), table="health")
    jobs = prepare(plan.runs(), tmp_path / "runs")
    well = {"view_cosine": 0.2, "feature_rank": 30.0, "code_entropy": 4.0}
    well |= {"code_entropy_random": 4.5}
    fill(
        jobs[0],
        [
            update(40, **well | {"view_cosine": 0.9}, objective_kl=1.0, feature_std=0.1),
            update(80, **well, objective_kl=0.002, feature_std=9.0),
            update(100, **well, objective_kl=0.001, feature_std=0.3),
            judged(100, 1.0),
            update(140, **well | {"feature_rank": 1.0}, objective_kl=0.001, feature_std=0.3),
        ],
    )
    ill = {"view_cosine": 0.7, "feature_rank": 20.0, "code_entropy": 4.5}
    ill |= {"code_entropy_random": 4.5}
    fill(jobs[1], [update(50, feature_std=1.0), update(60, **ill, objective_kl=0, feature_std=4)])
    fill(jobs[2], [update(60, feature_rank=9.0, feature_std=1.0)])  # PPO has no views: not judged
    table, data = make_table(plan, jobs, tmp_path / "out")
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.read_text().splitlines()
    ]
    assert ["a", "bigfish", "0", "100", "0.20", "30.00", "0.50", "2.0e-03", "3.00", "yes"] in lines
    bad = [f"**{x}**" for x in ("0.70", "20.00", "0.00", "0.00", "4.00", "no")]
    assert ["a", "bigfish", "1", "60", *bad] in lines
    assert ["a", "bigfish", "2", "60", "–", "**9.00**", "–", "–", "1.00", "–"] in lines
    assert ["**holds**", "", "", "", *["1 of 2"] * 6] in lines
    assert "**Partial**: 1 of 4 runs are finished, 2 more have begun" in table.read_text()
    assert "folded" not in table.read_text()
    found = json.loads(data.read_text())
    assert found["holds"]["all"] == 1
    assert found["runs"][0]["feature scale over its start"] == pytest.approx(3.0)


def test_the_health_table_says_in_words_whose_rank_has_fallen(tmp_path: Path) -> None:
    plan = plan_of({"ppo": PPO, "dbc": {"method": "dbc", "preset": "paper"}}, table="health")
    jobs = prepare(plan.runs(), tmp_path / "runs")
    for job in jobs:
        last = 22.8 if job.planned.variant == "ppo" else 3.7
        ranks = enumerate((30.0, 25.0, last), 1)
        fill(job, [update(20 * at, feature_rank=rank, feature_std=1.0) for at, rank in ranks])
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    said = [line for line in text.splitlines() if "folded" in line]
    assert len(said) == sum(job.planned.variant == "dbc" for job in jobs)
    assert all(line.startswith("- dbc, ") for line in said)
    assert all("effective rank is 3.7, and was 30.0 at first" in line for line in said)
