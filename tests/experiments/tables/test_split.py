"""The table of what splitting gains over joint training."""

from pathlib import Path

from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.tables.make import make_table
from tests.experiments.tables.runs import FROZEN, PPO, fill, judged, plan_of, update


def test_the_split_table(tmp_path: Path) -> None:
    low = FROZEN | {"policy.learning_rate": 1e-4}
    variants = {"X joint": PPO, "X split": FROZEN, "X split at conv": low}
    plan = plan_of(variants, games=("bigfish", "coinrun"), seeds=(0,), table="split")
    jobs = prepare(plan.runs(), tmp_path / "runs")
    scores = {"X joint/bigfish": 2.0, "X split/bigfish": 3.0, "X joint/coinrun": 8.0}
    scores["X split at conv/bigfish"] = 1.0
    for job in jobs:
        unseen = scores.get(job.planned.name.removesuffix("/s0"))
        if unseen is not None:
            fill(job, [update(100), judged(100, unseen)])
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    assert "| bigfish | +0.50 | +0.03 | -0.50 | -0.03 |" in text
    assert "| coinrun | - | - | - | - |" in text  # without both there is no gain
    assert "| **mean** | +0.50 | +0.03 | -0.50 | -0.03 |" in text
    assert "Games that both have: X 1 of 2, X at conv 1 of 2" in text
