"""What each experiment and each other study has cost: `python -m tools.ledger`.

Writes results/ledger.md from the timing logs that are kept in results/. Where there are none it
says `not kept`; or `no results`, where results/ has nothing at all of an experiment.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from crosstraj.config.stored import identity
from crosstraj.errors import BadInput
from crosstraj.experiments.cost import Cost, cost_of
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import prepare
from crosstraj.report.document import marked_table

NO_STUDY = ("random", "report")  # directories of results/ that hold something else
MEANING = (
    "Processor-hours of training, from the timing logs that are kept: the processor's own count "
    "where a log has it, otherwise (`clock`) the clock's seconds times the threads of the run, "
    "whatever else the machine did meanwhile, and without evaluations. Runs that experiments share "
    "count in each of them, and once in the total. Made by `python -m tools.ledger`."
)


class Entry(NamedTuple):
    name: str
    what: str
    runs: int  # planned; 0: not known
    costs: dict[str, Cost]  # by what tells runs apart
    absent: str = "not kept"  # what is said where there is none


def of_experiment(file: Path, results: Path) -> Entry:
    """The kept runs of an experiment, up to its budget."""
    plan = read(file)
    runs = plan.runs()
    if not (results / plan.name).is_dir():  # some stand for thousands, each with its values
        return Entry(plan.name, plan.title, len(runs), {}, "no results")
    found = {
        identity(job.config): cost_of(job.kept, job.planned.frames)
        for job in prepare(runs, Path("runs"), results / plan.name)
        if job.kept
    }
    return Entry(plan.name, plan.title, len(runs), known(found))


def of_study(place: Path) -> Entry:
    """A directory of results/ that no experiment file stands for: the runs at or below it."""
    runs = sorted({log.parent for log in place.rglob("timing.jsonl")})
    return Entry(place.name, "", 0, known({str(run): cost_of(run) for run in runs}))


def known(costs: Mapping[str, Cost | None]) -> dict[str, Cost]:
    return {run: cost for run, cost in costs.items() if cost is not None}


def ledger(experiments: Path, results: Path) -> str:
    """The page: experiments, then other studies, then the total of what is kept."""
    entries = [of_experiment(file, results) for file in sorted(experiments.glob("*/*.toml"))]
    names = {entry.name for entry in entries} | set(NO_STUDY)
    others = sorted(place for place in results.iterdir() if place.is_dir())
    entries += [of_study(place) for place in others if place.name not in names]
    lines = [
        "# What the studies cost",
        "",
        MEANING,
        "",
    ]
    head = ["study", "runs kept", "frames", "processor-hours", "counted by"]
    whole: dict[str, Cost] = {}
    for entry in entries:
        for run, cost in entry.costs.items():
            whole[run] = max(cost, whole.get(run, cost))  # the longest that any experiment counts
    entries.append(Entry("**total**", "", 0, whole))
    lines.append(marked_table(head, map(line, entries)))
    return "\n".join(lines) + "\n"


def line(entry: Entry) -> list[str]:
    count = f"{len(entry.costs)} of {entry.runs}" if entry.runs else str(len(entry.costs))
    name = f"`{entry.name}`: {entry.what}" if entry.what else entry.name
    if not entry.costs:
        return [name, count, "", entry.absent, ""]
    frames, hours = (sum(column) for column in list(zip(*entry.costs.values(), strict=True))[:2])
    clocks = {cost.by_clock for cost in entry.costs.values()}
    by = "both" if len(clocks) > 1 else "clock" if clocks.pop() else "processor"
    return [name, count, f"{frames:,}", f"{hours:.2f}", by]


def main() -> None:
    results = Path("results")
    if not results.is_dir():
        raise BadInput("there is no results/ here; run this at the root of the repository")
    (results / "ledger.md").write_text(ledger(Path("experiments"), results))
    print(results / "ledger.md")


if __name__ == "__main__":
    main()
