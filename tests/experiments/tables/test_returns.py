"""The table of returns: means over finished seeds, spreads, gains, and what is not finished."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from crosstraj.config.stored import FORMAT, to_dict
from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.tables.make import make_table
from crosstraj.experiments.tables.results import read_result
from tests.experiments.tables.runs import FROZEN, PPO, fill, judged, plan_of, update


def test_the_table_gives_means_over_finished_seeds_and_says_what_is_partial(
    tmp_path: Path,
) -> None:
    plan = plan_of({"a": PPO, "b": FROZEN}, games=("bigfish", "coinrun"))
    jobs = prepare(plan.runs(), tmp_path / "runs")
    by_name = {job.planned.name: job for job in jobs}
    for seed, unseen in ((0, 2.0), (1, 4.0)):
        fill(
            by_name[f"a/bigfish/s{seed}"],
            [judged(50, 1.0), update(100, view_cosine=0.25 + seed / 2), judged(100, unseen)],
        )
    fill(by_name["a/coinrun/s0"], [judged(50, 5.0), update(100), judged(100, 7.5)])
    fill(by_name["a/coinrun/s1"], [judged(50, 100.0), update(60)])
    fill(by_name["b/bigfish/s0"], [judged(50, 6.0), update(60)])
    fill(by_name["b/bigfish/s1"], [judged(50, 8.0), update(70)])
    written = make_table(plan, jobs, tmp_path / "out")
    assert [path.name for path in written] == ["table.md", "table.json", "figure.png"]
    text = written[0].read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["unseen return", "a", "b", "random play"] in lines  # the last from results/random
    assert ["bigfish", "3.00 ± 1.4", "7.00 ± 1.4*", "0.99"] in lines
    assert ["coinrun", "7.50*", "-*", "2.97"] in lines
    # normalised: bigfish (3 - 1) / 39, coinrun (7.5 - 5) / 5; b has no coinrun
    # Random play has .988 of bigfish and 2.969 of coinrun.
    assert ["mean, normalised", f"{(2 / 39 + 0.5) / 2:.3f}", "-", "-0.203"] in lines
    rows = {(row[0], row[1]): row for row in lines if len(row) > 5}
    assert rows["a", "bigfish"][2:] == [
        *("2 of 2", "3.00 ± 1.4", "9.00 ± 0", "6.00 ± 1.4", "2.00 ± 0.71", "0.50 ± 0.35", "200")
    ]
    assert rows["a", "coinrun"][2:4] == ["partial: 1 of 2, no spread", "7.50"]
    assert rows["b", "bigfish"][2] == "partial: none of 2; shown at 60 to 70 of 100 frames"
    assert rows["b", "coinrun"][2:4] == ["not begun", "-"]
    assert rows["random play", "bigfish"][2:] == ["-", "0.99", "0.83", "-", "-", "-", "-"]
    assert rows["random play", "coinrun"][2:5] == ["-", "2.97", "2.89"]
    assert "**Partial**: 3 of 8 runs are finished, 3 more have begun" in text
    cells = json.loads(written[1].read_text())["cells"]
    assert cells[0]["figures"]["unseen_return"] == {
        "mean": 3.0,
        "deviation": pytest.approx(math.sqrt(2)),
        "seeds": 2,
    }
    assert cells[3]["unseen_area"]["mean"] is None
    assert cells[0]["extremes"]["unseen_return"] == [1.0, 4.0]
    assert cells[0]["extremes"]["view_cosine"] == [0.25, 0.75]
    assert written[2].read_bytes()[:4] == b"\x89PNG"


def test_a_table_can_judge_by_validation_levels(tmp_path: Path) -> None:
    """Both are in the logs; curve, area, cells, mean and gains are those of validation."""
    both = {"evaluation.held_out": "both"}
    plan = plan_of({"a": PPO | both, "b": FROZEN | both}, games=("bigfish", "coinrun"), seeds=(0,))
    plan = replace(plan, levels="validation", judge="a")
    jobs = prepare(plan.runs(), tmp_path / "runs")
    scores = {"a/bigfish": 20.5, "b/bigfish": 1.0, "a/coinrun": 7.5, "b/coinrun": 5.0}
    for job in jobs:
        score = scores[f"{job.planned.variant}/{job.planned.game}"]
        rows = [judged(50, 77.0) | {"validation_return": 0.0}, update(100)]
        fill(job, [*rows, judged(100, 99.0) | {"validation_return": score}])
    assert read_result(jobs[0], "validation").curve == [(50, 0.0), (100, 20.5)]
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["validation return", "a", "b", "random play"] in lines
    assert ["bigfish", "20.50", "1.00", "1.00"] in lines
    assert ["mean, normalised", "0.500", "0.000", "-0.238"] in lines
    assert ["b", "+0.500", "+0.500", "+0.500"] in lines
    (detail,) = (line for line in lines if line[:2] == ["a", "bigfish"])
    # The gap is 9 - 20.5, the area (0 + 20.5) / 2.
    assert detail[3:7] == ["20.50", "9.00", "-11.50", "10.25"]
    assert "99" not in text
    assert "unseen" not in text


def test_gains_are_differences_in_units_of_the_range_and_bold_where_they_are_clear(
    tmp_path: Path,
) -> None:
    """Bigfish has a range of 39, coinrun of 5; c has one seed in coinrun, d none."""
    variants = {"a": PPO, "b": FROZEN, "c": FROZEN | {"policy.epochs": 2}}
    variants["d"] = FROZEN | {"policy.epochs": 4}
    plan = replace(plan_of(variants, games=("bigfish", "coinrun")), judge="a")
    jobs = prepare(plan.runs(), tmp_path / "runs")
    returns = {
        ("a", "bigfish"): (2.0, 4.0),
        ("a", "coinrun"): (8.9, 9.0),
        ("b", "bigfish"): (3.0, 5.0),
        ("b", "coinrun"): (6.9, 7.0),
        ("c", "bigfish"): (41.0, 43.0),
        ("c", "coinrun"): (9.0,),
        ("d", "bigfish"): (3.0, 3.0),
        ("d", "coinrun"): (),
    }
    for job in jobs:
        run = job.planned
        if run.seed < len(returns[run.variant, run.game]):
            fill(job, [update(100), judged(100, returns[run.variant, run.game][run.seed])])
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    start = lines.index(["a over", "bigfish", "coinrun", "all games"])
    b, c, d = lines[start + 2 : start + 5]
    # Welch: -1 / 39 with a deviation of sqrt(2) / 39 on both sides, 2 degrees of freedom: t = 4.303
    reach = 4.303 * math.sqrt(2 / 2 + 2 / 2) / 39
    assert b[:2] == ["b", f"-0.026 [{-1 / 39 - reach:.3f}, {-1 / 39 + reach:+.3f}]"]
    reach = 4.303 * 0.1 / 5 / math.sqrt(2)
    assert b[2] == f"**+0.400 [{0.4 - reach:+.3f}, {0.4 + reach:+.3f}]**"
    # Over both games: the variances of four means, added up, over two games squared.
    parts = [1 / 39**2] * 2 + [0.005 / 2 / 25] * 2
    freedom = sum(parts) ** 2 / sum(part**2 for part in parts)
    reach = stats.t.ppf(0.975, freedom) * math.sqrt(sum(parts)) / 2
    mean = (2 / 5 - 1 / 39) / 2
    assert b[3].strip("*") == f"{mean:+.3f} [{mean - reach:+.3f}, {mean + reach:+.3f}]"
    assert b[3].startswith("**") == (mean > reach)
    assert c[1].startswith("**-1.000 [")
    assert c[2] == f"{(8.95 - 9) / 5:+.3f}"  # one seed has no interval
    assert c[3] == f"{(-1 - 0.05 / 5) / 2:+.3f}"
    assert d[1].startswith("+0.000 [")
    assert d[2:] == ["-", "-"]


def test_the_mean_over_games_has_an_interval_where_seeds_are_even(tmp_path: Path) -> None:
    plan = plan_of({"a": PPO}, games=("bigfish", "coinrun"))
    jobs = prepare(plan.runs(), tmp_path / "runs")
    scores = {"bigfish/s0": 1.0, "bigfish/s1": 40.0, "coinrun/s0": 7.5, "coinrun/s1": 7.5}
    for job in jobs:
        fill(job, [update(100), judged(100, scores[job.planned.name.removeprefix("a/")])])
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    # normalised: bigfish 0 and 1, coinrun .5 and .5; drawn anew, bigfish's mean is 0, .5 or 1
    assert "| mean, normalised | 0.500 [0.250, 0.750] | -0.203 |" in text


def test_processor_hours_are_a_column_where_runs_have_counted_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean over seeds that have, up to the budget; a cell without any has none."""
    monkeypatch.setattr("crosstraj.experiments.tables.results.read_chance", lambda *_: 0.5)
    plan = plan_of({"a": PPO, "b": FROZEN})
    jobs = prepare(plan.runs(), tmp_path / "runs")
    for job in jobs:
        fill(job, [judged(0, 2.0), update(50), update(100), judged(100, 2.0)])
        values = {"format": FORMAT, "config": to_dict(job.config)}
        (job.directory / "config.json").write_text(json.dumps(values, default=str))
    before = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    assert "processor-hours" not in before
    counted = [job for job in jobs if job.planned.variant == "a"]
    for job, seconds in zip(counted, (1800, 5400), strict=True):
        rows = [{"frames": f, "seconds": 1, "processor": seconds / 2} for f in (50, 100)]
        rows.append({"frames": 150, "seconds": 1, "processor": 1e6})  # beyond the budget
        job.directory.joinpath("timing.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    ends = {row[0]: row[-2:] for row in lines if len(row) > 4}
    assert ends["variant"] == ["processor-hours", "area over random per hour"]
    assert ends["a"][0].startswith("1.00 ±")  # half an hour and an hour and a half
    assert ends["a"][1].startswith("2.00 ±")  # 2 - .5 of random play: (3 + 1) / 2
    assert ends["b"] == ["-", "-"]
    assert "summed over its threads" in text


def test_a_column_that_no_run_has_a_figure_for_is_left_out(tmp_path: Path) -> None:
    """One evaluation has no area under its curve, and nobody counted the processor's time."""
    plan = plan_of({"a": PPO}, seeds=(0,))
    jobs = prepare(plan.runs(), tmp_path / "runs")
    for job in jobs:
        fill(job, [update(100), judged(100, 5.0)])
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    assert "| variant | game | seeds | unseen | seen | gap | frames/s |" in text
