"""Logs: one JSON object per line, written so that no reader ever sees half of one."""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from crosstraj.errors import BadInput

Warn = Callable[[str], None]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The complete rows of a log; a last line without its end is still being written."""
    text = path.read_bytes() if path.exists() else b""
    lines = text[: text.rfind(b"\n") + 1].split(b"\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} has a line that is not JSON: {error}; restore the file") from error


def series(rows: list[dict[str, Any]], key: str) -> list[tuple[float, float]]:
    """(frames, value) of every row that has this figure; a value that is no number is NaN."""

    def number(value: Any) -> float:
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if plain else float("nan")

    return [(number(row.get("frames")), number(row[key])) for row in rows if key in row]


def last_figures(rows: list[dict[str, Any]], most: float = math.inf) -> dict[str, float]:
    """The last value of every figure after at most so many frames; only those that are finite."""
    names = dict.fromkeys(name for row in rows for name in row if name not in ("row", "frames"))
    found = {name: [y for x, y in series(rows, name) if x <= most] for name in names}
    return {name: ys[-1] for name, ys in found.items() if ys and math.isfinite(ys[-1])}


class Mirror(Protocol):
    """Is shown each row, too; nothing depends on it."""

    def show(self, row: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class Log:
    """A file of JSON lines. A row is one write of one line; equal rows are equal bytes.

    What is not finite is written as Python's json does: NaN, Infinity.
    """

    def __init__(self, path: Path, warn: Warn) -> None:
        self.path, self._warn = path, warn
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._pending = b""  # rows that a full disk has not taken yet
        self.mirror: Mirror | None = None

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row. If the disk refuses it, it is kept and written before the next one."""
        known = bool(self._pending)
        self._pending += (
            json.dumps(row, separators=(",", ":"), default=plain_number).encode() + b"\n"
        )
        try:
            self._drain()
        except OSError as error:
            if not known:
                self._warn(f"{self.path} cannot be written: {error.strerror}; its rows wait")
        if self.mirror:
            try:
                self.mirror.show(row)
            except Exception as error:
                self._warn(f"rows of {self.path} are no longer mirrored: {error}")
                self.mirror = None

    def _drain(self) -> None:
        while self._pending:
            self._pending = self._pending[os.write(self._file, self._pending) :]

    def sync(self) -> int:
        """Bring every row to the disk; the length of the file."""
        self._drain()
        os.fsync(self._file)
        return os.fstat(self._file).st_size

    def check(self, length: int) -> None:
        """Refuse a log which is not the one that a checkpoint saw."""
        size = os.fstat(self._file).st_size
        if size < length or (length and os.pread(self._file, 1, length - 1) != b"\n"):
            raise BadInput(
                f"{self.path} is damaged: it has {size} bytes, and its checkpoint ends a row at "
                f"byte {length}; restore the file, or start again in another directory"
            )

    def cut(self, length: int) -> None:
        os.ftruncate(self._file, length)
        self._pending = b""

    def close(self) -> None:
        os.close(self._file)
        if self.mirror:
            self.mirror.close()


def newest(path: Path) -> dict[str, Any]:
    """The last value of every figure in a log: what a resumed run shows and sums up."""
    figures: dict[str, Any] = {}
    for row in read_rows(path):
        figures |= row
    return {name: value for name, value in figures.items() if name not in ("row", "frames")}


def plain_number(value: Any) -> Any:
    if isinstance(value, np.generic | Tensor) and value.ndim == 0:
        return value.item()
    raise TypeError(f"{value!r} in a row is a {type(value).__name__}; a row holds plain values")
