"""Every run below some directories at a glance: what became of it, how far it is, who owns it.

    running     a live process owns it
    finished    its summary reaches its budget
    stopped     neither; the same command goes on from the last checkpoint
    not finite  it has not got past a rollout that was not finite, which nonfinite/ holds
    refused     it has stopped, and the last words in the log beside it are a refusal
    failed      the same with a Python error
    kept        not finished, and no process owned it here: kept logs, or the shelf of a cluster
    unknown     its owner, on another machine, never left it, and its lock is not seen from here
    broken      its config.json, summary.json or metrics.jsonl cannot be read

Reads the ends of logs only, takes no lock away, and imports nothing heavy.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from crosstraj import disk
from crosstraj.errors import BadInput
from crosstraj.runs import lock
from crosstraj.runs.chance import RANDOM, RESULTS, random_in
from crosstraj.runs.lock import Owner
from crosstraj.runs.tail import last_row, last_words

# What needs somebody's eye comes first.
Status = Literal[
    "running", "refused", "failed", "not finite", "broken", "unknown", "stopped", "kept", "finished"
]
STATUSES: tuple[Status, ...] = get_args(Status)
WRITTEN = ("config.json", "metrics.jsonl", "timing.jsonl", "episodes.jsonl", "summary.json")
HELD_OUT = ("unseen", "validation")  # the levels whose return is a run's result: the first it has
UNREADABLE = (OSError, LookupError, TypeError, ValueError, RecursionError)
SAID = re.compile(r"crosstraj: (?!stopped by SIG|process \S+ (?:on \S+ )?is writing )(.+)")
FAILED = re.compile(r"[A-Za-z_.]*(?:Error|Exception)(?::.*)?")
NAME = re.compile(r"([^-]+)-(.+)-s([0-9]+)-[0-9a-f]{8}")


class Glance(NamedTuple):
    path: Path
    status: Status
    why: str = ""  # the reason, where there is one
    method: str = ""
    game: str = ""
    seed: int | None = None
    frames: int = 0
    budget: int | None = None
    score: float | None = None  # the last return on levels that it did not train on
    levels: str = ""  # and which these are
    random: float | None = None  # what random play earns there, where it was measured
    size: int = 0  # bytes
    written: float | None = None  # when it last wrote, in seconds since 1970
    owner: Owner | None = None  # as the lock names it


def nothing_at(place: Path) -> str:
    return f"there is no {place} here; train something, or name directories that hold runs"


def glances(places: Iterable[Path]) -> list[Glance]:
    """Every run at or below these directories, once, by status and then by name."""
    found: dict[str, Glance] = {}
    for place in places:
        if not place.exists():
            raise BadInput(nothing_at(place))
        for run in _runs_below(place):
            found.setdefault(os.path.realpath(run.path), run)
    return sorted(found.values(), key=_order)


def _order(run: Glance) -> tuple[Any, ...]:
    place = STATUSES.index(run.status)
    return place, run.path.parent, run.method, run.game, run.seed or 0, run.path.name


def run_directories(place: Path) -> Iterator[Path]:
    """The directories at or below this one that a run has begun in, or is kept in."""
    return (directory for directory, begun, _ in _walk(place) if begun)


def _walk(place: Path) -> Iterator[tuple[Path, bool, list[str]]]:
    """Each directory, whether it is a run's, and its files; nothing below a run, behind no link."""
    for directory, names, files in os.walk(place):
        begun = "config.json" in files or lock.NAME in files
        yield Path(directory), begun, files
        if begun:
            names.clear()
        names.sort()


def _runs_below(place: Path) -> Iterator[Glance]:
    for directory, begun, files in _walk(place):
        if begun:
            yield glance(directory)
            continue
        for log in sorted(name for name in files if name.endswith(".log")):
            run = directory / log.removesuffix(".log")
            if NAME.fullmatch(run.name) and not os.path.lexists(run):
                yield from _never_begun(run)


def _never_begun(run: Path) -> Iterator[Glance]:
    """A run of which there is nothing but what its process said in the log of an experiment."""
    status, why = _said(run, since=0)
    if status != "stopped" and (parts := NAME.fullmatch(run.name)):
        method, game, seed = parts.groups()
        yield Glance(run, status, why, method, game, int(seed), written=_time(_log(run)))


def glance(run: Path) -> Glance:
    """One run directory; whatever is wrong with it is said, not raised."""
    live, owner = lock.look(run / lock.NAME)
    written = max((time for name in WRITTEN if (time := _time(run / name))), default=None)
    seen = Glance(run, "stopped", size=disk.size(run), written=written, owner=owner)
    status: Status
    try:
        values = _values(run)
        seen = seen._replace(method=values["method"], game=values["env"])
        seen = _with_results(seen._replace(seed=values["seed"], budget=values["frames"]))
        seen = seen._replace(random=_random(values, seen.levels))
    except UNREADABLE as error:
        said = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        status, why = "broken", said
    else:
        status, why = ("running", "") if live else _status(seen)
    return seen._replace(status="running" if live else status, why=why)


def _values(run: Path) -> dict[str, Any]:
    """What is trained, from config.json."""
    values = _object(run / "config.json").get("config")
    kinds = {"method": str, "env": str, "seed": int, "frames": int}
    for name, kind in kinds.items():
        value = values.get(name) if isinstance(values, dict) else None
        if type(value) is not kind:
            raise BadInput(f"config.json: {name} is {value!r}, and must be {kind.__name__}")
    assert isinstance(values, dict)
    return values


def _random(values: dict[str, Any], levels: str) -> float | None:
    """What random play earns on these levels; a damaged file of it is nothing against a run."""
    try:
        found = random_in(values, levels, (RANDOM, RESULTS / "random"))
    except (BadInput, *UNREADABLE):
        return None
    return found.score if found.measured else None


def _with_results(seen: Glance) -> Glance:
    """How far it is, and its last return: from the summary of a finished run, else the log."""
    summary = _object(seen.path / "summary.json", needed=False)
    if _whole(summary.get("frames", 0), "summary.json") >= (seen.budget or 0):
        return _judged(seen, summary)._replace(status="finished", frames=summary["frames"])
    log = seen.path / "metrics.jsonl"
    if not log.exists():
        return seen
    try:
        row, judged = last_row(log), last_row(log, "evaluation")
        frames = _whole(row["frames"], "metrics.jsonl") if row else 0
        return _judged(seen, judged or {})._replace(frames=frames)
    except UNREADABLE as error:
        raise BadInput(f"metrics.jsonl is damaged ({type(error).__name__}: {error})") from error


def _object(path: Path, *, needed: bool = True) -> dict[str, Any]:
    try:
        found = json.loads(disk.read_plain_file(path))
    except FileNotFoundError:
        if needed:
            raise BadInput(f"{path.name} is missing; the same command writes it again") from None
        return {}
    except UNREADABLE as error:
        raise BadInput(f"{path.name} is damaged ({type(error).__name__}: {error})") from error
    if not isinstance(found, dict):
        raise BadInput(f"{path.name} is damaged: it holds no object")
    return found


def _whole(value: Any, name: str) -> int:
    if type(value) is not int:
        raise BadInput(f"{name}: frames is {value!r}, and must be int")
    return value


def _judged(seen: Glance, figures: dict[str, Any]) -> Glance:
    for levels in HELD_OUT:
        score = figures.get(f"{levels}_return")
        if isinstance(score, float | int) and math.isfinite(score):
            return seen._replace(score=float(score), levels=levels)
    return seen


def _status(seen: Glance) -> tuple[Status, str]:
    """Of a run that nobody is seen to own."""
    if seen.status == "finished":
        return "finished", ""
    if seen.owner is not None and not seen.owner.here:
        return "unknown", f"the lock of {seen.owner.host} cannot be seen from here"
    if (stuck := max(dumps(seen.path), default=-1)) >= seen.frames:
        return "not finite", f"after {stuck:,} frames: nonfinite/step-{stuck} has the rollout"
    status, why = _said(seen.path, since=seen.written or 0)
    owned = status != "stopped" or os.path.lexists(seen.path / lock.NAME)
    return (status, why) if owned else ("kept", "")


def dumps(run: Path) -> list[int]:
    """After how many frames something was not finite, for each rollout that was kept."""
    try:
        names = os.listdir(run / "nonfinite")
    except OSError:
        return []
    return [int(found[1]) for name in names if (found := re.fullmatch(r"step-([0-9]+)", name))]


def _said(run: Path, since: float) -> tuple[Status, str]:
    """What the log beside it ends with, unless the run itself has written since."""
    if (_time(_log(run)) or -1) < since:
        return "stopped", ""
    words = last_words(_log(run))
    if found := SAID.fullmatch(words):
        return "refused", found[1]
    return ("failed", words) if FAILED.fullmatch(words) else ("stopped", "")


def _log(run: Path) -> Path:
    """What an experiment's process said, beside its run directory."""
    return run.with_name(f"{run.name}.log")


def _time(path: Path) -> float | None:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return None
