"""Do two checkouts train alike, to the byte? `python -m tools.compare_checkouts BEFORE AFTER`.

Every method is trained for a few updates in both, by the Python of the checkout's `.venv` where it
has one; then metrics, weights and optimiser state are compared byte by byte. A change that only
moves code must leave them equal. A method that fails in both counts as unequal. Where a default was
changed on purpose, or a figure was added, that is said in words:

    python -m tools.compare_checkouts BEFORE AFTER --words=--machine.kernels=torch --common

gives both the same value, and compares of each log and state what both have.
"""

import argparse
import json
import operator
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosstraj.config.methods import METHODS

SHORT = (
    *("--env", "starpilot", "--envs", "8", "--rollout-steps", "32", "--encoder", "laptop"),
    *("--frames", "1024", "--policy.minibatches", "2", "--representation.minibatches", "2"),
    *("--evaluation.episodes", "2", "--evaluation.envs", "2", "--machine.threads", "1"),
    # On a busy machine the clock would save a checkpoint in one of the two alone.
    *("--saving.checkpoint-seconds", "86400"),
)
MORE = {"pse": ("--objective.levels", "4", "--objective.pairs", "2")}
PRESETS = ("default", "paper")
# What says where and when a run was made, and not what it has learnt.
ASIDE = ("timing.jsonl", "MANIFEST.json", "config.json", "curves.png", "owner.lock")
Jobs = dict[str, tuple[str, ...]]  # the words of each command, by the name of its run


def words_for(method: str, preset: str, words: Sequence[str]) -> tuple[str, ...]:
    return ("--method", method, "--preset", preset, *SHORT, *MORE.get(method, ()), *words)


# One process for all runs of a checkout: most of a short run's time is spent on imports.
EACH = """
import json, runpy, sys
for words in json.load(sys.stdin):
    sys.argv = ["crosstraj", *words]
    try:
        runpy.run_module("crosstraj", run_name="__main__")
    except SystemExit as end:
        if end.code:
            print(f"{words}: exit {end.code}", file=sys.stderr)
"""


def begun(checkout: Path, runs: Path, jobs: Jobs) -> subprocess.Popen[str]:
    """A process that trains each of them, one after the other, in directories of their own."""
    own = checkout / ".venv" / "bin" / "python"
    command = [str(own) if own.exists() else sys.executable, "-c", EACH]
    here = os.environ | {"PYTHONPATH": str(checkout)}
    told, nowhere = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=checkout, env=here, text=True, stdin=told, stdout=nowhere
    )
    assert process.stdin is not None
    lines = [["train", *words, "--saving.runs", str(runs / name)] for name, words in jobs.items()]
    process.stdin.write(json.dumps(lines))
    process.stdin.close()
    return process


def left_behind(runs: Path) -> dict[str, Path]:
    """The files of a run, by their place in its directory; none where it failed."""
    (run,) = runs.iterdir() if runs.exists() else (runs,)
    files = [path for path in run.rglob("*") if path.is_file() and path.name not in ASIDE]
    return {str(path.relative_to(run)): path for path in files}


def differing(one: dict[str, Path], other: dict[str, Path], *, common: bool) -> list[str]:
    """The files whose contents differ, or that one of the two alone has."""
    found = [name for name in one.keys() ^ other.keys() if not common]
    for name in one.keys() & other.keys():
        two = (content(one[name], rows=common), content(other[name], rows=common))
        if two[0] != two[1] and (not common or operator.ne(*shared(*two))):
            found.append(name)
    return sorted(found)


def content(path: Path, *, rows: bool) -> Any:
    """A state as values, everything else as bytes; logs as `rows` where it is asked."""
    if rows and path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.name == "state.json":
        state = json.loads(path.read_bytes())
        del state["logs"]["timing.jsonl"]  # its length: how many digits a clock showed
        return state
    return path.read_bytes()


def shared(one: Any, other: Any) -> tuple[Any, Any]:
    """Both without the names that only one of them has, however deep."""
    match one, other:
        case dict(), dict():
            pairs = {name: shared(one[name], other[name]) for name in one if name in other}
            return {n: a for n, (a, _) in pairs.items()}, {n: b for n, (_, b) in pairs.items()}
        case list(), list() if len(one) == len(other):
            both = [shared(a, b) for a, b in zip(one, other, strict=True)]
            return [a for a, _ in both], [b for _, b in both]
    return one, other


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--presets", nargs="+", default=PRESETS)
    parser.add_argument("--words", action="append", default=[], help="for both: --words=--FLAG=X")
    parser.add_argument("--common", action="store_true", help="only names that both have")
    given = parser.parse_args()
    jobs = {
        f"{method}, {preset}": words_for(method, preset, given.words)
        for method in given.methods
        for preset in given.presets
    }
    lost = 0
    with tempfile.TemporaryDirectory() as place:
        two = (Path(place) / "before", Path(place) / "after")
        sides = zip((given.before, given.after), two, strict=True)
        for process in [begun(checkout.resolve(), runs, jobs) for checkout, runs in sides]:
            process.wait()
        for name in jobs:
            one, other = (left_behind(runs / name) for runs in two)
            unequal = differing(one, other, common=given.common)
            lost += bool(unequal) or not one.keys() & other.keys()
            equal = f"{len(one.keys() & other.keys())} files equal"
            said = f"differ: {', '.join(unequal)}" if unequal else equal
            print(f"{name}: {said}", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
