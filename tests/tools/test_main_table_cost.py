"""The cost of the main table: arithmetic by hand; counts and page fit the experiment."""

import json
from pathlib import Path

import pytest

from tools.main_table_cost import (
    TIMED,
    Machine,
    Row,
    by_machine,
    by_variant,
    counted,
    machines,
    planned,
    tables,
)


def test_the_tables_by_hand() -> None:
    """Two runs of 10^6 frames of 500 MFLOP are 10^15 FLOP; at 10^9 FLOP/s that is 278 hours."""
    row = Row("a | b", 2, 10**6, 500.0)
    assert row.petaflops == pytest.approx(1)
    machine = Machine("slow", gflops=2.0, share=0.5, known="made up")
    assert machine.hours(row.petaflops) == pytest.approx(1e15 / 1e9 / 3600)
    assert by_machine(row.petaflops, [machine]).splitlines()[-1] == (
        "| slow | 2 | 50% | 278 | 12 | made up |"
    )
    large = Row("b", 3, 10**9, 1000.0)
    assert by_variant([row, large]).splitlines()[2:] == [
        r"| a \| b | 2 | 1,000,000 | 500 | 1 |",
        "| b | 3 | 1,000,000,000 | 1000 | 3,000 |",
        "| **total** | 5 |  |  | 3,001 |",
    ]


def test_the_first_machine_is_the_one_that_was_timed_and_the_next_follow_from_it() -> None:
    fractions = {"ppo": {"fraction": 0.9}, "ctrl": {"fraction": 0.8}}
    timed = {"limit_gflops": 100.0, "threads": 4, "contenders": fractions, "vectors": "AVX2"}
    first, second, third, *_ = machines(timed)
    assert (first.kind, first.gflops, first.share) == ("4 cores, AVX2", 100.0, 0.8)
    assert (second.gflops, second.share, second.known) == (800.0, 0.8, "8 times the first")
    assert third.kind == "NVIDIA T4"
    fractions |= {"ppo, bf16": {"fraction": 1.5}, "ctrl, bf16": {"fraction": 1.6}}
    coarse = machines(timed)[2]
    assert (coarse.kind, coarse.gflops, coarse.share) == ("32 such cores, bf16", 800.0, 1.5)


def test_what_was_counted_are_the_runs_of_the_experiment() -> None:
    assert {row.variant: (row.runs, row.frames) for row in counted()} == planned()


def test_the_counts_agree_with_those_of_the_benchmarks() -> None:
    """`make bench-full` counts larger rollouts, and the first phase alone where there are two."""
    found = {row.variant: row.mflops for row in counted()}
    ppo = json.loads(TIMED.read_text())["contenders"]["ppo"]["mflops_per_frame"]
    assert found["ppo:paper"] == pytest.approx(ppo, rel=1e-3)
    # The recipe: 42 % of the encoder; acted once, and learnt from three times instead of once.
    assert found["ppo"] == pytest.approx(
        0.42 * (1 + 3 * 3) / (1 + 3) * found["ppo:paper"], rel=0.05
    )
    rows = json.loads(Path("results/bench/full.json").read_text())["methods"]
    ratios = {row["name"]: row["flops"] for row in rows}
    for method in ("daac", "dbc", "curl", "ctrl"):
        assert found[f"{method}:paper"] == pytest.approx(ratios[method] * ppo, rel=0.03), method
    for method in ("proto", "diayn"):  # their second half is cheaper
        assert 0.3 * ratios[method] < found[f"{method}:paper"] / ppo < ratios[method]


def test_the_page_on_clusters_has_these_tables() -> None:
    page = Path("docs/cluster.md").read_text()
    assert tables() in page, "python -m tools.main_table_cost prints other tables; paste them"
