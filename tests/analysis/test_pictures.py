"""Sprite sheets and small pictures of frames."""

import io

import numpy as np
from PIL import Image

from crosstraj.analysis import pictures


def test_sprite_sheets_hold_each_frame_at_its_place_and_keep_their_budget():
    frames = np.zeros((300, 6, 20, 40, 3), np.uint8)
    frames[...] = (np.arange(300) % 250)[:, None, None, None, None]
    frames[:, 5] = 255
    packed = pictures.sheets(frames, 10**7)
    assert (packed.per_view, packed.width, packed.height) == (4, 40, 20)
    assert len(packed.webp) == 2  # 1200 frames, 1024 in a sheet
    view, number = 270, 3  # its last frame is white
    index = view * 4 + number
    sheet = Image.open(io.BytesIO(packed.webp[index // 1024]))
    column, row = index % 1024 % 32, index % 1024 // 32
    assert sheet.getpixel((column * 40 + 20, row * 20 + 10))[0] > 240
    assert abs(sheet.getpixel(((column - 1) * 40 + 20, row * 20 + 10))[0] - 270 % 250) < 12
    noise = np.random.default_rng(0).integers(0, 255, (100, 2, 64, 64, 3), np.uint8)
    small = pictures.sheets(noise, budget=250_000)
    assert sum(map(len, small.webp)) <= 250_000
    assert small.quality < packed.quality


def test_large_frames_are_made_small():
    assert pictures.sheets(np.zeros((2, 1, 210, 160, 3), np.uint8), 10**6).height == 64
