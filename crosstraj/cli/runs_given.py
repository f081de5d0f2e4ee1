"""Of the paths that a shell made of `runs/*`, those that lead to runs."""

import sys
from collections.abc import Sequence
from pathlib import Path


def only_runs(paths: Sequence[Path]) -> list[Path]:
    """The paths without those that hold no run, such as a log beside it, which one line names.

    A path that does not exist stays, and so do all where no run is among them: whoever reads them
    says what is wrong.
    """
    beside = [path for path in paths if path.exists() and not _holds_run(path)]
    left = [path for path in paths if path not in beside]
    if not left or not beside:
        return list(paths)
    print(f"passed over, for they hold no run: {', '.join(map(str, beside))}", file=sys.stderr)
    return left


def _holds_run(path: Path) -> bool:
    from crosstraj.runs.read import is_kept

    inside = (path, *path.rglob("*.jsonl"))
    return any(path.rglob("config.json")) or any(map(is_kept, inside))
