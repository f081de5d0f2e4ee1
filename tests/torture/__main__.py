"""Tries every fault of docs/reliability.md on real runs and prints a table: python -m tests.torture

37 minutes on two cores. Exit code 1 if anything was lost.
"""

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from tests.torture import disk, endurance, guards, resume
from tests.torture.runs import ROOT, Outcome, Workshop, in_lanes

METHODS = ", ".join(resume.METHODS)
SHIPPED = "the same with the shipped CTRL preset, at 3 points"

Row = Callable[[Workshop], Outcome]

ROWS: tuple[tuple[str, Row], ...] = (
    (f"none: the plain command, beside the driven one ({METHODS})", resume.undisturbed),
    (f"stop after each of 20 updates, and resume ({METHODS})", resume.stops),
    (SHIPPED, resume.stops_shipped),
    (f"`kill -9` at 50 random moments, saves among them ({METHODS})", resume.kills),
    (SHIPPED, resume.kills_shipped),
    ("death amid or after the n-th operation of a save, every n", disk.deaths),
    ("200 flips, 50 truncations, each file deleted; 8 real resumes", disk.damages),
    ("disk full or directory read-only, in the middle and at the end", disk.refusals),
    ("SIGTERM, SIGINT, SIGHUP in rollout, update, save, evaluation; twice", resume.signals),
    (SHIPPED, resume.signals_shipped),
    ("NaN or infinity in loss, gradient, reward; float observations", guards.nonfinite),
    ("a malicious pickle in place of every file", guards.pickles),
    ("a second process; a dead owner", guards.owners),
    ("other torch version, thread count, compile flag, processor", disk.other_machines),
    ("another format or configuration", disk.other_formats),
    ("an observer reading 1000 times", endurance.observers),
    ("a long run with evaluations: memory, open files", endurance.soak),
    ("cost of saves and guards", endurance.cost),
)
# Each needs both cores for a part of its time: two at once, after the row that is timed, and before
# the long run.
SHIPPED_ROWS: tuple[Row, ...] = (
    resume.stops_shipped,
    resume.kills_shipped,
    resume.signals_shipped,
)


class Result(NamedTuple):
    fault: str
    tried: int
    survived: int
    seconds: float


def table(results: list[Result]) -> str:
    lines = ["| fault | tried | survived | lost |", "|---|---:|---:|---:|"]
    for row in results:
        lost = row.tried - row.survived
        lines.append(f"| {row.fault} | {row.tried} | {row.survived} | {lost} |")
    return "\n".join(lines)


def report(results: list[Result], figures: dict[str, object], minutes: float, place: Path) -> str:
    """The table and the figures as text, which is also left in `place`."""
    listed = "\n".join(f"- {name}: {value}" for name, value in figures.items())
    text = f"{table(results)}\n\n{minutes:.0f} minutes in all.\n\n{listed}\n"
    place.mkdir(exist_ok=True)
    (place / "torture.md").write_text(f"# make torture\n\n{text}")
    rows = [row._asdict() for row in results]
    values = {"rows": rows, "figures": figures, "minutes": round(minutes, 1)}
    (place / "torture.json").write_text(json.dumps(values, indent=1) + "\n")
    return text


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--soak-seconds", type=float, default=600.0)
    parser.add_argument("--out", type=Path, default=ROOT / "results")
    names = [function.__name__ for _, function in ROWS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="ROW")
    return parser.parse_args()


def attempt(fault: str, row: Row, shop: Workshop) -> Result:
    """One row; if it cannot be carried out at all, that is a loss too."""
    began = time.monotonic()
    try:
        tried, survived = row(shop)
    except Exception:
        traceback.print_exc()
        tried, survived = 1, 0
    seconds = time.monotonic() - began
    print(f"{fault}: {survived} of {tried}, {seconds:.0f} s", flush=True)
    return Result(fault, tried, survived, seconds)


def attempt_all(names: list[str], shop: Workshop) -> list[Result]:
    """Every row asked for, in the order of the table; the long run goes on beside some of them."""
    chosen = {row: fault for fault, row in ROWS if row.__name__ in names}
    results: dict[Row, Result] = {}

    def go(row: Row) -> None:
        results[row] = attempt(chosen[row], row, shop)

    if endurance.cost in chosen:
        go(endurance.cost)
    in_lanes(go, [row for row in SHIPPED_ROWS if row in chosen])
    try:
        if endurance.soak in chosen:
            endurance.begin_soak(shop)
        for row in chosen:
            if row not in results:
                go(row)
    finally:
        endurance.end_soak(shop)
    return [results[row] for row in chosen]


def main() -> int:
    given, began = parse(), time.monotonic()
    torch.set_num_threads(1)  # rows fork: a child may not find threads that it does not have
    with tempfile.TemporaryDirectory(prefix="torture-") as root:
        Path(root).chmod(0o755)  # a run without privileges must reach its directory
        shop = Workshop(Path(root), given.soak_seconds)
        results = attempt_all(given.only, shop)
    minutes = (time.monotonic() - began) / 60
    print(f"\n{report(results, shop.figures, minutes, given.out)}")
    return int(any(row.survived < max(row.tried, 1) for row in results))  # untried is not survived


if __name__ == "__main__":
    sys.exit(main())
