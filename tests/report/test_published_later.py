"""Methods as published after 25M frames: the numbers, and below which variants they stand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosstraj.config.dotted import changed
from crosstraj.config.presets import plain
from crosstraj.config.stored import to_dict
from crosstraj.data.level_replay import ReplayConfig
from crosstraj.envs import ProcgenConfig
from crosstraj.objectives.drac import DrACConfig
from crosstraj.report.comparison import Comparison, compare
from crosstraj.report.document import Block, Table
from crosstraj.report.published import PAPER, paper_columns
from crosstraj.report.published_later import LATER, SOURCES, later_name
from crosstraj.report.reading import find_runs, read_run
from crosstraj.report.sections.later import later_returns
from crosstraj.report.sections.returns import returns
from tests.report.runs import make_run, report_on

pytestmark = pytest.mark.usefixtures("quick")

REPLAY = ReplayConfig(levels=True)
# Means of the ten runs of PPO, PPG, IDAAC, UCB-DrAC and PLR that came with rliable. Our columns of
# the first two are from these runs; those of the others are from elsewhere.
RLIABLE = """
bigfish    3.66 11.29 21.09  9.18 10.91
bossfight  7.40 10.18  9.95  7.79  8.94
caveflyer  5.03  7.20  5.22  4.99  6.32
chaser     3.56  9.51  7.03  6.26  6.90
climber    5.63  7.34  8.42  6.30  6.33
coinrun    8.60  8.77  9.39  8.55  8.76
dodgeball  1.58  2.32  3.28  4.13  1.78
fruitbot  26.14 28.27 29.08 27.60 28.02
heist      2.47  3.23  3.66  3.41  2.93
jumper     5.92  5.61  6.60  6.26  5.83
leaper     4.90  8.76  7.99  4.83  6.83
maze       5.51  5.50  5.71  6.27  5.49
miner      8.59  7.38  9.79  8.98  9.56
ninja      5.89  6.65  6.94  6.57  7.24
plunder    5.20 14.99 23.99  8.32  8.68
starpilot 24.90 48.05 37.53 30.07 27.90
"""
# The column of uniform levels in PLR's table, by which its last row divides.
UNIFORM = (3.7, 7.7, 5.4, 5.2, 5.9, 8.6, 1.7, 27.3, 2.8, 5.7, 4.2, 5.5, 8.7, 6.0, 5.1, 26.8)


@pytest.mark.parametrize(
    ("place", "column", "share", "error"),
    [
        (0, "PPO", 0.0, 0.051),  # rounded
        (1, "PPG", 0.0, 0.051),
        (2, "IDAAC", 0.13, 0.0),
        (3, "UCB-DrAC", 0.03, 0.0),
        (4, "PLR", 0.0, 0.051),
    ],
)
def test_columns_agree_with_the_runs_of_rliable_game_by_game(
    place: int, column: str, share: float, error: float
) -> None:
    rows = dict(line.split(maxsplit=1) for line in RLIABLE.strip().splitlines())
    means = {game: float(row.split()[place]) for game, row in rows.items()}
    ours = {game: entry.mean for game, entry in LATER[column].items()}
    assert ours == pytest.approx(means, rel=share, abs=error)


def test_columns_of_plr_have_the_normalised_means_that_its_table_ends_with() -> None:
    for column, printed in (("PLR", 128.3), ("UCB-DrAC + PLR", 176.4)):
        means = [entry.mean for entry in LATER[column].values()]
        assert 100 * np.mean(np.divide(means, UNIFORM)) == pytest.approx(printed, abs=0.4)


def test_every_column_has_all_games_and_a_source() -> None:
    assert SOURCES.keys() == LATER.keys()
    assert all(column.keys() == PAPER["PPO"].keys() for column in LATER.values())
    assert LATER["DAAC"]["plunder"].mean == 20.5
    assert LATER["IDAAC"]["starpilot"] == (37.0, 2.3)
    assert LATER["UCB-DrAC + PLR"]["dodgeball"] == (10.3, 1.4)


@pytest.mark.parametrize(
    ("method", "values", "paper", "later"),
    [
        ("ppo", {}, ["PPO"], "PPO"),
        ("ppo", {"encoder": "laptop", "policy.epochs": 3}, ["PPO"], "PPO"),
        ("ppo", {"pooling": "mean"}, [], ""),  # Impoola: no numbers by game were found
        ("ppo", {"replay.levels": True}, [], "PLR"),
        ("ppo", {"replay.levels": True, "pooling": "mean"}, [], ""),
        ("ppo", {"encoder_grad": "none"}, [], ""),
        ("ppo", {"start": "a" * 64}, [], ""),
        ("ppo", {"memory": "gru", "policy.stretch": 32, "policy.advantages": "rollout"}, [], ""),
        ("daac", {}, ["DAAC"], "DAAC"),
        ("daac", {"replay.levels": True}, [], ""),
        ("idaac", {}, [], "IDAAC"),
        ("idaac", {"objective.weight": 0.0}, [], ""),
        ("idaac", {"representation.weight": 0.0}, [], ""),
        ("idaac", {"pooling": "mean"}, [], ""),
        ("ppg", {}, [], "PPG"),
        ("drac", {}, [], ""),
        ("drac", {"replay.levels": True}, [], ""),
        ("drac", {"objective.augmentation": "ucb"}, [], "UCB-DrAC"),
        ("drac", {"objective.augmentation": "ucb", "pooling": "mean"}, [], ""),
        (
            "drac",
            {"objective.augmentation": "ucb", "replay.levels": True},
            [],
            "UCB-DrAC + PLR",
        ),
        ("atc", {}, [], ""),
        ("ctrl", {}, ["CTRL"], ""),
        ("ctrl", {"replay.levels": True}, [], ""),
        ("ctrl", {"pooling": "mean"}, [], ""),
    ],
)
def test_a_run_has_the_columns_of_what_its_values_make_of_it(
    method: str, values: dict[str, Any], paper: list[str], later: str
) -> None:
    config = to_dict(changed(plain(method), values))
    assert list(paper_columns(config)) == paper
    assert later_name(config) == later


def test_another_policy_below_an_objective_has_no_column() -> None:
    on_ppg = to_dict(plain("ctrl")) | {"policy": {"kind": "ppg"}}
    assert (paper_columns(on_ppg), later_name(on_ppg)) == ({}, "")
    on_ppo = to_dict(plain("idaac")) | {"policy": {"kind": "ppo"}}
    assert later_name(on_ppo) == ""


def compared(root: Path) -> Comparison:
    (comparison,) = compare([read_run(path) for path in find_runs([root])])
    return comparison


def table(blocks: list[Block]) -> Table:
    (only,) = blocks
    assert isinstance(only, Table)
    return only


def test_each_method_as_published_stands_once_below_the_last_variant_that_it_is_about(
    tmp_path: Path,
) -> None:
    make_run(tmp_path, "ppo")
    make_run(tmp_path, "ppo on maze", env="maze", finals=[(1000, 9.0, 6.0)])
    make_run(tmp_path, "laptop", encoder="laptop")
    make_run(tmp_path, "impoola", pooling="mean")
    make_run(tmp_path, "plr", replay=REPLAY)
    make_run(tmp_path, "crop", "drac")
    make_run(tmp_path, "ucb", "drac", objective=DrACConfig(augmentation="ucb"))
    make_run(tmp_path, "daac", "daac")
    comparison = compared(tmp_path)
    found = table(later_returns(comparison))
    ours, theirs = "1,000", "25,000,000"
    assert found.head == ["variant", "frames", "source", "coinrun", "maze"]
    assert found.rows == [
        ["ppo", ours, "ours", "1.00 (1)", "6.00 (1)"],
        ["ppo, encoder=laptop", ours, "ours", "1.00 (1)", "–"],
        ["PPO, published", theirs, "Agarwal 2021, its data", "8.6 ± 0.2", "5.5 ± 0.3"],
        ["ppo, replay.levels=True", ours, "ours", "1.00 (1)", "–"],
        ["PLR, published", theirs, "Jiang 2021, table 2", "8.8 ± 0.5", "5.5 ± 0.8"],
        ["daac", ours, "ours", "1.00 (1)", "–"],
        ["DAAC, published", theirs, "Raileanu 2021, fig. 7", "9.3", "5.5"],
        ["drac, augmentation=ucb", ours, "ours", "1.00 (1)", "–"],
        ["UCB-DrAC, published", theirs, "Bertoin 2022, table 2", "8.8 ± 0.2", "6.3 ± 0.1"],
        ["random play", "–", "ours", "2.97", "4.08"],
    ]
    assert "after 25,000,000 frames; ours have another budget" in found.caption
    # Of Impoola and PLR, PPO's columns say nothing.
    assert table(returns(comparison)).head[:6] == [
        *("game", "ppo", "ppo, encoder=laptop", "PPO, paper"),
        *("ppo, pooling=mean", "ppo, replay.levels=True"),
    ]


def test_a_single_run_has_its_method_as_published_below_its_table(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "r", "ppg", frames=25_000_000, finals=[(25_000_000, 9.0, 9.0)])
    assert "CTRL paper" not in table(returns(compared(tmp_path / "runs"))).caption
    page = report_on(tmp_path / "runs")
    assert "| PPG, published | 25,000,000 | Agarwal 2021, its data | 8.8 ± 0.8 |" in page
    assert "| PPO, published |" in page  # to hold it against
    assert "published: after 25,000,000 frames." in page.lower()  # the same budget


def test_without_a_later_method_there_is_no_such_table(tmp_path: Path) -> None:
    make_run(tmp_path, "ppo")
    make_run(tmp_path, "daac", "daac")
    make_run(tmp_path, "ctrl", "ctrl")
    make_run(tmp_path, "atc", "atc")
    assert later_returns(compared(tmp_path)) == []


@pytest.mark.parametrize("procgen", [ProcgenConfig(mode="hard"), ProcgenConfig(train_levels=500)])
def test_other_modes_and_numbers_of_levels_have_no_such_table(
    procgen: ProcgenConfig, tmp_path: Path
) -> None:
    make_run(tmp_path, "plr", replay=REPLAY, procgen=procgen)
    make_run(tmp_path, "ppg", "ppg", procgen=procgen)
    assert later_returns(compared(tmp_path)) == []
