"""A run directory on its way between machines: files with their digests, some of them left out.

The directory may belong to a living process. What it publishes whole (a checkpoint, a snapshot) is
a unit: it travels once, and whole. The summary is read first and the logs last, so that a parcel
with a summary has the last checkpoint, and logs are at least as long as its checkpoints say.
"""

import hashlib
import os
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from crosstraj import disk
from crosstraj.errors import BadInput

SUMMARY, LOCK = "summary.json", "owner.lock"
UNITS = ("checkpoints", "snapshots")
TRIES = 5  # a checkpoint may be replaced while it is read
Stamp = tuple[int, int, int]


class Parcel(NamedTuple):
    files: dict[str, bytes]  # by path inside the run directory
    digests: dict[str, str]  # SHA-256 of each
    units: tuple[str, ...]  # all that the sender has, such as checkpoints/step-512

    def check(self) -> None:
        """Refuse what is not as it was sent, and every path that leads elsewhere."""
        for path, data in self.files.items():
            if not safe(path):
                raise BadInput(f"a parcel holds the path {path!r}, which is not of a run directory")
            if hashlib.sha256(data).hexdigest() != self.digests.get(path):
                raise BadInput(f"{path} was damaged on its way: its SHA-256 is not what was sent")
        if bad := next((unit for unit in self.units if not is_unit(unit)), None):
            raise BadInput(f"a parcel names {bad!r}, which is no checkpoint or snapshot")


def safe(path: str) -> bool:
    """A relative path, already in its shortest form, without hidden parts."""
    parts = path.split("/")
    plain = all(part and not part.startswith(".") for part in parts) and "\0" not in path
    return plain and str(PurePosixPath(path)) == path and parts[0] != LOCK


def is_unit(path: str) -> bool:
    return re.fullmatch(rf"({'|'.join(UNITS)})/step-[0-9]+", path) is not None


def unit_of(path: str) -> str | None:
    head = "/".join(path.split("/")[:2])
    return head if is_unit(head) else None


def stamp_of(path: Path) -> Stamp | None:
    """Changes when a file is written, or a directory is replaced."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def units_of(directory: Path) -> dict[str, Stamp | None]:
    found = [f"{kind}/{name}" for kind in UNITS for name in names_in(directory / kind)]
    return {unit: stamp_of(directory / unit) for unit in sorted(found) if is_unit(unit)}


def names_in(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.is_dir() else []


class Packer:
    """Makes parcels of one directory, each with what the ones before did not bring."""

    def __init__(self, directory: Path, leave_out: tuple[str, ...] = ()) -> None:
        self.directory, self.leave_out = directory, leave_out
        self.sent: dict[str, Stamp | None] = {}  # units and files that have arrived

    def saves(self) -> dict[str, Stamp | None]:
        """What changes when the run saves."""
        summary = stamp_of(self.directory / SUMMARY)
        return units_of(self.directory) | ({SUMMARY: summary} if summary else {})

    def pack(self) -> tuple[Parcel, dict[str, Stamp | None]]:
        """A parcel, and what counts as sent once it has arrived: set `sent` to it."""
        for last in reversed(range(TRIES)):
            try:
                return self._pack()
            except FileNotFoundError:  # replaced or pruned by its owner: look again
                if not last:
                    raise
        raise AssertionError("unreachable")

    def _pack(self) -> tuple[Parcel, dict[str, Stamp | None]]:
        files: dict[str, bytes] = {}
        stamps: dict[str, Stamp | None] = {}
        if (self.directory / SUMMARY).is_file():
            self._take(SUMMARY, files, stamps)
        units = {
            unit: stamp
            for unit, stamp in units_of(self.directory).items()
            if not unit.startswith(self.leave_out)
        }
        for unit, stamp in units.items():
            if self.sent.get(unit) != stamp:
                for name in sorted(os.listdir(self.directory / unit)):
                    files[f"{unit}/{name}"] = (self.directory / unit / name).read_bytes()
            if stamp_of(self.directory / unit) != stamp:
                raise FileNotFoundError(f"{unit} was replaced while it was read")
        for path in self._others():
            self._take(path, files, stamps)
        digests = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        return Parcel(files, digests, tuple(units)), stamps | units

    def _take(self, path: str, files: dict[str, bytes], stamps: dict[str, Stamp | None]) -> None:
        stamp = stamp_of(self.directory / path)  # before its bytes: it may grow meanwhile
        if self.sent.get(path) != stamp:
            files[path] = (self.directory / path).read_bytes()
        stamps[path] = stamp

    def _others(self) -> list[str]:
        """All plain files that are not in a unit; logs last."""
        found = []
        for place, inner, names in os.walk(self.directory):
            inner[:] = [name for name in inner if not name.startswith(".")]
            for name in names:
                path = (Path(place) / name).relative_to(self.directory).as_posix()
                if safe(path) and path.split("/")[0] not in UNITS and path != SUMMARY:
                    found.append(path)
        return sorted(found, key=lambda path: (path.endswith(".jsonl"), path))


def unpack(parcel: Parcel, directory: Path) -> None:
    """Write a parcel so that the directory is valid at every moment, if it was one before.

    The order is a run's own: longer logs, then checkpoints, then the summary; only then are
    checkpoints removed that the sender has no more.
    """
    parcel.check()
    disk.make_directory(directory)
    loose = [path for path in parcel.files if unit_of(path) is None and path != SUMMARY]
    for path in loose:
        _write(directory / path, parcel.files[path])
    for unit in dict.fromkeys(filter(None, map(unit_of, parcel.files))):
        inside = {p: data for p, data in parcel.files.items() if unit_of(p) == unit}
        _publish(directory, unit, inside)
    if SUMMARY in parcel.files:
        _write(directory / SUMMARY, parcel.files[SUMMARY])
    for unit in units_of(directory):
        if unit.startswith("checkpoints/") and unit not in parcel.units:
            _discard(directory / unit)


def _write(path: Path, data: bytes) -> None:
    disk.make_directory(path.parent)
    disk.write_whole(path, data)


def _publish(directory: Path, unit: str, files: dict[str, bytes]) -> None:
    """A checkpoint appears whole; one of the same name stays findable until then."""
    target = directory / unit
    building, old = target.with_name(f".tmp-{target.name}"), target.with_name(f"{target.name}.old")
    disk.make_directory(target.parent)
    disk.remove(building)
    try:
        disk.mkdir(building)
        for path, data in files.items():
            inside = building / Path(path).relative_to(unit)
            disk.write_file(inside, data)
            disk.fsync(inside)
        disk.fsync(building)
    except OSError:
        disk.remove(building)
        raise
    if target.exists():
        disk.remove(old)
        disk.rename(target, old)
    disk.rename(building, target)
    disk.fsync(target.parent)
    disk.remove(old)


def mend(directory: Path) -> None:
    """Put back what was set aside by a process that died before its successor was there."""
    for unit in UNITS:
        for old in (directory / unit).glob("step-*.old"):
            if (target := old.with_suffix("")).exists():
                disk.remove(old)
            else:
                disk.rename(old, target)


def _discard(unit: Path) -> None:
    """An observer never meets half a checkpoint."""
    trash = unit.with_name(f".tmp-gone-{unit.name}")
    disk.remove(trash)
    disk.rename(unit, trash)
    disk.remove(trash)
