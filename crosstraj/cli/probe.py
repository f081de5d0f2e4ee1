"""`crosstraj probe`: parse, call, print. Its help imports no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.cli.runs_given import known, only_runs, place_in
from crosstraj.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class ProbeArguments:
    runs: Annotated[tuple[Path, ...], POSITIONAL]
    """Run directories or agents/<name> to judge; all others are compared with the first."""
    expert: Path
    """The run whose play is the standard: clearly above random play, of a seed of its own."""
    step: tuple[int, ...] = ()
    """Judge each run's snapshots at these frame counts instead of its newest checkpoint."""
    expert_step: int | None = None
    """The expert's snapshot at this frame count instead of its newest checkpoint."""
    frames: int = 6144
    """Frames to fit probes on, and again as many to test them on."""
    every: int = 4
    """Keep one frame in so many steps; neighbouring frames are nearly the same."""
    random: float = 0.2
    """Share of actions drawn uniformly instead of from the expert's policy."""
    out: Path | None = None
    """Where the results go; default: the directory `probe` in the run. Several runs need it."""


def probe(arguments: list[str]) -> None:
    """Rank encoders by how well a linear probe reads an expert's behaviour off their features."""
    given = parse(ProbeArguments, "probe", probe.__doc__, arguments)
    runs = only_runs(given.runs)
    if len(runs) > 1 and given.out is None:
        raise BadInput("several runs need --out DIR, where the comparison goes")
    from crosstraj.analysis.output import Output
    from crosstraj.analysis.probes import ranking, show

    choices = ranking.Choices(
        given.frames, given.every, given.random, given.step, given.expert_step
    )
    result = ranking.probe(runs, known(given.expert), choices)
    output = Output(given.out or _place(runs[0]))
    written = show.write(result, output)
    show.print_tables(result)
    print("\n".join(map(str, written)))


def _place(run: Path) -> Path:
    from crosstraj.analysis.output import inside_run

    place = place_in(run, "probe")
    return inside_run(run, "probe") if place.parent == run else place
