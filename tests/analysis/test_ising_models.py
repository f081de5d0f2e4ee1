"""The Ising study: silhouettes and Rand indices known by construction, the rule, the table."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosstraj.analysis.ising_models import clustered, environments, fixed_choices, measure
from crosstraj.cli import experiment
from crosstraj.cli.main import main
from crosstraj.config.presets import preset
from crosstraj.config.values import Config
from crosstraj.envs import IsingConfig
from crosstraj.errors import BadInput
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.tables.ising import ising, sentences, table
from crosstraj.experiments.tables.ising_runs import PAPER, Row, answers, changes, largest_change
from crosstraj.experiments.tables.results import Result
from crosstraj.objectives.base import Clustering
from crosstraj.objectives.ctrl import CTRLConfig

STUDY = Path("experiments/paper/ising.toml")
SMALL = IsingConfig(side=8, horizon=12, goal_sweeps_most=60)


def small(**values: Any) -> Config:
    config = preset("ctrl", "default")
    assert isinstance(config.objective, CTRLConfig)
    objective = replace(config.objective, sampling="consecutive", **values)
    return replace(config, env="ising", encoder="lattice", ising=SMALL, objective=objective)


# ---- what is measured ----


def looking(reads: str) -> Clustering:
    """Its v is the one-hot model in the first frame, or the one-hot first action."""

    def embed(features: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return torch.eye(5)[features[:, 0, 0].long() if reads == "frames" else action[:, 0]]

    return Clustering(2, torch.eye(5), 0.1, 3, embed)


MODEL = np.arange(200) % 5
FEATURES = torch.from_numpy(MODEL)[:, None, None].expand(200, 2, 3).float()


def test_clusters_that_are_the_models_have_silhouette_and_rand_index_one() -> None:
    found = clustered(looking("frames"), FEATURES, MODEL, 5)
    assert found == pytest.approx((1, 1, 1, 1, 1), abs=1e-6)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")  # all v are equal
def test_clusters_that_read_the_action_are_found_out_by_equal_actions() -> None:
    found = clustered(looking("actions"), FEATURES, MODEL, 5)
    assert found == pytest.approx((1, 1, 1, 0, 0), abs=1e-6)


def test_clusters_of_something_else_have_no_likeness_to_the_models() -> None:
    mixed = torch.from_numpy(np.random.default_rng(0).integers(0, 5, 200))
    features = mixed[:, None, None].expand(200, 2, 3).float()
    *_, rand, alike, means = clustered(looking("frames"), features, MODEL, 5)
    assert abs(rand) < 0.05
    assert (alike, abs(means) < 0.05) == (pytest.approx(rand), True)


def test_v_may_tell_models_apart_that_the_prototypes_do_not() -> None:
    cut = looking("frames")._replace(prototypes=torch.ones(5, 5) / 5**0.5)
    *_, rand, alike, means = clustered(cut, FEATURES, MODEL, 5)
    assert (rand, alike) == pytest.approx((0, 0), abs=0.05)
    assert means == pytest.approx(1)


def test_games_of_fixed_choices_have_equally_many_views_of_each_model_and_its_rewards() -> None:
    config = small(keypoints=2)
    config = replace(config, ising=replace(SMALL, side=32))
    games = fixed_choices(config, environments(config), looking("frames"))
    assert games.frames.shape == (20 * 5 * 2, 2, 32, 32, 1)  # of 5 late steps 2 pairs
    assert np.bincount(games.model).tolist() == [40] * 5
    colder = games.frames[games.model == 4] == 255
    hotter = games.frames[games.model == 0] == 255

    def alike(up: Any) -> float:
        return float((up == np.roll(up, 1, axis=2)).mean())

    assert alike(colder) > alike(hotter) + 0.08
    # Two frames of a view follow each other: the coldest model remembers (.38 at β = .3).
    assert (colder[:, 0] == colder[:, 1]).mean() > 0.6
    assert games.reward.shape == (5,)
    assert games.reward.argmax() == 0  # instance 0 has the hottest goal
    again = fixed_choices(config, environments(config), looking("frames"))
    assert (again.frames == games.frames).all()


def test_a_run_is_measured_from_its_directory_and_anything_else_is_refused(tmp_path: Path) -> None:
    command = (
        *("train", "--method", "ctrl", "--env", "ising", "--encoder", "lattice"),
        *("--frames", "256", "--envs", "4", "--rollout-steps", "64", "--ising.side", "8"),
        *("--objective.clusters", "3", "--representation.minibatches", "2"),
        *("--policy.minibatches", "2", "--evaluation.episodes", "2", "--evaluation.envs", "2"),
        *("--machine.threads", "1", "--saving.runs", str(tmp_path)),
    )
    assert main(command) == 0
    (run,) = tmp_path.iterdir()
    found = measure(run)
    assert found == measure(run)
    assert found.clusters == 3
    assert -1 <= found.silhouette <= 1
    assert -0.1 < found.rand_alike <= 1
    config = json.loads((run / "config.json").read_bytes())
    config["config"]["env"] = "bigfish"
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadInput, match="CTRL on ising is needed"):
        measure(run)


# ---- the rule and the table ----


def test_the_rule_finds_the_papers_five_in_the_papers_numbers() -> None:
    silhouettes = {e: silhouette for e, (_, silhouette) in PAPER.items()}
    change = changes(silhouettes)
    assert change[5] == pytest.approx(0.145)
    assert change[4] == pytest.approx(0.079 / 2, abs=1e-9)  # two clusters at once
    assert change[50] == pytest.approx(0.515 / 44)
    assert 2 not in change
    assert max(change, key=lambda e: change[e]) == 5


def test_a_change_counts_whichever_way_it_goes_and_every_number_is_needed() -> None:
    flat = dict.fromkeys(range(2, 9), 0.5)
    assert largest_change(flat | {6: 0.9, 7: 0.8, 8: 0.7}) == 6
    assert largest_change(flat | {8: 0.1}) == 8
    assert largest_change(flat | {50: -1.0}) == 3  # a tie: the first
    assert largest_change({e: s for e, s in flat.items() if e != 4}) is None
    assert largest_change(flat | {4: math.nan}) is None


def rows() -> list[Row]:
    """Two seeds: the largest change is at 5 for seed 0 and at 3 for seed 1."""
    found = []
    for seed, jump in ((0, 5), (1, 3)):
        for e in (2, 3, 4, 5, 6, 7, 8, 50):
            silhouette = 0.8 - 0.01 * e - (0.2 if e >= jump else 0)
            arms = [-0.9, -0.5, -0.1, -0.2, -0.3]
            found.append(Row(seed, e, -0.2, silhouette, 0.1, 0.5, 0.25, 0.75, arms))
    return found


def test_the_rule_is_applied_to_every_seed_on_its_own() -> None:
    assert answers(rows()) == {0: 5, 1: 3}
    partly = [r for r in rows() if r.seed == 0 or r.clusters != 7]
    assert answers(partly) == {0: 5}
    assert "In 1 of 2 seeds; it is at E = 5 (seed 0), 3 (seed 1)" in sentences(
        rows(), answers(rows())
    )
    assert "no answer" in sentences([], {})


def test_the_table_has_spreads_bounds_and_the_papers_numbers() -> None:
    lines = table(rows()).split("\n")
    five = next(line for line in lines if line.startswith("| 5 |")).split(" | ")
    # Return; share (-.2 + .4) / (-.1 + .4); silhouettes .55 and .55; changes .21 and .01.
    assert five[1:6] == ["2", "-0.200 ± 0.000", "0.667 ± 0.000", "0.550 ± 0.000", "0.110 ± 0.141"]
    assert five[6:9] == ["0.500 ± 0.000", "0.250 ± 0.000", "0.750 ± 0.000"]
    assert five[9:] == ["-0.020", "0.651", "0.145 |"]
    assert "| 3 | 2 |" in "\n".join(lines)
    text = "\n".join(lines)
    assert "| uniform policy | 2 | -0.400 ± 0.000 |" in text
    assert "| best arm | 2 | -0.100 ± 0.000 |" in text
    assert "| worst arm | 2 | -0.900 ± 0.000 |" in text


def test_table_figure_and_drawing_are_written_also_of_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read(STUDY)
    empty = [
        Result(
            *(run.variant, run.game, run.seed, 1, "x", True, 0, False),
            *("unseen", [], {}, {}, math.nan, ""),
        )
        for run in plan.runs()
    ]
    files = ising(plan, empty, tmp_path)
    assert [file.name for file in files] == ["table.md", "table.json", "task.png"]
    assert "**Partial**: 0 of 50 runs" in (tmp_path / "table.md").read_text()
    monkeypatch.setattr("crosstraj.experiments.tables.ising.measured", lambda results: rows())
    # Drawn just now.
    monkeypatch.setattr("crosstraj.experiments.tables.ising.draw_task", lambda path: path)
    files = ising(plan, empty, tmp_path)
    assert {"figure.png", "task.png"} < {file.name for file in files}
    assert all(file.stat().st_size > 0 for file in files)
    values = json.loads((tmp_path / "table.json").read_bytes())
    assert values["largest change in silhouette at, by seed"] == {"0": 5, "1": 3}


# ---- the file ----


def test_the_study_has_ten_numbers_of_clusters_and_a_goal_for_each_seed() -> None:
    jobs = prepare(read(STUDY).runs(), Path("runs"))
    assert len(jobs) == 50
    clusters = [job.config.objective.clusters for job in jobs[:10]]  # type: ignore[union-attr]
    assert clusters == [2, 3, 4, 5, 6, 7, 8, 10, 20, 50]
    assert all(job.config.ising.instance == job.config.seed for job in jobs)
    assert {job.config.seed for job in jobs} == set(range(5))


def test_quick_is_the_scale_that_the_file_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.experiment([str(STUDY), "--quick", "--list"])
    listed = capsys.readouterr().out
    assert "# 10 runs" in listed
    assert "--ising.instance 0" in listed
    other = tmp_path / "other.toml"
    other.write_text(STUDY.read_text().replace("quick = ", "# "))
    with pytest.raises(BadInput, match="names no `quick`"):
        experiment.experiment([str(other), "--quick", "--list"])
    other.write_text(STUDY.read_text().replace("quick = 0", "quick = 2"))
    with pytest.raises(BadInput, match=r"quick=2.*must be above 0"):
        experiment.experiment([str(other), "--list"])
