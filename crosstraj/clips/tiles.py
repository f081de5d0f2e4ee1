"""One picture of a clip: a grid of tiles, each with a frame, what was done, and what it was worth.

    unseen level 4711         return 3.0
    +---------------------+   +--------+
    |                     |   | frames |   of the same cluster,
    |        frame        |   |  from  |   where the method has
    |                     |   | other  |   prototypes
    +---------------------+   | levels |
    right + up   value ~~~~   +--------+

Text is drawn in Pillow's own font, so that a clip looks the same on every machine.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from crosstraj.clips.scenes import Moment, held, value_range, values_until
from crosstraj.envs.showing import newest_image

Picture = NDArray[np.uint8]  # [H, W, 3]

BACKGROUND, PANEL, INK, FAINT = (16, 20, 27), (27, 33, 43), (236, 240, 246), (139, 150, 166)
COLOUR = {"seen": (122, 170, 255), "unseen": (255, 180, 84), "validation": (196, 154, 255)}
ENDING = {"solved": "level solved", "ended": "episode over", "timeout": "time is up"}
FRAME = 192  # pixels of the longer side of a frame, about
GAP, HEAD, FOOT, TITLE = 8, 20, 26, 24
SCORE = 72  # pixels that the words of a return may take: "return -12.5"
SPARK = 84  # pixels of the line of values, and steps that it shows
HOLD = 8  # pictures for which an ending stays
COMPANY = 3  # frames of the same cluster that are shown


class Company(NamedTuple):
    """The cluster of a moment, and frames of the same cluster from other levels."""

    cluster: int  # -1: it has none, as at the beginning of an episode
    frames: tuple[Picture, ...]


class Clip(NamedTuple):
    """All that is drawn."""

    title: str
    tiles: list[list[Moment]]
    actions: list[str]  # by number
    frame_stack: int
    company: list[list[Company]] | None  # by tile and moment; None: no clusters are shown


class Layout(NamedTuple):
    """Where everything is, in pixels."""

    columns: int
    rows: int
    scale: int  # pixels per pixel of a frame
    width: int  # of a frame as it is drawn
    height: int
    side: int  # width of the column for frames of the same cluster; 0: there is none

    @property
    def tile(self) -> tuple[int, int]:
        side = self.side + GAP if self.side else 0
        return self.width + side + GAP, HEAD + self.height + FOOT + GAP

    @property
    def size(self) -> tuple[int, int]:
        width, height = self.tile
        return even(self.columns * width + GAP), even(TITLE + self.rows * height + GAP)

    def corner(self, number: int) -> tuple[int, int]:
        """The upper left corner of a tile."""
        width, height = self.tile
        return GAP + number % self.columns * width, TITLE + number // self.columns * height


def even(pixels: int) -> int:
    """Encoders of MP4 take no odd sizes."""
    return pixels + pixels % 2


def layout(clip: Clip) -> Layout:
    count = len(clip.tiles)
    height, width = clip.tiles[0][0].observation.shape[:2]
    scale = max(1, FRAME // max(height, width))
    columns = ceil(sqrt(count))
    side = (scale * height - (COMPANY - 1) * 4) // COMPANY if clip.company else 0
    return Layout(columns, ceil(count / columns), scale, scale * width, scale * height, side)


def pictures(clip: Clip) -> Iterator[Image.Image]:
    """The clip's pictures, one after another."""
    place, values = layout(clip), value_range(clip.tiles)
    background = Image.new("RGB", place.size, BACKGROUND)
    write(background, (GAP, 5), clip.title, INK, 13)
    shown = [held(tile, HOLD) for tile in clip.tiles]
    for numbers in zip(*shown, strict=True):
        picture = background.copy()
        for tile, number in enumerate(numbers):
            draw_tile(picture, clip, place, tile, number, values)
        yield picture


def draw_tile(
    picture: Image.Image,
    clip: Clip,
    place: Layout,
    tile: int,
    number: int,
    values: tuple[float, float],
) -> None:
    moments, (left, top) = clip.tiles[tile], place.corner(tile)
    moment = moments[number]
    write(picture, (left, top + 2), where(moment, place.width), COLOUR[moment.split], 12)
    score = f"return {moment.before:.4g}"
    write(picture, (left + place.width, top + 2), score, INK, 12, right=True)
    frame = newest_image(moment.observation, clip.frame_stack)
    picture.paste(enlarged(frame, place.scale), (left, top + HEAD))
    if moment.ending:
        ending(picture, (left, top + HEAD), place, moment)
    below = top + HEAD + place.height + 4
    write(picture, (left, below), clip.actions[moment.action], INK, 12)
    right = left + place.width
    write(picture, (right - SPARK - 6, below), "value", FAINT, 12, right=True)
    sparkline(
        picture, (right - SPARK, below), values_until(moments, number, SPARK), values, HEAD - 4
    )
    if clip.company:
        corner = (right + GAP, top)
        company(picture, corner, place, clip.company[tile][number])


def where(moment: Moment, width: int) -> str:
    """The level, in words that leave room for the return beside them."""
    if moment.level < 0:
        return moment.split
    whole, short = f"{moment.split} level {moment.level}", f"{moment.split} {moment.level}"
    return whole if written(whole, 12).width <= width - SCORE else short


def enlarged(frame: Picture, scale: int) -> Image.Image:
    """Smoothly: hard edges of large pixels would cost a clip twice the bytes."""
    height, width = frame.shape[:2]
    small = Image.fromarray(np.ascontiguousarray(frame))
    return small.resize((scale * width, scale * height), Image.Resampling.BILINEAR)


def ending(picture: Image.Image, corner: tuple[int, int], place: Layout, moment: Moment) -> None:
    """The last frame of an episode, darkened, with what it came to."""
    left, top = corner
    box = (left, top, left + place.width, top + place.height)
    dark = picture.crop(box).point(lambda level: level * 2 // 5)
    picture.paste(dark, box)
    middle = top + place.height // 2
    words = ((ENDING[moment.ending], FAINT, 13), (f"return {moment.after:.4g}", INK, 18))
    for line, (text, colour, size) in enumerate(words):
        stamp = written(text, size)
        at = (left + (place.width - stamp.width) // 2, middle + (line - 1) * 22)
        write(picture, at, text, colour, size)


def sparkline(
    picture: Image.Image,
    corner: tuple[int, int],
    values: Sequence[float],
    limits: tuple[float, float],
    height: int,
) -> None:
    """A line of values on a panel, its newest point marked; one pixel per step."""
    (left, top), (low, high) = corner, limits
    draw = ImageDraw.Draw(picture)
    draw.rectangle((left, top, left + SPARK, top + height), fill=PANEL)
    bottom, scale = top + height - 2, (height - 4) / (high - low)
    points = [(left + x, bottom - round((value - low) * scale)) for x, value in enumerate(values)]
    if len(points) > 1:
        draw.line(points, fill=FAINT, width=1)
    x, y = points[-1]
    draw.rectangle((x - 1, y - 1, x + 1, y + 1), fill=INK)


def company(picture: Image.Image, corner: tuple[int, int], place: Layout, found: Company) -> None:
    """The number of the cluster above frames of the same cluster."""
    left, top = corner
    known = found.cluster >= 0
    write(picture, (left, top + 2), f"cluster {found.cluster}" if known else "-", FAINT, 12)
    draw = ImageDraw.Draw(picture)
    for row in range(COMPANY):
        y = top + HEAD + row * (place.side + 4)
        if row < len(found.frames):
            picture.paste(shrunk(found.frames[row], place.side), (left, y))
        else:
            draw.rectangle((left, y, left + place.side - 1, y + place.side - 1), fill=PANEL)


def shrunk(frame: Picture, side: int) -> Image.Image:
    height, width = frame.shape[:2]
    return _shrunk(frame.tobytes(), (width, height), side)


@lru_cache(maxsize=1024)
def _shrunk(pixels: bytes, size: tuple[int, int], side: int) -> Image.Image:
    """The frames of a cluster come again whenever the agent does."""
    return Image.frombytes("RGB", size, pixels).resize((side, side), Image.Resampling.BILINEAR)


def write(
    picture: Image.Image,
    corner: tuple[int, int],
    text: str,
    colour: tuple[int, int, int],
    size: int,
    *,
    right: bool = False,
) -> None:
    """Text with its upper left, or upper right, corner there."""
    stamp = written(text, size)
    left, top = corner
    picture.paste(colour, (left - stamp.width * right, top), stamp)


@lru_cache(maxsize=2048)
def written(text: str, size: int) -> Image.Image:
    """Text as a mask: most of it stays the same from picture to picture."""
    font = ImageFont.load_default(size)
    width, height = ceil(font.getlength(text)), size + 5
    mask = Image.new("L", (max(1, width), height))
    ImageDraw.Draw(mask).text((0, 0), text, fill=255, font=font)
    return mask
