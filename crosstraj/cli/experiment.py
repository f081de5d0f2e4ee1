"""The command `crosstraj experiment`: list, run and tabulate what an experiment file stands for.

Nothing heavy is imported before something is run: `--list` answers at once.
"""

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from crosstraj.cores import usable_cores
from crosstraj.errors import BadInput, check_range
from crosstraj.experiments.file import WEIGHTS, Experiment, Planned, Value, read

if TYPE_CHECKING:
    from crosstraj.experiments.runs import Job


def experiment(arguments: list[str]) -> None:
    """Run everything that an experiment file stands for, then make its table and figure."""
    given = _parser().parse_args(arguments)
    plan = planned(given)
    chosen = select(plan, given.only)
    if given.list:
        print(listing(plan, chosen, given.runs))
        return
    from crosstraj.experiments.runs import prepare

    whole = plan.scale == 1 and plan.table not in WEIGHTS
    if given.keep and not whole:
        raise BadInput(
            "--keep is for whole experiments, and keeps no weights, which these tables read: "
            f"{', '.join(WEIGHTS)}; leave it out"
        )
    # All of them: the table says what is missing.
    jobs = prepare(plan.runs(), given.runs, given.kept if whole else None)
    names = {run.name for run in chosen}
    wanted = [job for job in jobs if job.planned.name in names]
    if given.dry_run:
        from crosstraj.experiments.cost import forecast, rates

        print(forecast(wanted, rates([given.runs, given.kept]), usable_cores()))
    elif given.random:
        print("\n".join(play_at_random(plan, wanted)))
    else:
        run_and_tabulate(plan, jobs, wanted, given)


def planned(given: argparse.Namespace) -> Experiment:
    """The experiment of the file, at the scale that was asked for."""
    check_range(given, "--", "jobs", at_least=1)
    check_range(given, "--", "threads", at_least=0)
    check_range(given, "--", "scale", above=0, at_most=1)
    plan = read(given.file)
    scale = plan.quick if given.quick else given.scale
    if scale is None:
        raise BadInput(f"{given.file} names no `quick`; give a --scale instead")
    return replace(plan, scale=scale)


def run_and_tabulate(
    plan: Experiment, jobs: "list[Job]", wanted: "list[Job]", given: argparse.Namespace
) -> None:
    """Run what is wanted, then make the table of all that there is."""
    from crosstraj.experiments import processes as batch
    from crosstraj.experiments.runs import keep
    from crosstraj.experiments.tables.make import make_table

    trouble = None
    if not given.table:
        trouble = batch.run_all(
            wanted,
            given.jobs,
            threads=batch.share_threads(given.jobs, given.threads),
            allow_inexact=given.allow_inexact,
            title=plan.name,
        )
    if given.keep:
        keep(jobs)
    for path in make_table(plan, jobs, given.out or default_out(plan)):
        print(path)
    if trouble is not None:
        raise trouble


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="crosstraj experiment", description=experiment.__doc__)
    add = parser.add_argument
    add("file", type=Path, help="a TOML file, such as those in experiments/")
    add("--list", action="store_true", help="only show the runs and their commands")
    add(
        "--dry-run",
        action="store_true",
        help="only show what would run, and the processor-hours from timing logs of such runs",
    )
    add("--table", action="store_true", help="only make table and figure from the runs there are")
    add(
        "--random",
        action="store_true",
        help="only measure random play, which the table `paired` needs, and keep it",
    )
    add("--only", default="", metavar="TEXT", help="runs with this in VARIANT/GAME/sSEED")
    trial = parser.add_mutually_exclusive_group()
    trial.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="a trial: frames and the numbers of games and seeds times this, rounded up; of games "
        "and seeds the first in the file",
    )
    trial.add_argument(
        "--quick", action="store_true", help="a trial within minutes: the scale that the file names"
    )
    add("--jobs", type=int, default=1, help="runs at a time (1)")
    add("--threads", type=int, default=0, help="CPU threads of a run; 0: the cores over the jobs")
    add("--runs", type=Path, default=Path("runs"), help="where run directories lie (runs)")
    add("--keep", action="store_true", help="copy the logs of finished runs, not their weights")
    add(
        "--kept",
        type=Path,
        default=Path("results/runs"),
        help="where to; what is kept there is not run again (results/runs)",
    )
    add("--out", type=Path, help="where table and figure go (results/NAME)")
    add("--allow-inexact", action="store_true", help="resume runs that had other threads before")
    return parser


def play_at_random(plan: Experiment, jobs: "list[Job]") -> list[str]:
    """The return of random play for each game and way to set it up, measured where it is not."""
    from crosstraj.experiments import random_play as chance

    files = {chance.measure(job.config, plan.levels): job for job in jobs}
    return [
        f"{path}: {job.planned.game}, {plan.levels} levels, "
        f"{chance.read(job.config, plan.levels):.3f}"
        for path, job in files.items()
    ]


def default_out(plan: Experiment) -> Path:
    """A trial must not overwrite the results of the whole."""
    return Path("results") / (plan.name if plan.scale == 1 else f"{plan.name}-scale-{plan.scale:g}")


def select(plan: Experiment, only: str) -> list[Planned]:
    """The runs that have this text in their name."""
    runs = plan.runs()
    if not runs:
        raise BadInput(f"{plan.name} has no run at scale {plan.scale:g}; take a larger --scale")
    chosen = [run for run in runs if only in run.name]
    if not chosen:
        raise BadInput(
            f"--only {only!r} is in the name of none of {len(runs)} runs, such as {runs[0].name!r}"
        )
    return chosen


def listing(plan: Experiment, runs: list[Planned], place: Path) -> str:
    """Every command, to be copied; what is not one is a comment."""
    lines = [
        f"# {plan.name}: {plan.title}",
        f"# {' '.join(plan.reproduces.split())}",
        f"# {len(runs)} runs, {sum(run.frames for run in runs):,} frames in total; "
        f"table: {plan.table}",
    ]
    more: dict[str, Value] = {} if place == Path("runs") else {"saving.runs": str(place)}
    for run in runs:
        lines += [f"# {run.name}", shlex.join(["crosstraj", *run.command(more)])]
    return "\n".join(lines)
