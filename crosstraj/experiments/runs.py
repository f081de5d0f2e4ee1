"""The runs of an experiment made exact: the configuration and the directory of each."""

import dataclasses
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from crosstraj.config.values import Config, check_env_name, preset, with_policy
from crosstraj.errors import BadInput, unknown
from crosstraj.experiments.file import Planned, Value, Values
from crosstraj.learning.load import place_of


@dataclass(frozen=True, eq=False)
class Job:
    planned: Planned
    config: Config
    directory: Path
    kept: Path | None  # where its logs are, or may come to be, when the run directory is gone

    @property
    def logs(self) -> Path:
        """The directory to read from: what was kept counts where it alone is finished."""
        if self.kept is None or reached(self.directory) >= self.planned.frames:
            return self.directory
        return self.kept if reached(self.kept) >= self.planned.frames else self.directory

    @property
    def log(self) -> Path:
        """What the process says, beside its run directory."""
        return self.directory.with_name(f"{self.directory.name}.log")

    def frames(self) -> int:
        """How far the run is, at most its budget: the last whole row of its metrics."""
        try:
            with (self.logs / "metrics.jsonl").open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 2**16))
                rows = file.read().split(b"\n")
            return min(self.planned.frames, int(json.loads(rows[-2])["frames"]))
        except (OSError, ValueError, LookupError, TypeError):
            return 0

    def finished(self) -> bool:
        return reached(self.logs) >= self.planned.frames


def reached(directory: Path) -> int:
    """The frames that a run's summary tells of; 0 where there is none."""
    try:
        return int(json.loads((directory / "summary.json").read_bytes())["frames"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0


KEPT = ("config.json", "metrics.jsonl", "timing.jsonl", "summary.json")


def keep(jobs: Sequence[Job]) -> None:
    """Copy what tables are made of, of finished runs that are not kept as far as they went."""
    for job in jobs:
        frames = reached(job.directory)
        if job.kept is None or frames < job.planned.frames or frames <= reached(job.kept):
            continue
        try:
            stored = json.loads((job.directory / "config.json").read_bytes())
            if stored["config"]["frames"] > frames:
                continue  # being extended: its logs go on while we copy
            fresh = job.kept.with_name(f"{job.kept.name}.new")
            fresh.mkdir(parents=True, exist_ok=True)
            for name in KEPT:
                shutil.copyfile(job.directory / name, fresh / name)
            shutil.rmtree(job.kept, ignore_errors=True)
            fresh.rename(job.kept)
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise BadInput(f"{job.directory} cannot be kept in {job.kept}: {error}") from error


def prepare(
    runs: Sequence[Planned], place: Path, kept: Path | None = Path("results/runs")
) -> list[Job]:
    """The configuration and directory of every run; a value that does not fit is refused here."""
    for game in dict.fromkeys(run.game for run in runs):
        check_env_name(game)
    jobs: dict[Path, Job] = {}
    for run in runs:
        try:
            config = configure(run, place)
        except BadInput as error:
            raise BadInput(f"variant {run.variant!r}: {error}") from None
        directory, _ = place_of(config)
        if directory in jobs:
            other = jobs[directory].planned.variant
            raise BadInput(f"variants {other!r} and {run.variant!r} have the same values")
        jobs[directory] = Job(run, config, directory, kept and kept / directory.name)
    return list(jobs.values())


def configure(run: Planned, place: Path) -> Config:
    """The configuration that the run's command would make."""
    values = run.values | {"env": run.game, "seed": run.seed, "saving.runs": str(place)}
    start = preset(str(values.pop("method")), str(values.pop("preset")))
    start = with_policy(start, str(values.get("policy.kind", start.policy.kind)))
    return override(start, values)


def override(config: Config, values: Values) -> Config:
    """Dotted values over a configuration, all at once, each checked for its name and type."""
    whole: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    known = dotted_fields(config)
    for name, value in values.items():
        if name not in known:
            raise unknown("value", name, known)
        part, _, inner = name.rpartition(".")
        fitting = _fit(name, value, known[name])
        if part:
            parts.setdefault(part, {})[inner] = fitting
        else:
            whole[name] = fitting
    for part, changes in parts.items():
        whole[part] = replace(getattr(config, part), **changes)
    return replace(config, **whole)


def dotted_fields(config: Config) -> dict[str, Any]:
    """The type of every value by its dotted name, such as `objective.keypoints`."""
    found: dict[str, Any] = {}
    hints = get_type_hints(type(config))
    for field in fields(config):
        part = getattr(config, field.name)
        if dataclasses.is_dataclass(part):
            inner = get_type_hints(type(part))
            found |= {f"{field.name}.{f.name}": inner[f.name] for f in fields(part)}
        else:
            found[field.name] = hints[field.name]
    return found


KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((float, int), "a number"),
    str: ((str,), "text"),
    Path: ((str,), "text"),
}  # of a value: what it may be given as, and that in words


def _fit(name: str, value: Value, kind: Any) -> Any:
    """The value as the configuration holds it, or a sentence."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            choices = ", ".join(map(str, get_args(kind)))
            raise BadInput(f"{name}={value!r}: must be one of {choices}")
        return value
    if kind not in KINDS:
        raise BadInput(f"{name} is not given in an experiment; the method and its preset have it")
    accepted, words = KINDS[kind]
    if type(value) not in accepted:  # by type: for isinstance, true is a whole number
        raise BadInput(f"{name}={value!r}: must be {words}")
    return kind(value)
