"""Tables of experiments, from run directories written by hand: means, spreads, areas, gains."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from crosstraj.cli.experiment import default_out
from crosstraj.config.stored import to_dict
from crosstraj.errors import BadInput
from crosstraj.experiments import random_play as chance
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import Job, prepare
from crosstraj.experiments.plan import Experiment, Values
from crosstraj.experiments.tables.make import make_table
from crosstraj.experiments.tables.results import area, read_result
from crosstraj.report.cells import NONE, rounded
from crosstraj.report.reading import read_run
from crosstraj.report.split_gains import Improvement, over_games
from crosstraj.report.statistics import spread

PPO: Values = {"method": "ppo", "preset": "default"}
FROZEN: Values = PPO | {"encoder_grad": "none"}


def plan_of(
    variants: dict[str, Values],
    games: tuple[str, ...] = ("bigfish",),
    seeds: tuple[int, ...] = (0, 1),
    table: str = "returns",
) -> Experiment:
    return Experiment("e", "A title", "A source.", 100, games, seeds, variants, table)


def fill(job: Job, rows: list[dict[str, Any]], seconds: float = 0.5) -> None:
    job.directory.mkdir(parents=True)
    lines = [json.dumps(row) + "\n" for row in rows]
    (job.directory / "metrics.jsonl").write_text("".join(lines))
    steps = [row["frames"] for row in rows if row["row"] == "update"]
    timing = [json.dumps({"frames": f, "seconds": seconds}) + "\n" for f in steps]
    (job.directory / "timing.jsonl").write_text("".join(timing))


def update(frames: int, **figures: float) -> dict[str, Any]:
    return {"row": "update", "frames": frames, **figures}


def judged(frames: int, unseen: float, seen: float = 9.0) -> dict[str, Any]:
    return {
        "row": "evaluation",
        "frames": frames,
        "seen_return": seen,
        "unseen_return": unseen,
    }


def test_a_cell_has_few_digits_and_no_deviation_of_one_value() -> None:
    assert [rounded(spread(v)) for v in ([2.0, 4.0], [2.0], [0.0012], [])] == [
        "3.00 ± 1.4",
        "2.00",
        "1.20e-03",
        "-",
    ]


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
    """A rollout has 8,192 frames: judged within one of the budget of 100, or not at all."""
    (job,) = prepare(plan_of({"a": PPO}, seeds=(0,)).runs(), tmp_path)
    fill(job, [update(8192), update(16384), judged(16384, 3.0)])
    assert not read_result(job).finished


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
    assert ["unseen return", "a", "b"] in lines
    assert ["bigfish", "3.00 ± 1.4", "7.00 ± 1.4*"] in lines
    assert ["coinrun", "7.50*", "-*"] in lines
    # normalised: bigfish (3 - 1) / 39, coinrun (7.5 - 5) / 5; b has no coinrun
    assert ["mean, normalised", f"{(2 / 39 + 0.5) / 2:.3f}", "-"] in lines
    rows = {(row[0], row[1]): row for row in lines if len(row) > 4}
    assert rows["a", "bigfish"][2:] == [
        *("2 of 2", "3.00 ± 1.4", "9.00 ± 0", "2.00 ± 0.71", "0.50 ± 0.35", "200")
    ]
    assert rows["a", "coinrun"][2:4] == ["partial: 1 of 2, no spread", "7.50"]
    assert rows["b", "bigfish"][2] == "partial: none of 2; shown at 60 to 70 of 100 frames"
    assert rows["b", "coinrun"][2:4] == ["not begun", "-"]
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
    assert ["validation return", "a", "b"] in lines
    assert ["bigfish", "20.50", "1.00"] in lines
    assert ["mean, normalised", "0.500", "0.000"] in lines
    assert ["b", "+0.500", "+0.500", "+0.500"] in lines
    (detail,) = (line for line in lines if line[:2] == ["a", "bigfish"])
    assert detail[3:6] == ["20.50", "9.00", "10.25"]  # the area: (0 + 20.5) / 2
    assert "99" not in text
    assert "unseen" not in text


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
        file = chance.file_of(job.config, "unseen")
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


def test_gains_are_differences_in_units_of_the_range_and_bold_where_they_are_clear(
    tmp_path: Path,
) -> None:
    """Bigfish has a range of 39, coinrun of 5; c has one seed in coinrun, d none."""
    variants = {"a": PPO, "b": FROZEN, "c": FROZEN | {"policy.epochs": 2}}
    variants["d"] = FROZEN | {"policy.epochs": 3}
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


def test_a_report_and_a_table_count_the_same_of_a_run(tmp_path: Path) -> None:
    (job,) = prepare(plan_of({"a": PPO}, seeds=(0,)).runs(), tmp_path)
    fill(job, [judged(50, 1.0), update(96), judged(104, 3.0), update(150), judged(150, 7.0)])
    config = to_dict(job.config) | {"frames": 100}
    (job.directory / "config.json").write_text(json.dumps({"config": config}))
    run, result = read_run(job.directory), read_result(job)
    assert run.final == (104, 9.0, 3.0)
    assert result.curve == [(e.frames, e.held_out) for e in run.reached.evaluations]
    assert result.frames == run.reached.frames == 104


def test_tables_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("precious")
    plan = plan_of({"a": PPO})
    with pytest.raises(BadInput, match="cannot be written"):
        make_table(plan, prepare(plan.runs(), tmp_path / "runs"), tmp_path / "out")


def test_a_trial_has_its_own_results() -> None:
    plan = plan_of({"a": PPO})
    assert default_out(plan) == Path("results/e")
    trial = Experiment(**{**vars(plan), "scale": 0.01})
    assert default_out(trial) == Path("results/e-scale-0.01")


def test_the_paper_s_own_column_has_these_statistics() -> None:
    """Table of split updates, SPR: bossfight's +10.36 makes the mean of +.74."""
    column = [0.15, 10.36, -0.02, -0.13, 0.14, 2.05, 0.12, -0.1, -0.03, 0.0]
    column += [0.08, -0.15, 0.03, -0.31, -0.18, -0.15]
    found = over_games([Improvement(x, -x) for x in column])
    assert found["mean"][0] == pytest.approx(0.74, abs=0.005)
    ordered = sorted(column)
    assert found["median"][0] == pytest.approx((ordered[7] + ordered[8]) / 2)
    assert found["IQM"][0] == pytest.approx(sum(ordered[4:12]) / 8)
    assert found["IQM"][1] == pytest.approx(-found["IQM"][0])


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


def test_the_mean_over_games_has_an_interval_where_seeds_are_even(tmp_path: Path) -> None:
    plan = plan_of({"a": PPO}, games=("bigfish", "coinrun"))
    jobs = prepare(plan.runs(), tmp_path / "runs")
    scores = {"bigfish/s0": 1.0, "bigfish/s1": 40.0, "coinrun/s0": 7.5, "coinrun/s1": 7.5}
    for job in jobs:
        fill(job, [update(100), judged(100, scores[job.planned.name.removeprefix("a/")])])
    text = make_table(plan, jobs, tmp_path / "out")[0].read_text()
    # normalised: bigfish 0 and 1, coinrun .5 and .5; drawn anew, bigfish's mean is 0, .5 or 1
    assert "| mean, normalised | 0.500 [0.250, 0.750] |" in text


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


@pytest.mark.parametrize(
    "name", ["learn_steps", "learn_rate", "health", "learn", "learn_1m", "recipe"]
)
def test_the_tables_in_results_are_those_of_the_logs_kept_there(name: str, tmp_path: Path) -> None:
    """Without any run directory, as in a fresh clone."""
    plan = read(Path(f"experiments/ours/{name}.toml"))
    jobs = prepare(plan.runs(), tmp_path / "runs", Path("results") / name)
    text = make_table(plan, jobs, tmp_path)[0].read_text()
    kept = Path(f"results/{name}/table.md").read_text()
    assert text == kept, f"experiments/ours/{name}.toml --table would change it"


# --- What codes are about

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
    assert margins["beats repeating the code before by .05 nats"] == {
        "bigfish": pytest.approx(0.01),
        "coinrun": pytest.approx(-0.01),
    }
    text = (tmp_path / "out" / "table.md").read_text()
    for words in (
        "beats repeating the code before by .05 nats",
        "beats the same heads on an untrained encoder by .05 nats",
        "shuffled partners cannot be foretold: within .02 of knowing nothing",
        "the actions are worth .02 nats",
        "variance between levels not above the untrained encoder's or PPO's",
        "levels per cluster above CTRL's",
    ):
        assert f"| {words} | 1 of 2 | coinrun |" in text
    assert "| beats position and time by .05 nats | 2 of 2 |  |" in text
    assert f"| cosine of v' below .7 | {NONE} | {NONE} |" in text  # there is no such loss


def test_a_demand_that_needs_a_run_that_is_missing_is_not_judged(tmp_path: Path) -> None:
    plan = replace(
        plan_of({"situations": SITUATIONS}, seeds=(0,), table="about"), judge="situations"
    )
    jobs = prepare(plan.runs(), tmp_path)
    fill(jobs[0], [update(20, knowing_all=3.0, knowing_before=3.5), judged(100, 1.0)])
    make_table(plan, jobs, tmp_path / "out")
    text = (tmp_path / "out" / "table.md").read_text()
    assert "| beats repeating the code before by .05 nats | 1 of 1 |  |" in text
    assert f"| levels per cluster above CTRL's | {NONE} | {NONE} |" in text
