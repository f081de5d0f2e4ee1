"""The runs of an experiment made exact: the configuration and the directory of each."""

import dataclasses
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from crosstraj.config import Config, check_env_name, preset, with_policy
from crosstraj.errors import BadInput, unknown
from crosstraj.plan import Planned, Value, Values
from crosstraj.trained import place_of


@dataclass(frozen=True, eq=False)
class Job:
    planned: Planned
    config: Config
    directory: Path
    kept: Path  # where its logs are, or may come to be, when the run directory is gone

    @property
    def logs(self) -> Path:
        """The directory to read from: what was kept counts where it alone is finished."""
        only_kept = self._done(self.kept) and not self._done(self.directory)
        return self.kept if only_kept else self.directory

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
        return self._done(self.logs)

    def _done(self, place: Path) -> bool:
        try:
            summary = json.loads((place / "summary.json").read_bytes())
            return bool(summary["frames"] >= self.planned.frames)
        except (OSError, ValueError, LookupError, TypeError):
            return False


KEPT = ("config.json", "metrics.jsonl", "timing.jsonl", "summary.json")  # the summary comes last


def keep(jobs: Sequence[Job]) -> None:
    """Copy what tables are made of, where a finished run is not kept yet as far as it went."""
    for job in jobs:
        if not job.finished() or job.logs == job.kept:
            continue
        try:
            job.kept.mkdir(parents=True, exist_ok=True)
            for name in KEPT:
                shutil.copyfile(job.directory / name, job.kept / name)
        except OSError as error:
            raise BadInput(f"{job.kept} cannot be written: {error.strerror or error}") from error


def prepare(runs: Sequence[Planned], place: Path, kept: Path = Path("results/runs")) -> list[Job]:
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
        jobs[directory] = Job(run, config, directory, kept / directory.name)
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
