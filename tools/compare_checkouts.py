"""Do two checkouts train alike, to the byte? `python -m tools.compare_checkouts BEFORE AFTER`.

Every method is trained for a few updates in both, in processes of its own; then metrics, weights
and optimiser state are compared byte by byte. A change that only moves code must leave them equal.
A method that fails in both counts as unequal.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

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


def trained(checkout: Path, method: str, preset: str, runs: Path) -> dict[str, str]:
    """The digests of what a short run leaves behind, by file; or what it says when it fails."""
    command = [sys.executable, "-m", "crosstraj", "train", "--method", method, "--preset", preset]
    command += [*SHORT, *MORE.get(method, ()), "--saving.runs", str(runs)]
    here = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=here, capture_output=True, text=True)
    if done.returncode:
        return {f"{checkout}: {done.stderr.strip().splitlines()[-1]}": "failed"}
    (run,) = runs.iterdir()
    files = [path for path in run.rglob("*") if path.is_file() and path.name not in ASIDE]
    return {str(path.relative_to(run)): digest(path) for path in files}


def digest(path: Path) -> str:
    data = path.read_bytes()
    if path.name == "state.json":
        state = json.loads(data)
        del state["logs"]["timing.jsonl"]  # its length: how many digits a clock showed
        data = json.dumps(state).encode()
    return hashlib.sha256(data).hexdigest()


def compare(before: Path, after: Path, method: str, preset: str) -> list[str]:
    """The files that differ, or are in one of the two only."""
    with tempfile.TemporaryDirectory() as place:
        found = [
            trained(checkout, method, preset, Path(place) / name)
            for name, checkout in (("before", before), ("after", after))
        ]
    names = found[0].keys() | found[1].keys()
    return sorted(name for name in names if found[0].get(name) != found[1].get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    given = parser.parse_args()
    unequal = 0
    for method in given.methods:
        for preset in PRESETS:
            differing = compare(given.before.resolve(), given.after.resolve(), method, preset)
            unequal += bool(differing)
            print(f"{method}, {preset}: {', '.join(differing) or 'equal'}", flush=True)
    return 1 if unequal else 0


if __name__ == "__main__":
    raise SystemExit(main())
