"""The agent in a terminal."""

import io

import numpy as np
import pytest
from rich.console import Console

from crosstraj.clips.live import fitting, half_blocks, show
from crosstraj.clips.scenes import Moment
from crosstraj.errors import BadInput

NOTHING = np.zeros(0, np.float32)  # is remembered


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system="truecolor")


def test_two_pixels_are_one_character():
    frame = np.zeros((4, 3, 3), np.uint8)
    frame[0], frame[1] = (255, 0, 0), (0, 0, 255)
    text = half_blocks(frame)
    assert text.plain == "▀▀▀\n▀▀▀"
    style = text.spans[0].style
    assert tuple(style.color.triplet) == (255, 0, 0)
    assert tuple(style.bgcolor.triplet) == (0, 0, 255)
    assert len(half_blocks(np.zeros((210, 160, 3), np.uint8)).plain.split("\n")[0]) <= 64


def test_as_many_tiles_as_there_is_room_for():
    assert fitting(terminal(140), 4, 64) == 2
    assert fitting(terminal(400), 4, 64) == 4
    with pytest.raises(BadInput, match="needs 66 columns, and this terminal has 60"):
        fitting(terminal(60), 4, 64)
    with pytest.raises(BadInput, match="--live needs a terminal"):
        fitting(Console(file=io.StringIO()), 4, 64)


def test_what_it_did_and_what_it_came_to_is_said():
    frame = np.zeros((4, 12, 3), np.uint8)
    played = [
        Moment(frame, NOTHING, "unseen", 4711, 0, 0, 1, 0.5, 2.0, 5.0, ""),
        Moment(frame, NOTHING, "unseen", 4711, 0, 1, 0, 0.5, 5.0, 6.0, "solved"),
    ]
    console = terminal(70)
    stage = ([moment] for moment in played)
    show(stage, 2, ["left", "right"], frame_stack=1, fps=60, console=console)
    said = console.file.getvalue()
    assert "unseen level 4711, return 2" in said
    assert "right" in said
    assert "level solved: return 6" in said
