"""`crosstraj margins`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.table import Table

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.learning.display import screen
from crosstraj.nn.native import keep_memory

Levels = Literal["seen", "unseen"]


@dataclass(frozen=True)
class MarginsArguments:
    run: Annotated[Path, POSITIONAL]
    """A run directory of a method with prototypes (ctrl)."""
    levels: Levels = "unseen"
    """The training levels, or levels never seen."""
    step: int | None = None
    """A snapshot by its frame count instead of the newest checkpoint."""
    seed: int = 0
    """Which levels are played, how actions and perturbations are drawn."""
    out: Path | None = None
    """Where margins.json and margins.png go; default: the run directory."""


def margins(arguments: list[str]) -> None:
    """How far views are from the border of their cluster, and what one perturbed frame does."""
    given = parse(MarginsArguments, "margins", margins.__doc__, arguments)
    from crosstraj.analysis.margins.figure import write
    from crosstraj.analysis.margins.measure import summary
    from crosstraj.analysis.margins.robustness import probe

    keep_memory()
    found, facts = probe(given.run, given.step, given.levels, given.seed)
    figures = facts | summary(found)
    paths = write(given.out or given.run, found, figures)
    _print_margins(figures)
    print("\n".join(map(str, paths)))


def _print_margins(figures: dict[str, Any]) -> None:
    console = screen()
    table = Table("margin", *next(iter(figures["margin"].values())), "clusters used")
    for name, quantiles in figures["margin"].items():
        used = figures["clusters_used"].get(name, "-")
        table.add_row(name, *(f"{value:.4f}" for value in quantiles.values()), str(used))
    console.print(table)
    table = Table()
    table.add_column("one frame changed", no_wrap=True)
    table.add_column("median change")
    for clustering in ("scores", "codes"):
        table.add_column(f"inside, {clustering}")
        table.add_column(f"same, {clustering}")
    for kind, row in figures["perturbation"].items():
        shares = [row[f"{what}_{by}"] for by in ("scores", "codes") for what in ("inside", "same")]
        table.add_row(kind, f"{row['median_change']:.4f}", *(f"{share:.1%}" for share in shares))
    console.print(table)
    console.print(
        f"{figures['views']} views of {figures['keypoints']} frames on {figures['levels']} levels "
        f"after {figures['frames']:,} frames of training, {figures['clusters']} clusters; inside: "
        "moved by less than the margin, so the cluster cannot change; same: it did not change. "
        f"Scores and codes agree on {figures['scores_and_codes_agree']:.1%} of the views.",
        style="dim",
    )
