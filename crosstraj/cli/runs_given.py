"""The runs that are meant: by their paths, by a shell's `runs/*`, or by an agent's name."""

import sys
from collections.abc import Sequence
from pathlib import Path

from crosstraj.errors import BadInput


def only_runs(paths: Sequence[Path]) -> list[Path]:
    """The paths without those that hold no run, such as a log beside it, which one line names.

    A path that does not exist stays, and so do all where no run is among them: whoever reads them
    says what is wrong.
    """
    if not paths:
        raise BadInput("no run is given; name run directories, or a directory that holds some")
    paths = [known(path) for path in paths]
    beside = [path for path in paths if path.exists() and not _holds_run(path)]
    left = [path for path in paths if path not in beside]
    if not left or not beside:
        return list(paths)
    print(f"passed over, for they hold no run: {', '.join(map(str, beside))}", file=sys.stderr)
    return left


def known(run: Path) -> Path:
    """The path of a run, or of an agent that comes with crosstraj: `agents/<name>`."""
    from crosstraj.runs.shipped import named

    return named(run)


def place_in(run: Path, name: str) -> Path:
    """Where what is made of a run goes: into it, but not into an agent that comes with us."""
    from crosstraj.runs.shipped import comes_along

    return Path(f"{run.name}-{name}") if comes_along(run) else run / name


def directory_in(run: Path, name: str) -> Path:
    """The same for a directory; a link in its place is refused, and a file's would be replaced."""
    from crosstraj.analysis.output import inside_run

    place = place_in(run, name)
    return inside_run(place.parent, place.name)


def _holds_run(path: Path) -> bool:
    from crosstraj.runs.read import is_kept

    inside = (path, *path.rglob("*.jsonl"))
    return any(path.rglob("config.json")) or any(map(is_kept, inside))
