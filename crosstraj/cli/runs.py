"""`crosstraj runs`: every run at a glance. Imports nothing heavy but what `--watch` draws with."""

import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.errors import BadInput, check_range
from crosstraj.health.glossary import shorts
from crosstraj.runs.status import STATUSES, Glance, glances

FIGURES = shorts("frames", "unseen_return").values()
HEAD = ("status", "method", "game", "seed", *FIGURES, "random", "size", "age", "owner", "run", "")
RIGHT = {3, 4, 5, 6, 7, 8}  # columns of numbers


@dataclass(frozen=True)
class RunsArguments:
    dirs: Annotated[tuple[Path, ...], POSITIONAL] = (Path("runs"),)
    """Run directories, or directories that hold some."""
    watch: bool = False
    """Look again and again, until Ctrl-C."""
    every: float = 5.0
    """Seconds between two looks of --watch."""
    json: bool = False
    """One JSON list of all runs instead of a table."""


def runs(arguments: list[str]) -> None:
    """Every run at a glance: status, how far it is, its last return beside random play's, owner."""
    given = parse(RunsArguments, "runs", runs.__doc__, arguments)
    check_range(given, "--", "every", above=0)
    if given.json and given.watch:
        raise BadInput("--json is one list, and --watch has no end; give either")
    if given.watch:
        watch(given)
        return
    found = glances(given.dirs)
    now = time.time()
    if given.json:
        print(json.dumps([as_json(run, now) for run in found], indent=1))
    else:
        print(table(found, now))


def watch(given: RunsArguments) -> None:
    """The table in place on a terminal, otherwise again and again; Ctrl-C is how it ends."""
    found = glances(given.dirs)  # what cannot be read is refused before the screen is taken
    try:
        if not sys.stdout.isatty():
            while True:
                print(table(found, time.time()), end="\n\n", flush=True)
                time.sleep(given.every)
                found = glances(given.dirs)
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        with Live(console=Console(), auto_refresh=False, screen=True) as live:
            while True:
                picture = Text(table(found, time.time()), no_wrap=True, overflow="ellipsis")
                live.update(picture, refresh=True)
                time.sleep(given.every)
                found = glances(given.dirs)
    except KeyboardInterrupt:
        pass


def table(found: list[Glance], now: float) -> str:
    """A line for each run, below one that counts them."""
    rows = [HEAD, *(cells(run, now) for run in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if place in RIGHT else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([count(found), *lines] if found else [count(found)])


def count(found: list[Glance]) -> str:
    """12 runs, 34.0 GB: 2 running, 10 finished."""
    by_status = Counter(run.status for run in found)
    parts = [f"{by_status[status]} {status}" for status in STATUSES if by_status[status]]
    several = f"{len(found)} run{'' if len(found) == 1 else 's'}, "
    return (
        several
        + in_bytes(sum(run.size for run in found))
        + (": " if parts else "")
        + ", ".join(parts)
    )


def cells(run: Glance, now: float) -> tuple[str, ...]:
    owner = run.owner if run.status in ("running", "unknown") else None
    levels = "" if run.levels in ("", "unseen") else f" ({run.levels})"
    words = (
        run.status,
        run.method,
        run.game,
        "" if run.seed is None else str(run.seed),
        f"{run.frames:,}" + ("" if run.budget is None else f"/{run.budget:,}"),
        "" if run.score is None else f"{run.score:.2f}{levels}",
        "" if run.random is None else f"{run.random:.2f}",
        in_bytes(run.size),
        "" if run.written is None else in_time(now - run.written),
        "" if owner is None else f"{owner.process}@{owner.host or 'here'}",
        str(run.path),
        run.why,
    )
    return tuple(map(shown, words))


def shown(text: str) -> str:
    """What a file of a stranger says, as text: it moves no cursor and begins no line."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def in_bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def in_time(seconds: float) -> str:
    """An age, rounded down to its unit."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def as_json(run: Glance, now: float) -> dict[str, Any]:
    return {
        "path": str(run.path),
        "status": run.status,
        "why": run.why,
        "method": run.method,
        "game": run.game,
        "seed": run.seed,
        "frames": run.frames,
        "budget": run.budget,
        "return": run.score,
        "levels": run.levels,
        "random": run.random,
        "bytes": run.size,
        "seconds_since_write": None if run.written is None else max(0.0, now - run.written),
        "process": run.owner.process if run.owner else None,
        "host": run.owner.host if run.owner else None,
    }
