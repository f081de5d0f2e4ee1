"""`crosstraj curves`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse


@dataclass(frozen=True)
class CurvesArguments:
    run: Annotated[Path, POSITIONAL]
    """A run directory, or a directory with a run's metrics.jsonl."""
    out: Path | None = None
    """The PNG to write; default: curves.png in the run directory."""


def curves(arguments: list[str]) -> None:
    """Draw the learning and health curves of a run."""
    given = parse(CurvesArguments, "curves", curves.__doc__, arguments)
    from crosstraj.report.curves import draw_curves

    print(draw_curves(given.run, given.out or given.run / "curves.png"))
