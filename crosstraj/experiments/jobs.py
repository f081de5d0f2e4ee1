"""The runs of an experiment made exact: configuration, run directory and kept file of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crosstraj.config.dotted import override
from crosstraj.config.fitting import fitted
from crosstraj.config.presets import DECIDING, started
from crosstraj.config.values import Config
from crosstraj.disk import make_directory, write_whole
from crosstraj.envs import check_env_name
from crosstraj.errors import BadInput
from crosstraj.experiments.kept import check_kept, kept_file
from crosstraj.experiments.plan import Planned, Value
from crosstraj.learning.load import place_of
from crosstraj.runs.read import as_kept, stored, summary
from crosstraj.runs.tail import last_row

Starts = dict[tuple[Value | None, ...], Config]  # by the values of DECIDING


@dataclass(frozen=True, eq=False)
class Job:
    planned: Planned
    config: Config
    directory: Path
    kept: Path | None  # the file that has its logs, or may come to, when the directory is gone

    @property
    def logs(self) -> Path:
        """What to read from, by runs/read.py: the kept file counts where it alone is finished."""
        if self.kept is None or reached(self.directory) >= self.planned.frames:
            return self.directory
        return self.kept if reached(self.kept) >= self.planned.frames else self.directory

    @property
    def log(self) -> Path:
        """What the process says, beside its run directory."""
        return self.directory.with_name(f"{self.directory.name}.log")

    def frames(self) -> int:
        """How far the run is, at most its budget: the last whole row of its metrics."""
        if self.finished():
            return self.planned.frames
        try:
            row = last_row(self.directory / "metrics.jsonl") or {"frames": 0}
            return min(self.planned.frames, int(row["frames"]))
        except (OSError, ValueError, LookupError, TypeError):
            return 0

    def finished(self) -> bool:
        return reached(self.logs) >= self.planned.frames


def reached(run: Path) -> int:
    """The frames that a run's summary tells of; 0 where there is none."""
    try:
        return int(summary(run)["frames"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return 0


def keep(jobs: Sequence[Job]) -> None:
    """Write what tables are made of, of finished runs that are not kept as far as they went."""
    for job in jobs:
        frames = reached(job.directory)
        if job.kept is None or frames < job.planned.frames or frames <= reached(job.kept):
            continue
        try:
            if stored(job.directory)["config"]["frames"] > frames:
                continue  # being extended: its logs go on while we read
            make_directory(job.kept.parent)
            write_whole(job.kept, as_kept(job.directory))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise BadInput(f"{job.directory} cannot be kept in {job.kept}: {error}") from error


def prepare(runs: Sequence[Planned], place: Path, kept: Path | None = None) -> list[Job]:
    """Every run with its configuration, its directory below `place`, and its file below `kept`.

    A value that does not fit is refused here, and so is a kept file of other values.
    """
    jobs: dict[Path, Job] = {}
    starts: Starts = {}
    for run in runs:
        try:
            config = configure(run, place, starts)
        except BadInput as error:
            raise BadInput(f"variant {run.variant!r}: {error}") from None
        directory, _ = place_of(config)
        if directory in jobs:
            other = jobs[directory].planned.variant
            raise BadInput(f"variants {other!r} and {run.variant!r} have the same values")
        file = kept and kept_file(kept, run)
        if file:
            check_kept(file, config)
        jobs[directory] = Job(run, config, directory, file)
    for env, split in dict.fromkeys(
        (job.config.env, job.config.gymnasium) for job in jobs.values()
    ):
        check_env_name(env, split)
    return list(jobs.values())


def configure(run: Planned, place: Path, starts: Starts | None = None) -> Config:
    """The configuration that the run's command would make.

    `starts` keeps what runs of one method and game have in common, which is most of the work.
    """
    values = run.values | {"env": run.game, "seed": run.seed, "saving.runs": str(place)}
    starts = {} if starts is None else starts
    deciding = tuple(values.get(name) for name in DECIDING)
    if deciding not in starts:
        starts[deciding] = started(values)
    start = starts[deciding]
    return override(start, fitted(values, start))
