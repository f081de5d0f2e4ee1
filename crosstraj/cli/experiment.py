"""The command `crosstraj experiment`: list, run and tabulate what an experiment file stands for.

Nothing heavy is imported before something is run: `--list` answers at once.
"""

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.config.methods import words_for
from crosstraj.cores import usable_cores
from crosstraj.errors import BadInput, check_range
from crosstraj.experiments.file import read
from crosstraj.experiments.plan import Experiment, Planned, Value
from crosstraj.experiments.tables.kinds import WEIGHTS

if TYPE_CHECKING:
    from crosstraj.experiments.jobs import Job
    from crosstraj.experiments.processes import Failed
    from crosstraj.experiments.tables.decision import Decision


@dataclass(frozen=True)
class ExperimentArguments:
    file: Annotated[Path, POSITIONAL]
    """A TOML file, such as those in experiments/paper and experiments/ours."""
    list: bool = False
    """Only show the runs and their commands."""
    dry_run: bool = False
    """Only show what would run, and its processor-hours, estimated from the logs of such runs."""
    cores: int = 0
    """Cores of one machine, for the hours and the cost of --dry-run; 0: those of this machine."""
    price: float = 0.0
    """What an hour of a machine with so many cores costs, for --dry-run."""
    table: bool = False
    """Only make the table and figure from the runs there are."""
    random: bool = False
    """Only measure random play, and keep the result; the table `paired` needs it."""
    only: str = ""
    """Only the runs with this text in VARIANT/GAME/sSEED."""
    scale: float | None = None
    """A trial: scales the number of frames, games and seeds by X; keeps the first ones listed."""
    quick: bool = False
    """A trial within minutes: the scale that the file names."""
    jobs: str = "1"
    """Runs at a time, or auto, which is fastest: one run per core, each with one thread."""
    threads: int = 0
    """CPU threads of each run; 0 divides the cores among the jobs."""
    runs: Path = Path("runs")
    """Where run directories are made."""
    keep: bool = False
    """Keep the logs of finished runs, without their weights, as files in --kept."""
    kept: Path = Path("results")
    """Where kept runs are, KEPT/NAME/VARIANT/GAME-sSEED.jsonl; they are not run again."""
    out: Path | None = None
    """Where the table and figure go; default: results/NAME."""
    ray: str = ""
    """Run on a Ray cluster: its address, `auto` on one of its machines, or `local`."""
    shelf: Path | None = None
    """Where run directories are kept on this machine, if the cluster's machines share no disk."""
    cpus: float | None = None
    """CPUs of each run on a cluster; default: what the file says, or 1."""
    gpus: float | None = None
    """GPUs of each run on a cluster, or the part of one; default: what the file says, or 0."""
    resources: tuple[str, ...] = ()
    """NAME=AMOUNT of custom Ray resources that each run takes; pins runs to one kind of node."""
    labels: tuple[str, ...] = ()
    """NAME=VALUE of Ray labels that a node must have; pins runs to one kind of node."""
    allow_inexact: bool = False
    """Resume runs although torch, threads or processor differ from before."""


def experiment(arguments: list[str]) -> None:
    """Run everything that an experiment file stands for, then make its table and figure."""
    given = parse(ExperimentArguments, "experiment", experiment.__doc__, arguments)
    check_cluster(given)
    plan = planned(given)
    chosen = select(plan, given.only)
    if given.list:
        print(listing(plan, chosen, given.runs))
        return
    from crosstraj.experiments.jobs import prepare

    whole = plan.scale == 1 and plan.table not in WEIGHTS
    if given.keep and not whole:
        raise BadInput(
            "--keep is for whole experiments, and keeps no weights, which these tables read: "
            f"{', '.join(WEIGHTS)}; leave it out"
        )
    # All of them: the table says what is missing.
    place = given.shelf or given.runs
    jobs = prepare(plan.runs(), place, given.kept / plan.name if whole else None)
    names = {run.name for run in chosen}
    wanted = [job for job in jobs if job.planned.name in names]
    if given.dry_run:
        from crosstraj.experiments.cost import forecast, rates

        known = rates([given.runs, given.kept])
        for title, some in stages(plan, wanted, given):
            print(title, end="")
            print(forecast(some, known, given.cores or usable_cores(), given.price))
    elif given.random:
        print("\n".join(play_at_random(plan, wanted)))
    else:
        run_and_tabulate(plan, jobs, wanted, given)


def planned(given: ExperimentArguments) -> Experiment:
    """The experiment of the file, at the scale that was asked for."""
    if given.jobs != "auto" and not re.fullmatch(r"0*[1-9]\d*", given.jobs):
        raise BadInput(f"--jobs={given.jobs}: must be auto, or a number of at least 1")
    check_range(given, "--", "threads", "cores", "price", at_least=0)
    if (given.cores or given.price) and not given.dry_run:
        raise BadInput("--cores and --price are for --dry-run; the runs take --jobs and --threads")
    if given.quick and given.scale is not None:
        raise BadInput("--quick is a scale of its own; give either --quick or --scale")
    plan = read(given.file)
    scale = plan.quick if given.quick else 1.0 if given.scale is None else given.scale
    if scale is None:
        raise BadInput(f"{given.file} names no `quick`; give a --scale instead")
    if not 0 < scale <= 1:
        raise BadInput(f"--scale={scale}: must be above 0 and at most 1")
    return replace(plan, scale=scale)


def run_and_tabulate(
    plan: Experiment, jobs: "list[Job]", wanted: "list[Job]", given: ExperimentArguments
) -> None:
    """Run what is wanted, then make the table of all that there is."""
    from crosstraj.experiments.jobs import keep
    from crosstraj.experiments.tables.make import make_table

    trouble = None if given.table else run_in_stages(plan, wanted, given)
    if plan.table == "paired" and not given.table:
        play_at_random(plan, wanted)  # what its gains are measured by
    if given.keep:
        keep(jobs)
    for path in make_table(plan, jobs, given.out or default_out(plan)):
        print(path)
    if trouble is not None:
        raise trouble


def stages(
    plan: Experiment, wanted: "list[Job]", given: ExperimentArguments
) -> list[tuple[str, "list[Job]"]]:
    """The runs up to the look and those after it, with titles; a part or a trial has no look."""
    if plan.look is None or given.only or plan.scale < 1:
        return [("", wanted)]
    first = plan.seeds[: plan.look.seeds]
    early = [job for job in wanted if job.planned.seed in first]
    late = [job for job in wanted if job.planned.seed not in first]
    title = f"after {plan.look.seeds} seeds"
    return [(f"up to the look {title}:\n", early), ("\nafter it, if it says so:\n", late)]


def run_in_stages(
    plan: Experiment, wanted: "list[Job]", given: ExperimentArguments
) -> "Failed | None":
    """Run what is wanted, and beyond the look of the file only if its rule says to go on."""
    early, *late = [some for _, some in stages(plan, wanted, given)]
    trouble = run(plan, early, given, of=len(wanted))
    for rest in late:
        decision = decide(plan, early)
        print(decision.words.replace("**", ""))
        if trouble is None and decision.says == "nothing":
            print("No run after the look was begun; --only runs what it names without asking.")
        if trouble is not None or decision.says != "go on":
            return trouble
        trouble = run(plan, rest, given, of=len(wanted))
    return trouble


def decide(plan: Experiment, early: "list[Job]") -> "Decision":
    """What the rule says of the runs up to the look, which random play is measured for first."""
    from crosstraj.experiments.tables.decision import at_look, compared
    from crosstraj.experiments.tables.results import read_result

    assert plan.look is not None
    play_at_random(plan, early)
    results = [read_result(job, plan.levels) for job in early]
    return at_look(plan, plan.look, compared(plan, results, plan.baseline)[plan.look.variant])


def run(
    plan: Experiment, wanted: "list[Job]", given: ExperimentArguments, *, of: int
) -> "Failed | None":
    """Run what is wanted here or on a cluster; of how many that were asked for in all."""
    from crosstraj.experiments import processes as batch

    inexact = given.allow_inexact
    if not given.ray:
        at_once = batch.packed(of) if given.jobs == "auto" else int(given.jobs)
        threads = batch.share_threads(at_once, given.threads)
        return batch.run_all(
            wanted, at_once, threads=threads, allow_inexact=inexact, title=plan.name
        )
    from crosstraj.experiments.cluster import driver
    from crosstraj.experiments.cluster.needs import needs_of

    needs = needs_of(plan.cluster, given.cpus, given.gpus, given.resources, given.labels)
    cluster = driver.Cluster(given.ray, needs, given.threads, given.shelf is not None)
    return driver.run_all(wanted, cluster, allow_inexact=inexact, title=plan.name)


def check_cluster(given: ExperimentArguments) -> None:
    """Options that mean nothing together."""
    if given.ray and given.jobs != ExperimentArguments.jobs:
        raise BadInput("--jobs is for this machine; with --ray say what a run takes: --cpus")
    if given.shelf and given.runs != Path("runs"):
        raise BadInput("--runs and --shelf both say where run directories are; give one of them")
    for name in ("shelf", "cpus", "gpus", "resources", "labels"):
        if not given.ray and getattr(given, name) not in (None, ()):
            raise BadInput(f"--{name} is for a cluster; say which one with --ray, or leave it out")


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
        own = words_for(str(run.values["method"]))
        lines += [f"# {run.name}", shlex.join(["crosstraj", *run.command(more), *own])]
    return "\n".join(lines)
