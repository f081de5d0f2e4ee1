"""The log beside a run directory: what the processes of a run said."""

from pathlib import Path


def last_line(log: Path) -> str:
    """The last line that a process said."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
