"""Files that appear whole: a reader, or a crash, finds the old one or the new one.

Every change of the disk goes through the first five functions, so that a test can stop at each.
"""

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def write_file(path: Path, data: bytes | memoryview) -> None:
    with open(path, "xb", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]


def fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    os.rename(source, target)


def mkdir(path: Path) -> None:
    path.mkdir(exist_ok=True)


def remove(path: Path) -> None:
    """Remove a file, a link or a whole directory; what is not there counts as removed."""
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def make_directory(path: Path) -> None:
    """Make a directory and its parents so that they survive a power cut."""
    if not path.is_dir():
        make_directory(path.parent)
        mkdir(path)
        fsync(path.parent)


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Write one file so that a reader, or a crash, finds the old one or the new one."""
    building = path.with_name(f".tmp-{path.name}")
    try:
        remove(building)
        write_file(building, data)
        fsync(building)
        rename(building, path)
        fsync(path.parent)
    except Exception:
        with suppress(OSError):
            remove(building)
        raise


def open_plain_file(path: Path) -> BinaryIO:
    """A file to read; a link or a pipe in its place is neither followed nor waited for."""
    file = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(0, "is not a plain file", str(path))
    return file


def read_plain_file(path: Path) -> bytes:
    with open_plain_file(path) as file:
        return file.read()


def size(path: Path) -> int:
    """The bytes of a file, or of all files below a directory; links count as they are, unread."""
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            return status.st_size
        with os.scandir(path) as entries:
            return sum(size(Path(entry.path)) for entry in entries)
    except OSError:  # gone meanwhile, or not ours to see
        return 0
