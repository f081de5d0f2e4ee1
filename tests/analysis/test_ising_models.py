"""The Ising study: silhouettes and Rand indices known by construction, the rule, the table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosstraj.analysis.ising_models import clustered, environments, fixed_choices, measure
from crosstraj.cli.main import main
from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.envs import IsingConfig
from crosstraj.errors import BadInput
from crosstraj.objectives.base import Clustering
from crosstraj.objectives.ctrl import CTRLConfig

SMALL = IsingConfig(side=8, horizon=12, goal_sweeps_most=60)


def small(**values: Any) -> Config:
    config = plain("ctrl")
    assert isinstance(config.objective, CTRLConfig)
    objective = replace(config.objective, sampling="consecutive", **values)
    return replace(config, env="ising", encoder="lattice", ising=SMALL, objective=objective)


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
