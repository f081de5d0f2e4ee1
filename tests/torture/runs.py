"""Training runs to be tortured: their commands, their processes, and the bytes they leave behind.

Nothing heavy is imported here: every process of the torture needs it.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
LANES = 2  # processes at a time; starting one keeps a single core busy
ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "passive"}  # lanes share the cores: no spinning

Outcome = tuple[int, int]  # tried, survived
Process = subprocess.Popen[str]


# --- Which runs


class Size(NamedTuple):
    """What a run is made of; the rest is the method's shipped preset."""

    options: tuple[str, ...]
    rollout_frames: int


SMALL = Size(
    (
        # Its episodes are short: an evaluation takes a moment, and rollouts have many ends.
        *("--env", "bossfight", "--envs", "8", "--rollout-steps", "32", "--encoder", "laptop"),
        *("--policy.minibatches", "2", "--representation.minibatches", "2"),
        *("--evaluation.episodes", "4", "--evaluation.envs", "4", "--saving.snapshots", "2"),
    ),
    rollout_frames=8 * 32,
)
SHIPPED = Size(
    (
        *("--env", "bossfight", "--evaluation.episodes", "8", "--evaluation.envs", "8"),
        # Ours where there is a compiler for them; the small runs have torch's.
        *("--machine.kernels", "native" if shutil.which("cc") else "torch"),
    ),
    rollout_frames=32 * 256,
)


class Job(NamedTuple):
    method: str
    updates: int
    evaluate_every: int  # in updates
    size: Size = SMALL
    options: tuple[str, ...] = ()
    threads: int = 2

    @property
    def frames(self) -> int:
        return self.updates * self.size.rollout_frames

    def command(self, runs: Path) -> tuple[str, ...]:
        every = self.evaluate_every * self.size.rollout_frames
        clusters = () if self.method == "ppo" else ("--objective.clusters", "8")
        return (
            *("train", "--method", self.method, "--frames", str(self.frames)),
            *(*self.size.options, *(clusters if self.size is SMALL else ())),
            *("--evaluation.every", str(every), "--machine.threads", str(self.threads)),
            *("--saving.checkpoint-seconds", "0", "--saving.runs", str(runs), *self.options),
        )


# --- Processes


class Ended(NamedTuple):
    code: int  # negative: the signal that ended it
    output: str
    errors: str
    at: float  # on the clock of all processes

    @property
    def mark(self) -> float:
        """When the process said that it had reached the marked place."""
        return float(self.output.rpartition("MARK ")[2].split()[0])


def fault(target: str, at: int, action: str, told: Any = None) -> dict[str, Any]:
    """After the `at`-th call of `target` (0: each call): see driver.py."""
    return {"target": f"crosstraj.{target}", "at": at, "action": action, "told": told}


def start(command: Sequence[str], *faults: dict[str, Any], heard: bool = True) -> Process:
    """A fresh process with its faults, under deterministic algorithms.

    A long one is better not heard: it would wait for somebody to read what it says.
    """
    said = subprocess.PIPE if heard else subprocess.DEVNULL
    return _start("tests.torture.driver", json.dumps(faults), *command, said=said)


def start_plain(command: Sequence[str]) -> Process:
    """A fresh process as a user starts it."""
    return _start("crosstraj", *command)


def _start(module: str, *arguments: str, said: int = subprocess.PIPE) -> Process:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=said,
        stderr=said,
        text=True,
    )


def finish(process: Process, timeout: float = 900) -> Ended:
    output, errors = process.communicate(timeout=timeout)
    return Ended(process.returncode, output or "", errors or "", time.monotonic())


def play(command: Sequence[str], *faults: dict[str, Any]) -> Ended:
    return finish(start(command, *faults))


def wait_for_mark(process: Process) -> None:
    """Until the process has reached its marked place, or has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        if "MARK" in line:
            break


def in_lanes(work: Callable[..., Any], *items: Iterable[Any]) -> list[Any]:
    """As `map`, two at a time."""
    with ThreadPoolExecutor(LANES) as lanes:
        return list(lanes.map(work, *items))


# --- What a run leaves behind


def directory_of(runs: Path) -> Path:
    """The one run directory under a root."""
    (directory,) = (path for path in runs.iterdir() if path.is_dir())
    return directory


def steps_of(directory: Path) -> list[int]:
    """The frame counts of the checkpoints, newest first."""
    found = (path.name.removeprefix("step-") for path in directory.glob("checkpoints/*"))
    return sorted((int(name) for name in found if name.isdigit()), reverse=True)


def newest_of(directory: Path) -> Path:
    return directory / "checkpoints" / f"step-{steps_of(directory)[0]}"


def checkpoint_digests(path: Path) -> dict[str, str]:
    """SHA-256 of weights, training state and plain values, but for the length of timing.jsonl.

    That log holds seconds, which no two runs share; of the logs it alone may differ in length.
    """
    values = json.loads((path / "state.json").read_bytes())
    values["logs"].pop("timing.jsonl")
    contents = {
        "weights": (path / "weights.safetensors").read_bytes(),
        "training": (path / "training.safetensors").read_bytes(),
        "state": json.dumps(values).encode(),
    }
    return {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}


def fingerprint(directory: Path) -> dict[str, str]:
    """SHA-256 of all that a finished run must share with one that was never interrupted."""
    files = [directory / name for name in ("metrics.jsonl", "episodes.jsonl", "summary.json")]
    files += directory.glob("snapshots/*/*.safetensors")
    return checkpoint_digests(newest_of(directory)) | {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def different(found: dict[str, str], wanted: dict[str, str]) -> str:
    """Which parts are not equal; nothing if all are."""
    parts = [name for name in wanted if found.get(name) != wanted[name]]
    return f"{', '.join(parts)} differ" if parts else ""


# --- Runs that nothing happened to


class Reference(NamedTuple):
    """A run that was never interrupted, to hold the others against."""

    job: Job
    runs: Path
    end: dict[str, str]  # its fingerprint
    after: dict[int, dict[str, str]]  # frames -> digests of the checkpoint after that update
    save_seconds: float  # on average, with gathering the state
    update_seconds: float


class Workshop:
    """A directory for everything, and the references that rows share."""

    def __init__(self, root: Path, soak_seconds: float) -> None:
        self.root, self.soak_seconds = root, soak_seconds
        self.references: dict[Job, Reference] = {}
        self.making = threading.Lock()  # of a reference: rows may ask for the same one at once
        self.figures: dict[str, Any] = {}  # what rows measured on the way
        self.beside: Process | None = None  # a long run that goes on beside the rows for a while

    def place(self, name: str) -> Path:
        """An empty directory that others may enter, for a run with its own root."""
        path = self.root / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def reference(self, job: Job) -> Reference:
        with self.making:
            if job not in self.references:
                self.references[job] = self._make(job)
            return self.references[job]

    def _make(self, job: Job) -> Reference:
        runs = self.place(f"reference-{len(self.references)}")
        notes = {name: runs / name for name in ("saves", "clock", "updates")}
        ended = play(
            job.command(runs),
            fault("learning.state:Training.state_dict", 0, "clock", str(notes["clock"])),
            fault("runs.directory:Run.save", 0, "clock", str(notes["clock"])),
            fault("train:learn", 0, "clock", str(notes["updates"])),
            fault("runs.directory:Run.save", 0, "record", str(notes["saves"])),  # around the clock
        )
        if ended.code:
            raise RuntimeError(f"a run without any fault ended with {ended.code}: {ended.errors}")
        rows = {name: read_notes(path) for name, path in notes.items()}
        after: dict[int, dict[str, str]] = {}
        for frames, digests in rows["saves"]:  # the last update is saved again after evaluating
            after.setdefault(frames, digests)
        return Reference(
            job,
            runs,
            fingerprint(directory_of(runs)),
            after,
            sum(rows["clock"]) / len(rows["saves"]),
            sum(rows["updates"]) / len(rows["updates"]),
        )

    def copy(self, runs: Path, name: str) -> Path:
        """The same runs under another root."""
        shutil.rmtree(self.root / name, ignore_errors=True)
        return Path(shutil.copytree(runs, self.root / name))


def read_notes(path: Path) -> list[Any]:
    """What the driver noted, line by line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def tally(complaints: Iterable[str]) -> Outcome:
    """Counts trials: "" is one survived, anything else is what was wrong, and is printed."""
    each = list(complaints)
    for complaint in filter(None, each):
        print(f"    LOST: {complaint}", flush=True)
    return len(each), each.count("")


def verdict(ended: Ended, runs: Path, wanted: dict[str, str], *words: str) -> str:
    """Did a process end well, with the bytes it should, and did it say all these words?"""
    if ended.code or not all(said in ended.errors for said in words):
        return f"{runs.name}: code {ended.code}: {ended.errors[-500:]}"
    wrong = different(fingerprint(directory_of(runs)), wanted)
    return f"{runs.name}: {wrong}" if wrong else ""


def ends_as(
    job: Job, runs: Path, wanted: dict[str, str], start: Callable[..., Process] = start
) -> str:
    """Runs the command once more, in a fresh process: does it go on, and end with these bytes?"""
    words = resuming(runs)
    return verdict(finish(start(job.command(runs))), runs, wanted, words)


def resuming(runs: Path) -> str:
    """What the next process must say: a run that began again would end with the same bytes."""
    for directory in filter(Path.is_dir, runs.iterdir()):
        if not (directory / "summary.json").exists() and (steps := steps_of(directory)):
            return f"resuming {directory} at {steps[0]:,} frames"
    return ""
