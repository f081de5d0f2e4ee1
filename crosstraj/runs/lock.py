"""One owner per run directory: a lock that goes with its process, however that ends.

The file names its owner, process and host, as long as there is one. An owner that was killed stays
named: where the lock of another machine cannot be seen, as on some network file systems, the name
is all there is to tell.
"""

import fcntl
import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from crosstraj.errors import Owned

NAME = "owner.lock"
LOOKS = 5  # tries of an owner before it gives up: somebody may only be looking, for microseconds
PAUSE = 0.02  # seconds between two of them

# A lock lives as long as any copy of its descriptor: one that a forked child kept would make a
# dead owner look alive. (A started program keeps none: Python opens files with O_CLOEXEC.)
_LOCKS: set[int] = set()


class Owner(NamedTuple):
    process: int
    host: str  # empty where it is not known

    @property
    def here(self) -> bool:
        return self.host in ("", socket.gethostname())


def own(path: Path) -> int:
    """Lock a run directory for this process; the lock goes with the process, however it ends."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    if not _taken(lock):
        owner = _named(lock) or Owner(0, "")
        os.close(lock)
        who = f"process {owner.process or '?'}" + ("" if owner.here else f" on {owner.host}")
        raise Owned(f"{who} is writing {path.parent}; wait for it, or stop it")
    _LOCKS.add(lock)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
    return lock


def _taken(lock: int) -> bool:
    for look in range(LOOKS):
        if look:
            time.sleep(PAUSE)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def disown(lock: int) -> None:
    if lock in _LOCKS:  # it is not in a forked child, which must not unlock its parent's
        _LOCKS.remove(lock)
        with suppress(OSError):
            os.ftruncate(lock, 0)
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def look(path: Path) -> tuple[bool, Owner | None]:
    """Whether a live process owns the run, and who is named; takes nothing away, makes no file.

    A lock that is shared for a moment shows it: owners try more than once, other lookers share it.
    """
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False, None
    owner = None
    try:
        owner = _named(lock)
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False, owner
    except BlockingIOError:
        return True, owner
    except OSError:  # no plain file, or a file system without locks
        return False, owner
    finally:
        os.close(lock)  # and what it locked is free again


def _named(lock: int) -> Owner | None:
    words = os.pread(lock, 300, 0).decode(errors="replace")
    found = re.match(r"([0-9]{1,20})(?: ([A-Za-z0-9._-]{1,255}))?\n", words)
    return Owner(int(found[1]), found[2] or "") if found else None


def _close_copies() -> None:
    while _LOCKS:
        os.close(_LOCKS.pop())


os.register_at_fork(after_in_child=_close_copies)
