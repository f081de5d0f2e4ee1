"""`crosstraj export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.cli.runs_given import directory_in, known


@dataclass(frozen=True, kw_only=True)
class ExportArguments:
    run: Annotated[Path, POSITIONAL]
    """A run directory, or an agent that comes with crosstraj: agents/<name>."""
    out: Path | None = None
    """The directory to write, with the agent's name; default: the directory `agent` in the run."""
    step: int | None = None
    """A snapshot or checkpoint by its frame count instead of the newest checkpoint."""
    clip: bool = True
    """Add a clip of the agent on seen and unseen levels."""
    onnx: bool = False
    """Add the policy as ONNX, checked against torch (pip install 'crosstraj[onnx]')."""
    licence: str = ""
    """The licence that the card states, as the hub names it, such as mit or cc-by-4.0."""
    push: str | None = None
    """Upload it to the Hugging Face hub as USER/NAME, for everybody to see; without this nothing
    leaves this machine."""


def export(arguments: list[str]) -> None:
    """Write a trained agent for other people: weights, values, a card, a clip."""
    given = parse(ExportArguments, "export", export.__doc__, arguments)
    from crosstraj.analysis.export.bundle import Wanted, push
    from crosstraj.analysis.export.bundle import export as export_run

    run = known(given.run)
    wanted = Wanted(given.step, given.clip, given.onnx, given.licence)
    place = export_run(run, given.out or directory_in(run, "agent"), wanted)
    print(place)
    if given.push is not None:
        print(push(place, given.push))
