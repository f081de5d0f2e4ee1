"""Table and figure of an experiment, from the run directories alone.

A maker is a function of the experiment, its results and the directory to write to; it returns the
files it wrote. `table = "..."` in an experiment file chooses one of them.
"""

from collections.abc import Callable
from pathlib import Path

from crosstraj.errors import BadInput
from crosstraj.experiments.jobs import Job
from crosstraj.experiments.kept import kept_place
from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.about import about
from crosstraj.experiments.tables.gallery import course, maps, samples, temperature
from crosstraj.experiments.tables.health import health
from crosstraj.experiments.tables.ising import ising
from crosstraj.experiments.tables.paired import paired
from crosstraj.experiments.tables.results import Result, read_result
from crosstraj.experiments.tables.returns import returns
from crosstraj.experiments.tables.screen import screen
from crosstraj.experiments.tables.split import split
from crosstraj.experiments.tables.sweep import sweep

Maker = Callable[[Experiment, list[Result], Path], list[Path]]
MAKERS: dict[str, Maker] = {  # those of kinds.TABLES
    "returns": returns,
    "paired": paired,
    "split": split,
    "sweep": sweep,
    "health": health,
    "about": about,
    "ising": ising,
    "samples": samples,
    "maps": maps,
    "course": course,
    "temperature": temperature,
    "screen": screen,
}


def make_table(plan: Experiment, jobs: list[Job], out: Path) -> list[Path]:
    """Read the runs and write what the experiment asks for; the files that were written."""
    results = [read_result(job, plan.levels) for job in jobs]
    try:
        out.mkdir(parents=True, exist_ok=True)
        maker = MAKERS[plan.table]
        if maker is screen:  # keeps what it measured with the runs
            place = next((kept_place(job.kept) for job in jobs if job.kept), out)
            return screen(plan, results, out, place)
        return maker(plan, results, out)
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror or error}") from error
