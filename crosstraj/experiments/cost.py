"""What runs cost in processor-hours, from their timing logs, and what others like them will cost.

A row of timing.jsonl has the processor's own time since the row before, over all threads, which
counts evaluations and saves but for the last ones. Rows of older runs have the clock's seconds of
training alone: these count times the threads of the run, whatever else the machine did meanwhile.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from crosstraj.config.dotted import identity_of
from crosstraj.config.stored import telling, to_dict
from crosstraj.cores import usable_cores
from crosstraj.errors import BadInput
from crosstraj.experiments.jobs import Job
from crosstraj.experiments.kept import kept_files
from crosstraj.learning.load import read_values
from crosstraj.report.labels import variant_of
from crosstraj.runs.read import timing


class Cost(NamedTuple):
    frames: int
    hours: float
    by_clock: bool  # some of it by the clock and the number of threads


def cost_of(run: Path, budget: int | None = None) -> Cost | None:
    """What a run directory, or its kept logs, cost up to a budget; None where nothing is known."""
    try:
        values = read_values(run)
        rows = timing(run)
        rows = rows if budget is None else _up_to(rows, budget)
        if not rows:
            return None
        threads = int(values["machine"]["threads"]) or usable_cores()
        seconds = [float(row.get("processor", row["seconds"] * threads)) for row in rows]
        by_clock = any("processor" not in row for row in rows)
        return Cost(int(rows[-1]["frames"]), sum(seconds) / 3600, by_clock)
    except (BadInput, OSError, LookupError, TypeError, ValueError):
        return None


def _up_to(rows: list[dict[str, Any]], budget: int) -> list[dict[str, Any]]:
    """The rows of a run of this budget, which ends with the rollout that reaches it."""
    ends = [index for index, row in enumerate(rows, 1) if row["frames"] >= budget]
    return rows[: ends[0]] if ends else rows


class Rate(NamedTuple):
    """Processor-seconds per frame: the median over runs that are alike."""

    seconds: float
    runs: int
    exact: bool  # all values are the same, and not only method, preset, encoder and machine
    by_clock: bool


def rates(places: Iterable[Path]) -> dict[str, list[Cost]]:
    """Costs of all runs in these directories, by what makes them alike; see `alike`."""
    found: dict[str, list[Cost]] = {}
    known = set[str]()
    for run in [run for place in places for run in runs_in(place)]:
        cost = cost_of(run)
        values = read_values(run) if cost else {}
        identity = identity_of(telling(values), ())
        if cost is None or identity in known:
            continue
        known.add(identity)  # a run may be kept by several experiments, and still be in runs/
        for key in alike(values):
            found.setdefault(key, []).append(cost)
    return found


def runs_in(place: Path) -> list[Path]:
    """Run directories in a place, and kept runs of experiments below it."""
    return [*(sorted(place.iterdir()) if place.is_dir() else ()), *kept_files(place)]


def alike(config: Mapping[str, Any]) -> tuple[str, str]:
    """Two keys: runs with all the same values, and with the same method, preset and encoder.

    On the same kind of machine both times; threads do not count, as processor time adds them up.
    """
    machine = {"machine": {k: v for k, v in config["machine"].items() if k != "threads"}}
    method = {name: config[name] for name in ("method", "preset", "encoder")}
    whole = {"variant": variant_of(config)}
    return identity_of(whole | machine, ()), identity_of(method | machine, ())


def rate_of(job: Job, known: Mapping[str, list[Cost]]) -> Rate | None:
    """The rate of runs that are alike in everything, or at least in kind; None: there is none."""
    for exact, key in zip((True, False), alike(to_dict(job.config)), strict=True):
        if costs := known.get(key):
            middle = statistics.median(3600 * cost.hours / cost.frames for cost in costs)
            return Rate(middle, len(costs), exact, any(cost.by_clock for cost in costs))
    return None


def forecast(
    jobs: list[Job], known: Mapping[str, list[Cost]], cores: int, price: float = 0.0
) -> str:
    """What would run and what it would cost, in words; where no rate is known it says so.

    `cores` and `price`, per hour, are those of one machine.
    """
    todo = [job for job in jobs if not job.finished()]
    lines = [f"{len(jobs) - len(todo)} of {len(jobs)} runs are finished; {len(todo)} would run"]
    hours, unknown = list[float](), []
    used: dict[str, Rate] = {}
    for job in todo:
        left, rate = job.planned.frames - job.frames(), rate_of(job, known)
        if rate is None:
            unknown.append(job)
            cost = "no rate is known"
        else:
            hours.append(left * rate.seconds / 3600)
            used.setdefault(job.planned.variant, rate)
            cost = f"{hours[-1]:.2f} processor-hours"
        lines.append(f"{job.planned.name}: {left:,} frames to go, {cost}")
    for variant, rate in used.items():
        lines.append(f"{variant}: {1000 * rate.seconds:.2f} ms per frame, {_origin(rate)}")
    if hours:
        lines += bill(hours, cores, price)
    if unknown:
        frames = sum(job.planned.frames - job.frames() for job in unknown)
        names = ", ".join(dict.fromkeys(job.planned.variant for job in unknown))
        lines.append(
            f"without {len(unknown)} runs, {frames:,} frames, of which no run of the same method, "
            f"preset, encoder and machine values has a timing log: {names}; train one of each "
            "for a few minutes, and its rate is known"
        )
    return "\n".join(lines)


def bill(hours: list[float], cores: int, price: float) -> list[str]:
    """What runs of these processor-hours take on machines of a kind, if all cores are busy."""
    total, longest = sum(hours), max(hours)
    machines = math.ceil(total / (24 * cores))
    lines = [f"in total {total:.2f} processor-hours; {total / cores:.2f} h on {cores} cores"]
    if longest > total / cores:
        lines.append(
            f"not before {longest:.2f} h with one thread per run, which the longest run takes"
        )
    if machines > 1:
        late = "" if longest <= 24 else "; but the longest run takes more, with one thread"
        lines.append(f"within a day on {machines} machines with {cores} cores{late}")
    if price:
        paid = total / cores * price
        lines.append(f"at {price:g} per hour of {cores} cores: {paid:,.2f}")
    return lines


def _origin(rate: Rate) -> str:
    same = "all the same values" if rate.exact else "the same method, preset and encoder"
    clock = "; by the clock, evaluations not counted" if rate.by_clock else ""
    return f"the median of {rate.runs} runs with {same}{clock}"
