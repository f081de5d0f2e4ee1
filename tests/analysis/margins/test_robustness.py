"""What changes of frames do to the clusters of a run: views as in training, inside episodes."""

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from crosstraj.analysis.margins.perturb import PERTURBATIONS
from crosstraj.analysis.margins.robustness import draw_points, look
from crosstraj.cli.main import main
from crosstraj.errors import BadInput
from crosstraj.learning.load import read_config
from crosstraj.nn import ops
from crosstraj.nn.encoders import Encode
from crosstraj.objectives.base import Clustering
from tests.conftest import TINY, Trained
from tests.helpers import rng


class Mean(torch.nn.Module):
    """The mean of the first and of the last channel: two features that follow the colours."""

    def forward(self, frames: Tensor) -> Tensor:
        return frames.double().mean((1, 2))[:, [0, -1]]


def test_exactly_one_frame_of_each_view_is_perturbed() -> None:
    frames = torch.randint(60, 200, (30, 4, 4, 3), generator=rng(7), dtype=torch.uint8)
    points = torch.stack([torch.randperm(30, generator=rng(seed))[:3] for seed in range(20)])
    told: list[Tensor] = []

    def embed(features: Tensor, action: Tensor) -> Tensor:
        assert (action == torch.arange(30)[points]).all()
        told.append(features)
        return features.flatten(1)

    clustering = Clustering(3, ops.unit(torch.randn(4, 6, generator=rng(8))), 0.3, 3, embed)
    encode = Encode(Mean(), live=False, piece=8)
    look(clustering, encode, frames, torch.arange(30), points, rng(9), seed=0)
    *perturbed, plain = told
    assert len(perturbed) == len(PERTURBATIONS)
    assert plain == pytest.approx(Mean()(frames)[points].numpy())
    changed = [(features != plain).any(2) for features in perturbed]
    places = dict(zip(PERTURBATIONS, changed, strict=True))
    assert (places["colour"].sum(1) == 1).all()
    for place in places.values():  # a shift may be by nothing, another view may share the frame
        assert (place <= places["colour"]).all()
    assert len(places["colour"].long().argmax(1).unique()) == 3


class Grains(gymnasium.Env[Any, int]):
    """Black and white 32 x 32 x 1 frames, as of a lattice; episodes of five steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (32, 32, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        return self._frame(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._frame(), float(action), False, False, {}

    def _frame(self) -> Any:
        return (255 * self.np_random.integers(2, size=(32, 32, 1))).astype(np.uint8)


gymnasium.register("Grains-v0", entry_point=Grains, max_episode_steps=5)


def train_ctrl(runs: Path, *values: str) -> Path:
    tiny = ("--frames", "256", "--machine.threads", "1", "--objective.clusters", "8")
    small = ("--representation.minibatches", "2", "--objective.width", "16")
    command = ("train", "--method", "ctrl", *TINY, *tiny, *small, *values)
    assert main([*command, "--saving.runs", str(runs)]) == 0
    (run,) = runs.iterdir()
    return run


@pytest.fixture(scope="module")
def ctrl_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_ctrl(tmp_path_factory.mktemp("ctrl"))


def test_a_run_is_measured_printed_and_written(
    ctrl_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    for out, levels in (("first", "unseen"), ("second", "unseen"), ("other", "seen")):
        command = ["margins", str(ctrl_run), "--out", str(tmp_path / out), "--levels", levels]
        assert main(command) == 0
    said = capsys.readouterr().out
    assert all(kind in said for kind in PERTURBATIONS)
    first, second, other = (
        (tmp_path / out / "margins.json").read_bytes() for out in ("first", "second", "other")
    )
    assert first == second  # one seed, one result
    figures = json.loads(first)
    assert figures["margin"] != json.loads(other)["margin"]
    assert 100 < figures["views"] <= 128  # 8 x 32 frames in 2 minibatches; equal views count once
    assert figures["clusters"] == 8
    for row in figures["perturbation"].values():
        for by in ("scores", "codes"):
            assert 0 <= row[f"inside_{by}"] <= row[f"same_{by}"] <= 1
    assert 0 < figures["margin"]["scores"]["50%"] < 1
    assert (tmp_path / "first" / "margins.png").read_bytes().startswith(b"\x89PNG")


def test_any_shape_of_frames_and_any_sampling_of_views(tmp_path: Path) -> None:
    views = ("--objective.keypoints", "3", "--objective.sampling", "consecutive")
    values = ("--env", "Grains-v0", *views, "--no-objective.swap-codes")
    run = train_ctrl(tmp_path / "runs", *values)
    assert main(["margins", str(run), "--out", str(tmp_path)]) == 0
    figures = json.loads((tmp_path / "margins.json").read_bytes())
    assert figures["keypoints"] == 3
    assert figures["views"] > 20
    assert figures["perturbation"]["shift"]["median_change"] > 0


def test_views_are_drawn_as_in_training_and_inside_episodes(ctrl_run: Path) -> None:
    config = read_config(ctrl_run)
    done = torch.zeros(32, 8, dtype=torch.bool)
    done[4::5] = True
    for sampling in ("uniform", "consecutive"):
        clustering = Clustering(3, torch.eye(2), 0.3, 3, lambda f, a: f, sampling)
        points = draw_points(clustering, done, config, rng(10))
        step, env = points // 8, points % 8
        assert (env == env[:, :1]).all()
        assert (step // 5 == step[:, :1] // 5).all()
        assert (step.diff(dim=1) > 0).all()
        assert (step.diff(dim=1) == 1).all() == (sampling == "consecutive")
    with pytest.raises(BadInput, match="too few views of 3 steps fit into the episodes"):
        draw_points(clustering, torch.ones(32, 8, dtype=torch.bool), config, rng(10))


def test_what_has_no_prototypes_or_is_no_run_is_refused(
    trained: Trained, ctrl_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str) -> str:
        capsys.readouterr()
        assert main(["margins", *arguments]) == 2
        return capsys.readouterr().err

    for words, run in (
        ("has no clusters: it was trained with ppo", trained.directory),
        ("is not a run directory", tmp_path),
    ):
        said = refused(str(run))
        assert words in said
        assert said.count("\n") == 1  # and nothing of playing
    assert "has no snapshot or checkpoint at 7 frames" in refused(str(ctrl_run), "--step", "7")
    (tmp_path / "file").touch()
    assert "cannot be written" in refused(str(ctrl_run), "--out", str(tmp_path / "file"))
    bare = tmp_path / "bare"
    shutil.copytree(ctrl_run, bare, ignore=shutil.ignore_patterns("checkpoints", "snapshots"))
    assert "has no valid checkpoint" in refused(str(bare))


def test_codes_of_centred_frames_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("train", "--method", "situations", *TINY, "--objective.clusters", "8")
    command += ("--frames", "256", "--machine.threads", "1", "--saving.runs", str(tmp_path))
    assert main(command) == 0
    (run,) = tmp_path.iterdir()
    capsys.readouterr()
    assert main(["margins", str(run)]) == 2
    assert "codes are of frames less the mean of their stretch" in capsys.readouterr().err
