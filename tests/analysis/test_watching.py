"""`crosstraj watch` from the command line."""

from pathlib import Path

import pytest
from PIL import Image

from crosstraj.cli.main import main
from tests.conftest import Trained


def test_a_clip_of_a_run_with_clusters_as_webp_and_without_as_gif(
    clustered: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    sizes = {}
    for name, more in {"a.webp": [], "b.gif": ["--no-clusters"]}.items():
        out = tmp_path / name
        command = ["watch", str(clustered), "--steps", "9", "--seen", "1", "--unseen", "2"]
        assert main([*command, "--out", str(out), *more]) == 0
        assert capsys.readouterr().out.strip() == str(out)
        with Image.open(out) as clip:
            assert clip.n_frames == 9
            sizes[name] = clip.size
    assert sizes["a.webp"][0] > sizes["b.gif"][0]  # frames of the same clusters take room
    assert sizes["a.webp"][1] == sizes["b.gif"][1]


def test_a_clip_with_clusters_keeps_below_three_megabytes(clustered: Path, tmp_path: Path):
    """300 pictures of a 2 x 2 grid, told from 30: a WebP grows by each picture alike."""
    out = tmp_path / "clip.webp"
    assert main(["watch", str(clustered), "--steps", "30", "--out", str(out)]) == 0
    assert out.stat().st_size * 300 / 30 < 3e6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seen", "0", "--unseen", "0"], "give from 1 to 36 tiles"),
        (["--steps", "0"], "steps=0"),
        (
            ["--seen", "18", "--unseen", "18", "--steps", "3000"],
            "36 tiles of 3000 steps are 108,000 images, and a file holds 12,000 at most; give "
            "steps=333, or fewer tiles",
        ),
        (["--fps", "90"], "fps=90"),
        (["--out", "clip.avi"], "must end with .webp, .gif or .mp4"),
        (["--live"], "--live needs a terminal"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(trained: Trained, words, said, capsys):
    assert main(["watch", str(trained.directory), *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
