"""The table and figure of held-out return over one value."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axes import Axes

from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.plan import Experiment, Values
from crosstraj.experiments.tables.make import make_table
from tests.experiments.tables.runs import fill, judged, plan_of, update


def plan_over(*clusters: int) -> Experiment:
    """CTRL in two presets; the values do not come in order."""
    variants: dict[str, Values] = {
        f"{name} C = {count}": {
            "method": "ctrl",
            "preset": preset,
            "encoder": "laptop",
            "objective.clusters": count,
        }
        for count in clusters
        for name, preset in (("ctrl:paper", "paper"), ("ctrl", "default"))
    }
    plan = plan_of(variants, games=("bigfish", "coinrun"), table="sweep")
    return replace(plan, over="objective.clusters")


def drawn_bars(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[float], ...]]:
    """What every panel is given: values, means and deviations."""
    seen: list[tuple[list[float], ...]] = []
    errorbar = Axes.errorbar

    def watched(axes: Axes, *args: list[float], **looks: object) -> object:
        seen.append(args)
        return errorbar(axes, *args, **looks)

    monkeypatch.setattr(Axes, "errorbar", watched)
    return seen


def test_each_point_is_the_mean_of_its_seeds_in_the_order_of_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_over(200, 50)
    jobs = prepare(plan.runs(), tmp_path / "runs")
    for job in jobs:
        run = job.planned
        if run.name == "ctrl C = 50/coinrun/s1":
            fill(job, [judged(50, 99.0), update(60)])  # is not finished, and not counted
        elif run.name != "ctrl C = 200/coinrun/s0" and run.name != "ctrl C = 200/coinrun/s1":
            unseen = 1.0 if "C = 50" in run.variant else 3.0
            unseen += 5.0 * (run.game == "coinrun") + 0.5 * (run.variant[:5] == "ctrl:")
            fill(job, [judged(50, 77.0), update(100), judged(100, unseen + run.seed)])
    bars = drawn_bars(monkeypatch)
    written = make_table(plan, jobs, tmp_path / "out")
    assert [path.name for path in written] == ["table.md", "table.json", "figure.png"]
    text, spread = written[0].read_text(), math.sqrt(0.5)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["unseen return", "method", "clusters 50", "clusters 200", "random play"] in lines
    assert ["bigfish", "ctrl:paper", "2.00 ± 0.71", "4.00 ± 0.71", "0.99"] in lines
    assert ["bigfish", "ctrl", "1.50 ± 0.71", "3.50 ± 0.71", "0.99"] in lines
    assert ["coinrun", "ctrl:paper", "7.00 ± 0.71", "9.00 ± 0.71", "2.97"] in lines
    assert ["coinrun", "ctrl", "6.00*", "-*", "2.97"] in lines
    # normalised: bigfish (1.5 - 1) / 39, coinrun (6 - 5) / 5; at 200 coinrun has no finished run
    mean = next(line for line in lines if line[:2] == ["mean, normalised", "ctrl"])
    # random play has .988 and 2.969
    assert mean[2:] == [f"{(0.5 / 39 + 0.2) / 2:.3f}", "-", "-0.203"]
    assert "**Partial**: 13 of 16 runs are finished, 1 more have begun" in text
    points = json.loads(written[1].read_text())["points"]
    assert points[0] == {
        "game": "bigfish",
        "line": "ctrl:paper",
        "value": 50,
        "return": {"mean": 2.0, "deviation": pytest.approx(spread), "seeds": 2},
    }
    assert bars == [
        ([50, 200], [2.0, 4.0], [pytest.approx(spread)] * 2),
        ([50, 200], [1.5, 3.5], [pytest.approx(spread)] * 2),
        ([50, 200], [7.0, 9.0], [pytest.approx(spread)] * 2),
        ([50], [6.0], [0.0]),
    ]
    assert written[2].read_bytes()[:4] == b"\x89PNG"


def test_it_judges_by_the_levels_that_the_file_names(tmp_path: Path) -> None:
    plan = plan_over(50, 200)
    both = {"evaluation.held_out": "both"}
    variants = {name: values | both for name, values in plan.variants.items()}
    plan = replace(plan, variants=variants, levels="validation", seeds=(0,))
    jobs = prepare(plan.runs(), tmp_path / "runs")
    for job in jobs:
        fill(job, [update(100), judged(100, 99.0) | {"validation_return": 2.5}])
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    assert "| validation return | method | clusters 50 | clusters 200 |" in text
    assert "| bigfish | ctrl | 2.50 | 2.50 |" in text
    assert "99" not in text


@pytest.mark.parametrize(("name", "over"), [("clusters", "clusters"), ("keypoints", "keypoints")])
def test_the_figures_of_the_paper_over_a_value_are_drawn_over_it(name: str, over: str) -> None:
    plan = read(Path(f"experiments/paper/{name}.toml"))
    assert (plan.table, plan.over) == ("sweep", f"objective.{over}")
