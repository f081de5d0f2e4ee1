"""The agent in a terminal: frames in half blocks, two pixels to a character, as it plays."""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.style import Style
from rich.text import Text

from crosstraj.clips.scenes import Moment
from crosstraj.clips.tiles import ENDING
from crosstraj.envs.showing import newest_image
from crosstraj.errors import BadInput

WIDEST = 64  # characters of a tile; a wider frame loses columns and rows evenly
PAUSE = 1.0  # seconds for which an ending stays, if there is one tile alone


def fitting(console: Console, tiles: int, width: int) -> int:
    """How many tiles a terminal has room for."""
    if not console.is_terminal:
        raise BadInput("--live needs a terminal; leave it out to write a clip")
    room = console.width // (min(width, WIDEST) + 2)
    if not room:
        raise BadInput(
            f"--live needs {min(width, WIDEST) + 2} columns, and this terminal has "
            f"{console.width}; make it wider, or leave --live out to write a clip"
        )
    return min(tiles, room)


def show(
    stage: Iterator[list[Moment]],
    steps: int,
    actions: Sequence[str],
    *,
    frame_stack: int,
    fps: int,
    console: Console,
) -> None:
    """So many steps, or until Ctrl-C."""
    with Live(console=console, auto_refresh=False, screen=False) as live:
        try:
            for moments, _ in zip(stage, range(steps), strict=False):
                began = time.monotonic()
                shown = fitting(console, len(moments), moments[0].observation.shape[1])
                chosen = [tile(moment, actions, frame_stack) for moment in moments[-shown:]]
                live.update(Columns(chosen, padding=(0, 2)), refresh=True)
                wait = PAUSE if shown == 1 and moments[-1].ending else 1 / fps
                time.sleep(max(0.0, wait - (time.monotonic() - began)))
        except KeyboardInterrupt:
            pass


def tile(moment: Moment, actions: Sequence[str], frame_stack: int) -> Group:
    """A frame with a line above it and one below."""
    level = f" level {moment.level}" if moment.level >= 0 else ""
    above = Text(f"{moment.split}{level}, return {moment.before:.4g}")
    said = actions[moment.action]
    if moment.ending:
        said = f"{ENDING[moment.ending]}: return {moment.after:.4g}"
    below = Text(f"value {moment.value:+.2f}  {said}", style="dim")
    return Group(above, half_blocks(newest_image(moment.observation, frame_stack)), below)


def half_blocks(frame: NDArray[np.uint8]) -> Text:
    """[H, W, 3] as H / 2 lines of W characters; the upper pixel is the ink, the lower the paper."""
    step = -(-frame.shape[1] // WIDEST)
    frame = frame[::step, ::step]
    text = Text(no_wrap=True)
    for row in range(0, len(frame) - 1, 2):
        for upper, lower in zip(frame[row], frame[row + 1], strict=True):
            text.append("▀", _style(*map(int, upper), *map(int, lower)))
        text.append("\n")
    text.rstrip()
    return text


@lru_cache(maxsize=65536)
def _style(*pixels: int) -> Style:
    upper, lower = (Color.from_rgb(*pixels[at : at + 3]) for at in (0, 3))
    return Style.from_color(upper, lower)
