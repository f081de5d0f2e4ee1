"""Frames as pictures: strips for the table, sprite sheets for the page."""

import io
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Frames = NDArray[np.uint8]

SIDE = 64  # pixels of the longer side of a sprite
FRAMES_PER_VIEW = 4
COLUMNS = 32
PER_SHEET = COLUMNS * COLUMNS
QUALITIES = (80, 65, 50, 35, 20, 10)  # WebP's, tried in turn until the sheets fit


def strip(frames: Frames) -> Frames:
    """Frames [T, H, W, 3] side by side, [H, T W, 3]."""
    return np.concatenate(list(frames), axis=1)


def png(picture: Frames) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "png", compress_level=1)
    return file.getvalue()


class Sheets(NamedTuple):
    """Frame k of view i is tile i * per_view + k, counted along rows, one sheet after another.

    Every sheet has COLUMNS tiles in a row; a full one has as many rows.
    """

    webp: list[bytes]
    per_view: int
    width: int  # of a tile, in pixels
    height: int
    quality: int


def sheets(frames: Frames, budget: int) -> Sheets:
    """Views' frames [B, T, H, W, 3] as sprite sheets: at most 4 frames per view, evenly chosen.

    In the best quality that keeps to a budget of bytes, else in the lowest.
    """
    count = min(FRAMES_PER_VIEW, frames.shape[1])
    chosen = np.linspace(0, frames.shape[1] - 1, count).round().astype(int)
    height, width = frames.shape[2:4]
    scale = min(1.0, SIDE / max(height, width))
    width, height = max(1, round(width * scale)), max(1, round(height * scale))
    tiles = frames[:, chosen].reshape(-1, *frames.shape[2:])
    starts = range(0, len(tiles), PER_SHEET)
    pages = [_page(tiles[start : start + PER_SHEET], width, height) for start in starts]
    for quality in QUALITIES:
        packed = [_webp(page, quality) for page in pages]
        if sum(map(len, packed)) <= budget:
            break
    return Sheets(packed, count, width, height, quality)


def _page(tiles: Frames, width: int, height: int) -> Image.Image:
    page = Image.new("RGB", (COLUMNS * width, -(-len(tiles) // COLUMNS) * height))
    for number, tile in enumerate(tiles):
        picture: Any = Image.fromarray(tile)
        if picture.size != (width, height):
            picture = picture.resize((width, height), Image.Resampling.BOX)
        page.paste(picture, (number % COLUMNS * width, number // COLUMNS * height))
    return page


def _webp(page: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    page.save(file, "webp", quality=quality, method=2)
    return file.getvalue()
