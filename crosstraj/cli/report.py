"""`crosstraj report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.cli.runs_given import directory_in, only_runs
from crosstraj.errors import BadInput


@dataclass(frozen=True)
class ReportArguments:
    runs: Annotated[tuple[Path, ...], POSITIONAL]
    """Run directories, or directories that hold some."""
    out: Path | None = None
    """Directory of the report; default, for a single run: report in its directory."""


def report(arguments: list[str]) -> None:
    """Tables, statistics and figures of runs, as one page that opens from disk."""
    given = parse(ReportArguments, "report", report.__doc__, arguments)
    runs = only_runs(given.runs)
    out = given.out
    if out is None:
        if len(runs) != 1 or not (runs[0] / "config.json").is_file():
            raise BadInput("say where the report goes with --out; only a single run has a default")
        out = directory_in(runs[0], "report")
    from crosstraj.report.page import write_report

    print(write_report(runs, out))
