"""`crosstraj curves`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.cli.runs_given import known, place_in


@dataclass(frozen=True)
class CurvesArguments:
    run: Annotated[Path, POSITIONAL]
    """A run directory, an agent that comes with crosstraj, or what is kept of a run."""
    out: Path | None = None
    """The PNG to write; default: curves.png in the run directory, or here where there is none."""


def curves(arguments: list[str]) -> None:
    """Draw the learning and health curves of a run."""
    given = parse(CurvesArguments, "curves", curves.__doc__, arguments)
    from crosstraj.report.curves import draw_curves

    run = known(given.run)
    place = Path("curves.png") if run.is_file() else place_in(run, "curves.png")
    print(draw_curves(run, given.out or place))
