"""What of a run directory can go without a loss: the run, the same command makes it again.

- checkpoints beside the newest that verifies. That one stays, in finished runs, too: extending a
  run, evaluating it and looking into it begin there.
- what a process that died in a save left behind.
- rollouts in nonfinite/ that the run has got past; the one it halts at stays, to be looked at.
- the whole of a run that never came to a checkpoint or snapshot: it would begin again from nothing.

Snapshots, logs and whatever somebody else put there stay. A link is removed as a link, never
followed; where one stands among the checkpoints, these stay as they are.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from crosstraj import disk
from crosstraj.errors import BadInput, Owned
from crosstraj.runs import checkpoint, lock
from crosstraj.runs.directory import LOGS
from crosstraj.runs.status import dumps, glance

PLACES = ("checkpoints", "snapshots", "nonfinite")  # where a run keeps what it saves
BEGUN = {"config.json", lock.NAME, *LOGS, *PLACES}  # all that a run without a save may hold


class Leftover(NamedTuple):
    path: Path
    what: str
    size: int


class Spared(Exception):
    """Why a run is left as it is."""


def leftovers(run: Path) -> list[Leftover]:
    """What can go; looked up while the run is held, so that nothing moves meanwhile.

    Where nobody has trained there are only kept logs, and all of them stay.
    """
    if not os.path.lexists(run / lock.NAME):
        return []
    with _held(run):
        return list(_found(run))


def remove(run: Path, shown: list[Leftover]) -> list[Leftover]:
    """Remove what was shown and still can go, and return it.

    The run may have gone on since: then it is live, and `Spared`, or other things can go.
    """
    with _held(run):
        still = {leftover.path for leftover in _found(run)}
        gone = [leftover for leftover in shown if leftover.path in still]
        for leftover in gone:
            checkpoint.discard(leftover.path)
        return gone


@contextmanager
def _held(run: Path) -> Iterator[None]:
    """Own the run, so that no process begins to write it; one that is owned is spared."""
    live, owner = lock.look(run / lock.NAME)
    if owner is not None and not live and not owner.here:
        raise Spared(f"process {owner.process} on {owner.host} may be writing it; clean it there")
    if not (run / lock.NAME).is_file() or (run / lock.NAME).is_symlink():
        raise Spared(f"{lock.NAME} is no plain file")
    try:
        held = lock.own(run / lock.NAME)
    except Owned as owned:
        raise Spared(str(owned)) from None
    except OSError as error:
        raise Spared(f"{lock.NAME} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.disown(held)


def _found(run: Path) -> Iterator[Leftover]:
    if _never_saved(run):
        yield _leftover(run, "a run that never came to a checkpoint")
        return
    for place in (run, *(run / name for name in PLACES)):
        if place == run or not place.is_symlink():
            for path in sorted(place.glob(".tmp-*")):
                yield _leftover(path, "of a save that was cut short")
    for path in _superseded(run / "checkpoints"):
        yield _leftover(path, "an old checkpoint")
    seen = glance(run)
    if not (run / "nonfinite").is_symlink():
        for step in sorted(dumps(run)):
            if step < seen.frames:
                yield _leftover(run / f"nonfinite/step-{step}", "a rollout that was not finite")


def _leftover(path: Path, what: str) -> Leftover:
    return Leftover(path, what, disk.size(path))


def _never_saved(run: Path) -> bool:
    """Whether all there is are logs that the next start would cut to nothing."""
    names = [name for name in os.listdir(run) if not name.startswith(".tmp-")]
    if not BEGUN.issuperset(names):  # a summary, a report, somebody's notes
        return False
    places = [run / name for name in PLACES if os.path.lexists(run / name)]
    if any(place.is_symlink() or not place.is_dir() for place in places):
        return False
    return all(name.startswith(".tmp-") for place in places for name in os.listdir(place))


def _superseded(place: Path) -> list[Path]:
    """The checkpoints beside the newest that verifies; none where there is doubt."""
    paths = [] if place.is_symlink() else checkpoint.candidates(place)
    if len(paths) < 2 or any(path.is_symlink() for path in paths):
        return []
    try:
        newest = checkpoint.newest(place, lambda sentence: None)
    except BadInput:  # of another version's format
        return []
    return [path for path in paths if newest is not None and path != newest]
