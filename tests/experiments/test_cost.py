"""Costs from timing logs, forecasts from costs, and the ledger of both."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.main import main
from crosstraj.config.groups import MachineConfig
from crosstraj.config.presets import preset
from crosstraj.config.stored import FORMAT, to_dict
from crosstraj.experiments.cost import Cost, bill, cost_of, forecast, rates
from crosstraj.experiments.jobs import Job, prepare
from crosstraj.experiments.plan import Experiment, Values
from tests.conftest import Trained
from tools.ledger import ledger

PPO: Values = {"method": "ppo", "preset": "default", "encoder": "laptop"}
HOUR = 3600.0


def kept(path: Path, rows: list[dict[str, Any]], **changes: Any) -> Path:
    """The logs of a run with 2 threads, in a run directory or in a kept file."""
    config = replace(
        preset("ppo", "default"), encoder="laptop", machine=MachineConfig(threads=2), **changes
    )
    values = {"format": FORMAT, "config": to_dict(config)}
    if path.suffix == ".jsonl":
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"row": "run", **values}, *({"row": "timing", **row} for row in rows)]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return path
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(values))
    (path / "timing.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def timed(frames: int, seconds: float, processor: float | None = None) -> dict[str, Any]:
    more = {} if processor is None else {"processor": processor}
    return {"frames": frames, "seconds": seconds, **more}


def jobs_of(tmp_path: Path, variants: dict[str, Values], frames: int = 1000) -> list[Job]:
    plan = Experiment("e", "t", "r", frames, ("bigfish",), (0, 1), variants, "returns")
    return prepare(plan.runs(), tmp_path / "runs", tmp_path / "kept/e")


def test_the_processor_counts_where_it_was_asked_and_else_the_clock_times_the_threads(
    tmp_path: Path,
) -> None:
    clock = kept(tmp_path / "clock", [timed(100, HOUR), timed(200, HOUR / 2)])
    assert cost_of(clock) == Cost(200, 3.0, by_clock=True)
    asked = kept(tmp_path / "asked", [timed(100, HOUR, 0.5 * HOUR), timed(200, HOUR, HOUR)])
    assert cost_of(asked) == Cost(200, 1.5, by_clock=False)
    mixed = kept(tmp_path / "mixed", [timed(100, HOUR), timed(200, HOUR, HOUR)])
    assert cost_of(mixed) == Cost(200, 3.0, by_clock=True)


def test_a_longer_run_counts_up_to_the_rollout_that_reaches_the_budget(tmp_path: Path) -> None:
    run = kept(tmp_path / "run", [timed(frames, 0.0, HOUR) for frames in (100, 200, 300)])
    budgets = {100: 1.0, 101: 2.0, 200: 2.0, 300: 3.0, 999: 3.0}
    for budget, hours in budgets.items():
        cost = cost_of(run, budget)
        assert cost is not None
        assert cost.hours == hours
    assert cost_of(tmp_path) is None
    assert cost_of(kept(tmp_path / "silent", [])) is None


def test_a_forecast_takes_the_median_of_like_runs_and_names_what_is_unknown(
    tmp_path: Path,
) -> None:
    """By hand: 1, 2 and 9 seconds per frame, so 1,000 frames are 2,000 seconds; half is done."""
    for seed, seconds in enumerate((1.0, 2.0, 9.0)):
        file = tmp_path / f"kept/e/same/bigfish-s{seed}.jsonl"
        kept(file, [timed(10, 0.0, 10 * seconds)], seed=seed)
    kept(tmp_path / "runs/c", [timed(10, 0.0, 9e9)], seed=2)  # the same run in both counts once
    variants = {
        "same": PPO,
        "like": PPO | {"policy.epochs": 2},
        "else": PPO | {"encoder": "impala"},
    }
    jobs = jobs_of(tmp_path, variants)
    jobs[0].directory.mkdir(parents=True)
    (jobs[0].directory / "metrics.jsonl").write_text('{"row":"update","frames":500}\n')
    known = rates([tmp_path / "kept", tmp_path / "runs", tmp_path / "nowhere"])
    text = forecast(jobs, known, cores=2).splitlines()
    assert text[0] == "0 of 6 runs are finished; 6 would run"
    assert f"same/bigfish/s0: 500 frames to go, {1000 / HOUR:.2f} processor-hours" in text
    assert f"same/bigfish/s1: 1,000 frames to go, {2000 / HOUR:.2f} processor-hours" in text
    assert "else/bigfish/s0: 1,000 frames to go, no rate is known" in text
    same = "same: 2000.00 ms per frame, the median of 3 runs with all the same values"
    assert same in text
    like = "the same method, preset and encoder"
    assert f"like: 2000.00 ms per frame, the median of 3 runs with {like}" in text
    hours = (0.5 + 1 + 1 + 1) * 2000 / HOUR
    assert f"in total {hours:.2f} processor-hours; {hours / 2:.2f} h on 2 cores" in text
    assert text[-1].startswith("without 2 runs, 2,000 frames, ")
    assert ": else; train one of each" in text[-1]


def test_a_dry_run_of_some_runs_begins_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path / "kept/other/a/bigfish-s0.jsonl", [timed(10, 0.0, 36.0)])
    (tmp_path / "e.toml").write_text(
        "name = 'e'\ntitle = 't'\nreproduces = ''\nframes = 1000\ngames = ['bigfish', 'coinrun']\n"
        "seeds = [0]\nmethods = ['ppo']\n[base]\nencoder = 'laptop'\n"
    )
    places = ("--runs", str(tmp_path / "runs"), "--kept", str(tmp_path / "kept"))
    command = ["experiment", str(tmp_path / "e.toml"), "--dry-run", "--only", "coinrun", *places]
    assert main(command) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "0 of 1 runs are finished; 1 would run"
    assert out[1] == "ppo/coinrun/s0: 1,000 frames to go, 1.00 processor-hours"
    assert main([*command, "--cores", "4", "--price", "10"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "in total 1.00 processor-hours; 0.25 h on 4 cores" in out
    assert out[-1] == "at 10 per hour of 4 cores: 2.50"
    for words in (["--cores", "-1"], ["--price", "-1"]):
        assert main([*command, *words]) == 2
    command.remove("--dry-run")
    assert main([*command, "--price", "1"]) == 2
    assert "--cores and --price are for --dry-run" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_bill_by_hand() -> None:
    """100 runs of 12 processor-hours: 1,200, so 37.5 h on 32 cores, and 2 machines for a day."""
    assert bill([12.0] * 100, cores=32, price=1.6) == [
        "in total 1200.00 processor-hours; 37.50 h on 32 cores",
        "within a day on 2 machines with 32 cores",
        "at 1.6 per hour of 32 cores: 60.00",
    ]
    assert bill([24.0] * 32, cores=32, price=0.0) == [
        "in total 768.00 processor-hours; 24.00 h on 32 cores"
    ], "a day is a day: one machine"
    assert bill([1.0, 3.0], cores=2, price=0.0) == [
        "in total 4.00 processor-hours; 2.00 h on 2 cores",
        "not before 3.00 h with one thread per run, which the longest run takes",
    ]
    (late,) = [line for line in bill([30.0] * 100, cores=64, price=0.0) if "within" in line]
    assert late.endswith("; but the longest run takes more, with one thread")


def test_machine_values_make_runs_different_and_threads_do_not(tmp_path: Path) -> None:
    kept(tmp_path / "kept/other/a/bigfish-s0.jsonl", [timed(10, 5.0)])
    known = rates([tmp_path / "kept"])
    plain, other = (jobs_of(tmp_path, {"a": PPO | {"machine.piece": n}})[0] for n in (128, 64))
    assert "no rate" not in forecast([plain], known, 1)
    assert "by the clock, evaluations not counted" in forecast([plain], known, 1)
    assert forecast([other], known, 1).count("no rate is known") == 1


def test_the_ledger_counts_shared_runs_once_in_its_total_and_says_what_is_not_kept(
    tmp_path: Path,
) -> None:
    results, files = tmp_path / "results", tmp_path / "experiments"
    (files / "ours").mkdir(parents=True)
    for name, frames in (("short", 100), ("long", 200), ("unrun", 999)):
        (files / f"ours/{name}.toml").write_text(
            f"name = '{name}'\ntitle = 'About {name}'\nreproduces = ''\nframes = {frames}\n"
            "games = ['bigfish']\nseeds = [0, 1]\nmethods = ['ppo']\n[base]\nencoder = 'laptop'\n"
        )
    for name in ("short", "long"):  # the same run, kept by both
        file = results / name / "ppo/bigfish-s0.jsonl"
        kept(file, [timed(n, 0.0, HOUR) for n in (100, 200)])
    kept(results / "other/run", [timed(50, HOUR)])
    (results / "lost").mkdir()
    (results / "report").mkdir()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]]
             for line in ledger(files, results).splitlines()]  # fmt: skip
    assert ["`short`: About short", "1 of 2", "100", "1.00", "processor"] in lines
    assert ["`long`: About long", "1 of 2", "200", "2.00", "processor"] in lines
    assert ["`unrun`: About unrun", "0 of 2", "", "no results", ""] in lines
    assert ["other", "1", "50", "2.00", "clock"] in lines
    assert ["lost", "0", "", "not kept", ""] in lines
    assert ["**total**", "2", "250", "4.00", "both"] in lines
    assert not any("report" in cell or cell == "runs" for line in lines for cell in line)


def test_a_run_records_the_processors_time(trained: Trained) -> None:
    rows = [json.loads(line) for line in (trained.directory / "timing.jsonl").open()]
    assert len(rows) == 2
    assert all(row["processor"] > 0 for row in rows)
    cost = cost_of(trained.directory)
    assert cost is not None
    assert not cost.by_clock


def test_the_ledger_in_results_is_that_of_the_logs_kept_there() -> None:
    text = ledger(Path("experiments"), Path("results"))
    kept_text = Path("results/ledger.md").read_text()
    assert text == kept_text, "python -m tools.ledger would change results/ledger.md"
