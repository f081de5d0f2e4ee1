"""A clip at each evaluation, which no byte of the run depends on."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from crosstraj.cli.main import main
from crosstraj.clips import camera
from tests.conftest import Trained

LOGS = ("metrics.jsonl", "episodes.jsonl")


def extended(trained: Trained, place: Path, *more: str) -> Path:
    """A copy of a finished run, trained on."""
    run = place / trained.directory.name
    shutil.copytree(trained.directory, run)
    command = [*trained.command, "--frames", "768", *more, "--saving.runs", str(place)]
    assert main(command) == 0
    return run


def test_a_run_is_the_same_to_the_byte_whether_it_is_filmed_or_not(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(camera, "STEPS", 12)
    plain = extended(trained, tmp_path / "plain")
    filmed = extended(trained, tmp_path / "filmed", "--saving.video")
    for name in LOGS:
        assert (plain / name).read_bytes() == (filmed / name).read_bytes()
    for part in ("weights", "training"):
        states = [run / f"checkpoints/step-768/{part}.safetensors" for run in (plain, filmed)]
        assert states[0].read_bytes() == states[1].read_bytes()
    assert not (plain / "clips").exists()
    with Image.open(filmed / "clips" / "step-768.webp") as clip:
        assert clip.n_frames == 12


def test_a_camera_that_breaks_is_named_once_and_the_run_goes_on(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
):
    monkeypatch.setattr(camera, "STEPS", 0)  # there is nothing to draw
    run = extended(trained, tmp_path, "--saving.video")
    assert capfd.readouterr().err.count("no more clips are kept") == 1
    assert (run / "summary.json").exists()
    assert not [*run.glob("clips/*")]
