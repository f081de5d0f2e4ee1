"""What the paper's main table costs on several kinds of machines.

    python -m tools.main_table_cost

prints the tables of docs/cluster.md: from the FLOPs per frame in results/bench/main_table.json,
to which `--count` adds what is missing (minutes, with the full encoder; remove the file to count
all of it anew), and from what `make bench` timed.
"""

import argparse
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crosstraj.report.document import marked_table

if TYPE_CHECKING:
    from crosstraj.config.values import Config

EXPERIMENT = Path("experiments/paper/main_table.toml")
COUNTED = Path("results/bench/main_table.json")
TIMED = Path("results/bench/bench.json")
EXPERTS = "experts, for pse:paper (pretrained)"
STEPS = 64  # of the rollouts in which FLOPs are counted
EXPERT_LEVELS = 40  # per game: the default of `crosstraj experts`, and the paper's


class Row(NamedTuple):
    """Runs that are alike in all but game and seed."""

    variant: str
    runs: int
    frames: int  # of one run
    mflops: float  # per frame, over all its phases

    @property
    def petaflops(self) -> float:
        return self.runs * self.frames * self.mflops / 1e9


class Machine(NamedTuple):
    kind: str
    gflops: float  # fp32 matrix multiplication, per second
    share: float  # of it, in which a run learns
    known: str  # where the two numbers come from

    def hours(self, petaflops: float) -> float:
        return petaflops * 1e6 / (self.gflops * self.share) / 3600


def machines(timed: dict[str, Any]) -> list[Machine]:
    """The machine that was timed, and others by arithmetic; fp32 of GPUs is their data sheets'."""
    rate, cores, rows = timed["limit_gflops"], timed["threads"], timed["contenders"]
    share = min(rows[name]["fraction"] for name in ("ppo", "ctrl"))
    faster = [rows[name]["fraction"] for name in ("ppo, bf16", "ctrl, bf16") if name in rows]
    large, times = 32 * rate / cores, f"{32 / cores:g} times the first"
    return [
        Machine(f"{cores} cores, {timed['vectors']}", rate, share, "both measured (`make bench`)"),
        Machine("32 such cores", large, share, times),
        *([Machine("32 such cores, bf16", large, min(faster), times)] if faster else []),
        Machine("NVIDIA T4", 8_100, 1.0, "data sheet; a bound, nothing was measured"),
        Machine("NVIDIA A100", 19_500, 1.0, "the same"),
        Machine("NVIDIA L4", 30_300, 1.0, "the same"),
        Machine("NVIDIA H100 (SXM)", 67_000, 1.0, "the same"),
    ]


def by_variant(rows: Iterable[Row]) -> str:
    rows = list(rows)
    head = ["variant", "runs", "frames of each", "MFLOP per frame", "PFLOP in all"]
    lines = [
        [
            row.variant,
            f"{row.runs:,}",
            f"{row.frames:,}",
            f"{row.mflops:.0f}",
            f"{row.petaflops:,.0f}",
        ]
        for row in rows
    ]
    runs, work = sum(row.runs for row in rows), sum(row.petaflops for row in rows)
    return marked_table(head, [*lines, ["**total**", f"{runs:,}", "", "", f"{work:,.0f}"]])


def by_machine(petaflops: float, kinds: Iterable[Machine]) -> str:
    head = ["machine", "GFLOP/s", "of it used", "hours on one", "machines for a day", "known how"]
    lines = [
        [
            kind.kind,
            f"{kind.gflops:,.0f}",
            f"{kind.share:.0%}",
            f"{kind.hours(petaflops):,.0f}",
            f"{math.ceil(kind.hours(petaflops) / 24):,}",
            kind.known,
        ]
        for kind in kinds
    ]
    return marked_table(head, lines)


def counted() -> list[Row]:
    """What is known, in the order of the experiment."""
    return [Row(**row) for row in json.loads(COUNTED.read_text())] if COUNTED.exists() else []


def tables() -> str:
    rows = counted()
    kinds = machines(json.loads(TIMED.read_text()))
    return f"{by_variant(rows)}\n\n{by_machine(sum(row.petaflops for row in rows), kinds)}"


# --- counting


def planned() -> dict[str, tuple[int, int]]:
    """How many runs each variant of the experiment has, and of how many frames."""
    from crosstraj.experiments.file import read

    found: dict[str, tuple[int, int]] = {}
    plan = read(EXPERIMENT)
    for run in plan.runs():
        found[run.variant] = (found.get(run.variant, (0, 0))[0] + 1, run.frames)
    return found | {EXPERTS: (len(plan.games) * EXPERT_LEVELS, 500_000)}


def count() -> Iterator[Row]:
    """FLOPs per frame of every variant, over its phases, on one game; the others cost the same."""
    from crosstraj.cli.experts import expert_preset
    from crosstraj.experiments.file import read
    from crosstraj.experiments.jobs import configure

    known = {row.variant: row for row in counted()}
    configs = {EXPERTS: expert_preset("default")}
    for run in read(EXPERIMENT).runs():
        values = dict(run.values)
        if "objective.policies" in values:  # experts are not there; that they play is left out
            values["objective.policies"] = "random"
        if run.variant not in configs:
            configs[run.variant] = configure(replace(run, values=values), Path("runs"))
    for name, (runs, frames) in planned().items():
        mflops = known[name].mflops if name in known else over_phases(configs[name]) / 1e6
        yield Row(name, runs, frames, round(mflops, 1))


def over_phases(config: "Config") -> float:
    """FLOPs per frame, each phase counted alone and weighed with its share of the budget."""
    whole = sum(phase.share for phase in config.schedule)
    alone = [(replace(phase, share=1.0),) if config.phases else () for phase in config.schedule]
    counts = [per_frame(replace(config, phases=phases)) for phases in alone]
    return sum(n * phase.share / whole for n, phase in zip(counts, config.schedule, strict=True))


def per_frame(config: "Config") -> float:
    """Counted on two short rollouts of few environments: larger ones would only take longer.

    Two, because some work is the same for a rollout of any size (PSE's own play, the frames on
    which the policy's movement is measured): it counts with its share in a rollout of a run.
    """
    from benchmarks.machine import flops_per_frame

    envs = 2
    small, large = (
        sum(flops_per_frame(replace(config, envs=number)).values()) for number in (envs, 2 * envs)
    )
    fixed = 2 * (small - large)  # per frame of the smaller rollout
    return small - fixed + fixed * envs * STEPS / config.rollout_frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--count", action="store_true", help="count what is not known yet: minutes")
    if parser.parse_args().count:
        rows: list[Row] = []
        for row in count():
            rows.append(row)
            print(row, flush=True)
            if len(rows) >= len(counted()):  # what is counted is kept, whatever comes after it
                COUNTED.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")
    print(tables())


if __name__ == "__main__":
    main()
