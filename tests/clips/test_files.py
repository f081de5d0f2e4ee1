"""Pictures as one file: as many as there were, at their pace, and not too large."""

import io

import numpy as np
import pytest
from PIL import Image

from crosstraj.clips import files
from crosstraj.clips.files import encode, kind_of
from crosstraj.errors import BadInput

SIZE = (240, 180)


def fading(count: int) -> list[Image.Image]:
    """Large enough that a file's own words count for little."""
    shades = [20 * number for number in range(count)]
    return [Image.new("RGB", SIZE, (shade, 255 - shade, 9)) for shade in shades]


@pytest.mark.parametrize("kind", ["webp", "gif"])
def test_every_picture_is_there_in_its_order_and_colour(kind):
    moving = Image.open(io.BytesIO(encode(fading(10), kind, 20)))
    assert moving.n_frames == 10
    assert moving.info["loop"] == 0
    for number in range(10):
        moving.seek(number)
        colour = np.array(moving.convert("RGB").getpixel((20, 15)))
        assert np.abs(colour - (20 * number, 255 - 20 * number, 9)).max() < 12
        assert moving.info["duration"] == 50


def test_a_webp_keeps_to_its_budget_whatever_it_shows():
    noise = np.random.default_rng(0)
    low = noise.integers(64, 192, (20, 6, 8, 3), np.uint8).repeat(30, 1).repeat(30, 2)
    shown = [Image.fromarray(picture) for picture in low]
    chosen = files._quality(shown)
    assert files.QUALITIES[0] < chosen < files.QUALITIES[-1]
    budget = files.BUDGET * SIZE[0] * SIZE[1] * len(shown)
    assert len(encode(shown, "webp", 15)) <= budget
    better = files.QUALITIES[files.QUALITIES.index(chosen) + 1]
    assert len(files._webp(shown, 15, better)) > budget
    assert files._quality(fading(3)) == files.QUALITIES[-1]


def test_what_is_no_moving_picture_is_refused():
    assert kind_of("a.b.WEBP") == "webp"
    with pytest.raises(BadInput, match=r"clip.avi must end with .webp, .gif or .mp4"):
        kind_of("clip.avi")


def test_mp4_without_an_encoder_is_one_sentence(monkeypatch):
    monkeypatch.setattr(files.shutil, "which", lambda name: None)
    with pytest.raises(BadInput, match=r"ffmpeg, which is not installed.*or write .webp"):
        encode(fading(2), "mp4", 15)


def test_mp4_by_whatever_encoder_there_is(monkeypatch, tmp_path):
    said = tmp_path / "encoder"
    said.write_text("#!/bin/sh\nwc -c\n")
    said.chmod(0o755)
    monkeypatch.setattr(files.shutil, "which", lambda name: str(said))
    assert int(encode(fading(3), "mp4", 15)) == 3 * 240 * 180 * 3  # every pixel was handed over
    said.write_text("#!/bin/sh\ncat > /dev/null\necho no codec >&2\nexit 1\n")
    with pytest.raises(BadInput, match="no codec"):
        encode(fading(3), "mp4", 15)
