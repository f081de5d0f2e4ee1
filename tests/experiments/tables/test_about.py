"""The table of what codes are about: a method against its shortcuts, game by game."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.plan import Values
from crosstraj.experiments.tables.make import make_table
from crosstraj.report.cells import NONE
from tests.experiments.tables.runs import PPO, fill, judged, plan_of, update

SITUATIONS: Values = {"method": "situations", "preset": "default"}


def test_a_method_is_held_against_its_shortcuts_game_by_game(tmp_path: Path) -> None:
    variants = {
        "situations": SITUATIONS,
        "ctrl": {"method": "ctrl", "preset": "default"},
        "ppo": PPO,
        "untrained encoder": SITUATIONS | {"encoder_grad": "none"},
        "shuffled partners": SITUATIONS | {"objective.shuffled": True},
    }
    games = ("bigfish", "coinrun")
    plan = replace(plan_of(variants, games, (0,), "about"), judge="situations")
    jobs = prepare(plan.runs(), tmp_path)
    shared = {"knowing_nothing": 4.0, "knowing_time": 3.9, "view_cosine": 0.2}
    for job in jobs:
        good = job.planned.game == "bigfish"
        figures: dict[str, dict[str, float]] = {
            "situations": {
                **shared,
                "knowing_all": 3.0,
                "knowing_before": 3.06 if good else 3.04,  # .05 is asked for
                "action_gain": 0.03 if good else 0.01,
                "levels_per_cluster": 0.9,
                "level_variance": 0.5 if good else 0.7,
                "level_variance_untrained": 0.4,
            },
            "ctrl": {"knowing_all": 2.0, "levels_per_cluster": 0.5 if good else 0.95},
            "ppo": {"level_variance": 0.6},
            "untrained encoder": {"knowing_all": 3.2 if good else 3.0},
            "shuffled partners": {"knowing_all": 4.0 if good else 3.9, "knowing_nothing": 4.0},
        }
        own = figures[job.planned.variant]
        early = update(10, **dict.fromkeys(own, 77.0))  # not among the last updates
        late = [update(20 + n, **{k: v + d for k, v in own.items()}) for n, d in enumerate((1, -1))]
        fill(job, [early, *late, *late, judged(100, 1.0)])
    make_table(plan, jobs, tmp_path / "out")
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    cell = table["games"]["bigfish"]["situations"]
    assert cell["knowing_all"] == pytest.approx(3.0)  # the mean of the last four
    margins = {words.split(":")[0]: m for words, m in table["demands"].items()}
    assert margins["beats repeating the code before by 0.05 nats"] == {
        "bigfish": pytest.approx(0.01),
        "coinrun": pytest.approx(-0.01),
    }
    text = (tmp_path / "out" / "table.md").read_text()
    for words in (
        "beats repeating the code before by 0.05 nats",
        "beats the same heads on an untrained encoder by 0.05 nats",
        "shuffled partners: lead over knowing nothing -0.02 to 0.02",
        "actions' worth above 0.02 nats",
        "variance between levels not above the untrained encoder's or PPO's",
        "levels per cluster above CTRL's",
    ):
        assert f"| {words} | 1 of 2 | coinrun |" in text
    assert "| beats position and time by 0.05 nats | 2 of 2 |  |" in text
    assert f"| cosine of v' below 0.7 | {NONE} | {NONE} |" in text  # there is no such loss


def test_a_demand_that_needs_a_run_that_is_missing_is_not_judged(tmp_path: Path) -> None:
    plan = replace(
        plan_of({"situations": SITUATIONS}, seeds=(0,), table="about"), judge="situations"
    )
    jobs = prepare(plan.runs(), tmp_path)
    fill(jobs[0], [update(20, knowing_all=3.0, knowing_before=3.5), judged(100, 1.0)])
    make_table(plan, jobs, tmp_path / "out")
    text = (tmp_path / "out" / "table.md").read_text()
    assert "| beats repeating the code before by 0.05 nats | 1 of 1 |  |" in text
    assert f"| levels per cluster above CTRL's | {NONE} | {NONE} |" in text
