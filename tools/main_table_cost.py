"""What the paper's main table costs on several kinds of machines.

    python -m tools.main_table_cost

prints the tables of docs/cluster.md: from the FLOPs per frame in results/bench/main_table.json,
which `--count` counts anew (minutes, with the full encoder), and from what `make bench` timed.
"""

import argparse
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crosstraj.report.document import marked_table

if TYPE_CHECKING:
    from crosstraj.config.values import Config

EXPERIMENT = Path("experiments/main_table.toml")
COUNTED = Path("results/bench/main_table.json")
TIMED = Path("results/bench/bench.json")
EXPERTS = "experts, for pse:paper (pretrained)"
EXPERT_LEVELS = 40  # per game: the default of `crosstraj experts`, and the paper's


class Row(NamedTuple):
    """Runs that are alike in all but game and seed."""

    variant: str
    runs: int
    frames: int  # of one run
    mflops: float  # per frame, over all its phases

    @property
    def exaflops(self) -> float:
        return self.runs * self.frames * self.mflops / 1e12


class Machine(NamedTuple):
    kind: str
    gflops: float  # fp32 matrix multiplication, per second
    share: float  # of it, in which a run learns
    known: str  # where the two numbers come from

    def hours(self, exaflops: float) -> float:
        return exaflops * 1e9 / (self.gflops * self.share) / 3600


def machines(timed: dict[str, Any]) -> list[Machine]:
    """The machine that was timed, and others by arithmetic; fp32 of GPUs is their data sheets'."""
    rate, cores = timed["limit_gflops"], timed["threads"]
    share = min(timed["contenders"][name]["fraction"] for name in ("ppo", "ctrl"))
    large = 32 * rate / cores
    return [
        Machine(f"{cores} cores, AVX2", rate, share, "both measured (`make bench`)"),
        Machine("32 such cores", large, share, "16 times the first"),
        Machine("32 cores, AVX-512", 2 * large, share, "twice that: vectors twice as wide"),
        Machine("NVIDIA T4", 8_100, 1.0, "data sheet; a bound, nothing was measured"),
        Machine("NVIDIA A100", 19_500, 1.0, "the same"),
        Machine("NVIDIA L4", 30_300, 1.0, "the same"),
        Machine("NVIDIA H100 (SXM)", 67_000, 1.0, "the same"),
    ]


def by_variant(rows: Iterable[Row]) -> str:
    rows = list(rows)
    head = ["variant", "runs", "frames of each", "MFLOP per frame", "EFLOP in all"]
    lines = [
        [
            row.variant,
            f"{row.runs:,}",
            f"{row.frames:,}",
            f"{row.mflops:.0f}",
            f"{row.exaflops:.0f}",
        ]
        for row in rows
    ]
    runs, work = sum(row.runs for row in rows), sum(row.exaflops for row in rows)
    return marked_table(head, [*lines, ["**total**", f"{runs:,}", "", "", f"{work:,.0f}"]])


def by_machine(exaflops: float, kinds: Iterable[Machine]) -> str:
    head = ["machine", "GFLOP/s", "of it used", "days on one", "machines for a day", "known how"]
    lines = [
        [
            kind.kind,
            f"{kind.gflops:,.0f}",
            f"{kind.share:.0%}",
            f"{kind.hours(exaflops) / 24:,.1f}",
            f"{math.ceil(kind.hours(exaflops) / 24):,}",
            kind.known,
        ]
        for kind in kinds
    ]
    return marked_table(head, lines)


def tables() -> str:
    rows = [Row(**row) for row in json.loads(COUNTED.read_text())]
    kinds = machines(json.loads(TIMED.read_text()))
    return f"{by_variant(rows)}\n\n{by_machine(sum(row.exaflops for row in rows), kinds)}"


# --- counting


def planned() -> dict[str, tuple[int, int]]:
    """How many runs each variant of the experiment has, and of how many frames."""
    from crosstraj.experiments.file import read

    found: dict[str, tuple[int, int]] = {}
    plan = read(EXPERIMENT)
    for run in plan.runs():
        found[run.variant] = (found.get(run.variant, (0, 0))[0] + 1, run.frames)
    return found | {EXPERTS: (len(plan.games) * EXPERT_LEVELS, 500_000)}


def count() -> list[Row]:
    """FLOPs per frame of every variant, over its phases, on one game; the others cost the same."""
    from crosstraj.cli.experts import expert_preset
    from crosstraj.experiments.file import read
    from crosstraj.experiments.jobs import configure

    configs = {EXPERTS: expert_preset("default")}
    for run in read(EXPERIMENT).runs():
        values = dict(run.values)
        if "objective.policies" in values:  # experts are not there; that they play is left out
            values["objective.policies"] = "random"
        if run.variant not in configs:
            configs[run.variant] = configure(replace(run, values=values), Path("runs"))
    rows = []
    for name, (number, frames) in planned().items():
        rows.append(Row(name, number, frames, round(over_phases(configs[name]) / 1e6, 1)))
        print(rows[-1], flush=True)
    return rows


def over_phases(config: "Config") -> float:
    """FLOPs per frame, each phase counted alone and weighed with its share of the budget."""
    from benchmarks.machine import flops_per_frame

    # Rollouts of 64 steps are counted. Eight environments are enough, but for PSE: its own play
    # does not grow with the rollout, which has to have as many frames as in a run.
    envs = config.rollout_frames // 64 if config.method == "pse" else 8
    flops = 0.0
    for phase in config.schedule:
        alone = (replace(phase, share=1.0),) if config.phases else ()
        counted = flops_per_frame(replace(config, envs=envs, phases=alone))
        share = phase.share / sum(other.share for other in config.schedule)
        flops += share * sum(counted.values())
    return flops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--count", action="store_true", help="count the FLOPs anew: minutes")
    if parser.parse_args().count:
        COUNTED.write_text(json.dumps([row._asdict() for row in count()], indent=1) + "\n")
    print(tables())


if __name__ == "__main__":
    main()
