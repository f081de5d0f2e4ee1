"""`crosstraj clean`: what runs can make again goes, after a question."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.cli.runs import in_bytes, shown
from crosstraj.errors import BadInput

if TYPE_CHECKING:
    from crosstraj.runs.leftovers import Leftover

Found = dict[Path, "list[Leftover]"]  # by run directory


@dataclass(frozen=True)
class CleanArguments:
    dirs: Annotated[tuple[Path, ...], POSITIONAL] = (Path("runs"),)
    """Run directories, or directories that hold some."""
    yes: bool = False
    """Remove without asking; for scripts."""
    dry_run: bool = False
    """Only show what would go."""


def clean(arguments: list[str]) -> None:
    """Remove what runs can make again: all checkpoints but the newest valid one, leftovers of
    saves that were cut short, rollouts that were not finite and have been got past, runs that
    never came to a checkpoint. Snapshots and logs stay, and a live run is not touched."""
    given = parse(CleanArguments, "clean", " ".join((clean.__doc__ or "").split()), arguments)
    if not (given.yes or given.dry_run or sys.stdin.isatty()):
        raise BadInput(
            "clean asks before it removes anything, and nobody is there to answer; "
            "give --yes, or --dry-run to see what would go"
        )
    found = search(given.dirs)
    several = [leftover for of_run in found.values() for leftover in of_run]
    for leftover in several:
        print(f"{in_bytes(leftover.size):>9}  {shown(str(leftover.path))}  ({leftover.what})")
    total = in_bytes(sum(leftover.size for leftover in several))
    print(f"{len(several)} to remove in {len(found)} runs, {total}")
    if given.dry_run or not several:
        return
    if given.yes or agreed():
        remove_all(found)


def search(places: tuple[Path, ...]) -> Found:
    """What can go, by run; one that is spared is named with the reason."""
    from crosstraj.runs.leftovers import Spared, leftovers
    from crosstraj.runs.status import nothing_at, run_directories

    found: Found = {}
    for place in places:
        if not place.exists():
            raise BadInput(nothing_at(place))
        for run in run_directories(place):
            try:
                if several := leftovers(run):
                    found[run] = several
            except (Spared, OSError) as reason:
                print(f"left as it is: {shown(f'{run}: {reason}')}", file=sys.stderr)
    return found


def agreed() -> bool:
    try:
        return input("remove these? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        print()
        return False


def remove_all(found: Found) -> None:
    """Run by run; one that became live since, or cannot be changed, costs itself alone."""
    from crosstraj.runs.leftovers import Spared, remove

    gone, kept = [], []
    for run, several in found.items():
        try:
            gone += remove(run, several)
        except Spared as reason:
            print(f"left as it is: {shown(f'{run}: {reason}')}", file=sys.stderr)
        except OSError as error:
            kept.append(f"{run} ({error.strerror})")
    print(f"removed {len(gone)}, {in_bytes(sum(leftover.size for leftover in gone))}")
    if kept:
        raise BadInput(f"not all could be removed, in {shown(', '.join(kept))}; see to its rights")
