"""How long every experiment takes, and which have never been run: `python -m tools.site.studies`.

Time comes from the timing logs that are kept in results/ where there are any of such runs, and
otherwise from counted floating-point operations (tools/main_table_cost.py) with the full encoder.
"""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

from crosstraj.config.values import Config
from crosstraj.experiments.cost import Cost, rate_of, rates
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import prepare
from crosstraj.experiments.kept import kept_file
from crosstraj.experiments.plan import Experiment
from crosstraj.report.document import marked_table
from tools.main_table_cost import EXPERIMENT, TIMED, Machine, counted, machines, tables

ROOT = Path(__file__).parents[2]
NBSP = "\u00a0"  # a number and its unit stay on one line
ACTING, PASS = 62.2, 180.1  # MFLOP per frame: acting, and one epoch of PPO (`make bench`)
SHARE = {"impala": 1.0, "slim": 0.42, "laptop": 0.25}  # docs/performance.md, held by a test


class Study(NamedTuple):
    file: Path
    plan: Experiment
    runs: int
    frames: int
    timed: float  # processor-hours of the runs like which some were timed
    reckoned: float  # of those whose operations were counted
    unknown: int  # runs of which neither is known
    kept: int  # runs whose logs are in results/
    state: str  # what its table says of finished runs; empty: there is no table

    @property
    def hours(self) -> float:
        return self.timed + self.reckoned

    @property
    def begun(self) -> str:
        """How far its runs are, in words; empty: none was ever run."""
        kept = f"{self.kept} of {self.runs} runs are kept" if self.kept else ""
        return self.state.removesuffix(", 0 more have begun") or kept

    @property
    def whole(self) -> bool:
        return "Partial" not in self.state if self.state else self.kept == self.runs


def times() -> str:
    """What each experiment takes on the machine that was timed, and on a larger one."""
    head = ["experiment", "runs", "million frames", "2 cores", "32 such cores", "known by"]
    return marked_table(head, [line(study) for study in studies()])


def never_run() -> str:
    """The files of which no run was ever finished, and those of which some were."""
    none, some = unfinished()
    return "\n".join(
        [
            f"{len(none)} of {len(studies())} files have never been run:",
            "",
            *(f"- `{place(study)}`: {study.plan.title}" for study in none),
            "",
            f"{len(some)} more have been run in part:",
            "",
            *(f"- `{place(study)}`: {study.begun.removeprefix('**Partial**: ')}" for study in some),
        ]
    )


def in_short() -> str:
    """The same in two sentences, for docs/experiments.md."""
    none, some = (", ".join(f"`{study.plan.name}`" for study in found) for found in unfinished())
    return f"Never run so far: {none}. Run in part: {some}. All others have been run."


def unfinished() -> tuple[list[Study], list[Study]]:
    """Those that nobody has begun, and those that are not whole."""
    begun = [study for study in studies() if study.begun]
    return [s for s in studies() if not s.begun], [s for s in begun if not s.whole]


def main_table() -> str:
    return tables()


def line(study: Study) -> list[str]:
    ways = [w for w, h in (("timed runs", study.timed), ("counting", study.reckoned)) if h]
    known = " and ".join(ways) or "nothing: no such run was timed or counted"
    least = ""
    if ways and study.unknown:  # a sum over some of the runs is no estimate of all
        known += f"; without {study.unknown} runs, of which neither is known"
        least = f"more{NBSP}than{NBSP}"
    spans = [least + span(study.hours / cores) if ways else "?" for cores in (2, 32)]
    return [f"`{place(study)}`", f"{study.runs:,}", millions(study.frames), *spans, known]


def millions(frames: int) -> str:
    return f"{frames / 1e6:,.0f}" if frames >= 10**7 else f"{frames / 1e6:.1f}"


def span(hours: float) -> str:
    """Hours in the unit that a person would say."""
    if hours < 1:
        minutes = max(1, round(60 * hours))
        return f"{minutes}{NBSP}minute{'s' if minutes > 1 else ''}"
    return f"{hours:.1f}{NBSP}hours" if hours < 48 else f"{hours / 24:,.0f}{NBSP}days"


def place(study: Study) -> str:
    return study.file.relative_to(ROOT / "experiments").with_suffix("").as_posix()


@cache
def studies() -> tuple[Study, ...]:
    """All experiment files, the paper's first."""
    files = sorted(ROOT.glob("experiments/paper/*.toml")) + sorted(
        ROOT.glob("experiments/ours/*.toml")
    )
    known = rates([ROOT / "results"])
    return tuple(study(file, known) for file in files)


def study(file: Path, known: dict[str, list[Cost]]) -> Study:
    """Runs that differ in game and seed alone cost the same: one of each variant is asked."""
    plan = read(file)
    runs = plan.runs()
    alike = Counter(run.variant for run in runs)
    one = {run.variant: run for run in runs}
    timed, reckoned, unknown = 0.0, 0.0, 0
    for job in prepare(list(one.values()), ROOT / "runs"):
        count = alike[job.planned.variant]
        frames = count * job.planned.frames
        if rate := rate_of(job, known):
            timed += frames * rate.seconds / 3600
        elif operations := mflops(job.config):
            reckoned += processor_hours(frames * operations)
        else:
            unknown += count
    frames = sum(run.frames for run in runs)
    if file == ROOT / EXPERIMENT:  # one number wherever it is told, that of main_table_cost
        work = sum(row.petaflops for row in counted())
        timed, reckoned, unknown = 0.0, processor_hours(1e9 * work), 0
    kept = sum(kept_file(ROOT / "results" / plan.name, run).exists() for run in runs)
    known_by = (timed, reckoned, unknown)
    return Study(file, plan, len(runs), frames, *known_by, kept, state(plan.name))


def mflops(config: Config) -> float | None:
    """Per frame: those of the method with its paper's values, corrected for encoder and epochs.

    Each epoch after the first costs a policy that trains the encoder another pass, and in joint
    order the objective as well.
    """
    whole = of_method().get(f"{config.method}:{config.preset}", of_method().get(config.method))
    if whole is None or config.encoder not in SHARE:
        return None
    more = config.policy.epochs - 1
    learning = whole - ACTING
    if config.encoder_grad == "none":
        learning = 0.0
    elif config.order == "joint":
        learning += more * learning
    elif config.encoder_grad in ("rl", "both"):
        learning += more * PASS
    return (ACTING + learning) * SHARE[config.encoder]


@cache
def of_method() -> dict[str, float]:
    """MFLOP per frame with the full encoder: by main_table_cost, or else by `make bench-full`."""
    full = json.loads((ROOT / "results/bench/full.json").read_text())["methods"]
    rows = {row.variant.partition(" ")[0]: row.mflops for row in counted()}
    any_preset = {name.partition(":")[0]: count for name, count in rows.items()}
    benched = {row["name"]: row["flops"] * rows["ppo:paper"] for row in full}
    return benched | any_preset | rows


def processor_hours(megaflops: float) -> float:
    """On one core of the machine that `make bench` timed."""
    machine, cores = first_machine()
    return machine.hours(megaflops / 1e9) * cores


@cache
def first_machine() -> tuple[Machine, int]:
    timed = json.loads((ROOT / TIMED).read_text())
    return machines(timed)[0], int(timed["threads"])


def state(name: str) -> str:
    """The sentence of an experiment's table on how many of its runs are finished."""
    table = ROOT / "results" / name / "table.md"
    if not table.exists():
        return ""
    found = re.search(r"^.*runs are finished[^;.]*", table.read_text(), re.MULTILINE)
    return found[0] if found else "finished"


def main() -> None:
    print(f"{times()}\n\n{never_run()}\n\n{in_short()}\n\n{main_table()}")


if __name__ == "__main__":
    main()
