"""Where results go: whole files in one directory, and text that a run's names cannot break.

A run directory may come from a stranger. A link in it is replaced, never followed; its name and its
labels are text, never markup, mathematics or a path.
"""

import re
from pathlib import Path

from crosstraj.disk import write_whole
from crosstraj.errors import BadInput
from crosstraj.report.document import plain


class Output:
    """A directory for results, made when it is first written to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, name: str, data: bytes | memoryview) -> Path:
        path = self.directory / name
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}; choose --out") from error
        return path


def inside_run(run: Path, name: str) -> Path:
    """A directory inside a run; refused where a link would lead out of it."""
    place = run / name
    if place.is_symlink():
        raise BadInput(f"{place} is a link, which could lead anywhere; remove it, or give --out")
    return place


def run_name(run: Path) -> str:
    """What a run is called: the name of its directory, on one line."""
    return plain(run.resolve().name)[:120] or "run"


def file_names(runs: list[Path]) -> list[str]:
    """A safe and distinct file name for each run."""
    names: list[str] = []
    for run in runs:
        plain = re.sub(r"[^A-Za-z0-9_.]+", "-", run.resolve().name)[:100].strip(".-") or "run"
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names.append(name)
    return names
