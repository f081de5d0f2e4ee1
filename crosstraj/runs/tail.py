"""The end of a log, read from its end: how far a run is, at once, however long the log.

Nothing heavy is imported here, so that `crosstraj runs` answers at once.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crosstraj import disk

BLOCK = 2**16  # bytes that are read at a time


def lines_backwards(path: Path) -> Iterator[bytes]:
    """The whole lines of a file, the last one first; one without its end is being written."""
    with disk.open_plain_file(path) as file:
        place = file.seek(0, os.SEEK_END)
        begun, unfinished = b"", True
        while place:
            start = max(0, place - BLOCK)
            file.seek(start)
            # The first piece may have begun in the block before.
            begun, *whole = (file.read(place - start) + begun).split(b"\n")
            place = start
            if whole and unfinished:
                whole.pop()
                unfinished = False
            yield from reversed(whole)
        if not unfinished:
            yield begun


def last_row(path: Path, kind: str = "") -> dict[str, Any] | None:
    """The last whole row of a log, or the last of one kind, such as "evaluation"; None: no such."""
    mark = f'"row":"{kind}"'.encode()
    for line in lines_backwards(path):
        if kind and mark not in line:
            continue
        row: dict[str, Any] = json.loads(line)
        if not kind or row["row"] == kind:
            return row
    return None


def last_words(path: Path) -> str:
    """The last line that a process said, whole or not; empty where there is none."""
    try:
        with disk.open_plain_file(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - BLOCK))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
