"""One owner per run directory: a lock that goes with its process, however that ends."""

import fcntl
import os
import re
from pathlib import Path

from crosstraj.errors import Owned

# A lock lives as long as any copy of its descriptor: one that a forked child kept would make a
# dead owner look alive. (A started program keeps none: Python opens files with O_CLOEXEC.)
_LOCKS: set[int] = set()


def own(path: Path) -> int:
    """Lock a run directory for this process; the lock goes with the process, however it ends."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = "".join(re.findall("[0-9]", os.pread(lock, 20, 0).decode(errors="replace")))
        os.close(lock)
        raise Owned(f"process {owner} is writing {path.parent}; wait for it, or stop it") from None
    _LOCKS.add(lock)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def disown(lock: int) -> None:
    if lock in _LOCKS:  # it is not in a forked child, which must not unlock its parent's
        _LOCKS.remove(lock)
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def _close_copies() -> None:
    while _LOCKS:
        os.close(_LOCKS.pop())


os.register_at_fork(after_in_child=_close_copies)
