"""`crosstraj analyse`, and what it shares with `explore`: how views are chosen."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.cli.runs_given import directory_in, only_runs
from crosstraj.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class LookArguments:
    views: int = 2000
    """How many, half from levels seen in training and half from unseen ones."""
    step: int | None = None
    """A snapshot or checkpoint by its frame count instead of the newest checkpoint."""
    span: int = 0
    """Steps that a view covers, its keypoints drawn among them; 0: as many as it has keypoints."""
    kmeans: int = 0
    """Cluster the features by k-means instead of by the method's prototypes; 0: no."""


@dataclass(frozen=True, kw_only=True)
class AnalyseArguments(LookArguments):
    runs: Annotated[tuple[Path, ...], POSITIONAL]
    """Run directories; several are analysed one by one, then compared by temperature."""
    out: Path | None = None
    """Where the results go; default: the directory `analysis` in the run. Several runs need it."""


def analyse(arguments: list[str]) -> None:
    """Play a run's frozen policy and measure what it has learnt: table, figures, summary."""
    given = parse(AnalyseArguments, "analyse", analyse.__doc__, arguments)
    runs = only_runs(given.runs)
    from crosstraj.analysis import temperatures
    from crosstraj.analysis.output import Output, file_names
    from crosstraj.analysis.result import Choices
    from crosstraj.analysis.study import analyse as analyse_run

    if len(runs) > 1 and given.out is None:
        raise BadInput("several runs need --out DIR, where each gets a directory of its own")
    choices = Choices(given.views, given.step, given.span, given.kmeans)
    courses = []
    for run, name in zip(runs, file_names(runs), strict=True):
        place = given.out or directory_in(run, "analysis")
        output = Output(place / name if len(runs) > 1 else place)
        result, written = analyse_run(run, choices, output)
        courses.append(temperatures.course(result))
        del result  # its frames are large, and the next run has its own
        print("\n".join(map(str, written)))
    if given.out is not None and len(courses) > 1:
        output = Output(given.out)
        print(output.write("temperatures.md", temperatures.compare(courses).encode()))
        print(output.write("temperatures.png", temperatures.draw(courses)))
