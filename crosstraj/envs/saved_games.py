"""Saved games as arrays, and what is looked at before the engine reads them.

The engine was not written for damaged input: it would end the process, or go on with other levels.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from crosstraj.envs.levels import Levels
from crosstraj.errors import BadInput

State = Mapping[str, npt.NDArray[Any]]

HEADER_INTS = 17  # after its game's name, a saved game lists options, level range and index
RANGE = slice(13, 15)  # of them: the first level, and the one after the last
END = bytes.fromhex("fecafeca")  # the engine's mark at the end of each saved game


def join(games: list[bytes], frames: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[Any]]:
    """All games in one array: about 20 to 50 kB each, plus the frame."""
    return {
        "games": np.frombuffer(b"".join(games), np.uint8).copy(),
        "lengths": np.array([len(game) for game in games], np.int64),
        "frames": frames.copy(),
    }


def split(state: State) -> list[bytes]:
    ends = np.cumsum(state["lengths"])
    return [part.tobytes() for part in np.split(state["games"], ends[:-1])]


def check(state: State, like: State, game: str, settings: str) -> list[bytes]:
    """One piece per game, if they were saved with the same settings as those of `like`."""
    if not _same_form(state, like):
        raise BadInput(
            f"a saved state with {sorted(state)} does not fit {len(like['lengths'])} games of "
            f"{game}; restore it into an environment made with the same settings"
        )
    games = split(state)
    header = 8 + len(game) + 4 * HEADER_INTS
    for mine, theirs in zip(split(like), games, strict=True):
        if mine[:header] != theirs[:header] or not theirs.endswith(END):
            raise BadInput(
                "the saved state is damaged, or its game, mode, look or levels are not those "
                f"of this environment ({game}, {settings}); restore it into an environment made "
                "with the same settings"
            )
    return games


def with_levels(saved: bytes, game: str, levels: Levels) -> bytes:
    """The same saved game, whose next levels are drawn from others."""
    numbers = np.frombuffer(saved, np.uint8).copy()
    header = numbers[8 + len(game) :][: 4 * HEADER_INTS].view(np.int32)
    header[RANGE] = np.array([levels.first, levels.stop]).astype(np.int32)  # wraps, as there
    return numbers.tobytes()


def _same_form(state: State, like: State) -> bool:
    """Whether a state has the arrays of another; the number of bytes varies with play."""
    if not like.keys() <= state.keys():
        return False
    fixed = all(state[key].shape == like[key].shape for key in ("lengths", "frames"))
    kinds = all(state[key].dtype == like[key].dtype for key in like)
    return fixed and kinds and state["games"].shape == (int(state["lengths"].sum()),)
