"""`crosstraj explore`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from crosstraj.cli.analyse import LookArguments
from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.cli.runs_given import known, place_in
from crosstraj.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class ExploreArguments(LookArguments):
    run: Annotated[Path, POSITIONAL]
    """A run directory, or an agent that comes with crosstraj: agents/<name>."""
    out: Path | None = None
    """The HTML file to write; default: explore.html in the run directory."""


def explore(arguments: list[str]) -> None:
    """Write one HTML page, opened from disk: a map of views, their frames, clusters over time."""
    given = parse(ExploreArguments, "explore", explore.__doc__, arguments)
    from crosstraj.analysis.explore import explore as explore_run
    from crosstraj.analysis.output import Output
    from crosstraj.analysis.result import Choices

    choices = Choices(given.views, given.step, given.span, given.kmeans)
    run = known(given.run)
    out = given.out or place_in(run, "explore.html")
    if out.is_dir() and not out.is_symlink():
        raise BadInput(f"--out {out} is a directory; give the file to write, such as page.html")
    print(explore_run(run, choices, Output(out.parent), out.name))
