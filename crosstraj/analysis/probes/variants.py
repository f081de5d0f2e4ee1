"""Variants of several seeds judged by one expert: each against the same seeds' untrained encoders
and against a baseline's.

All runs read one recording of the expert's play, so a difference is taken on the same levels; the
courses of a variant's seeds are averaged before an interval is taken. Intervals are over levels:
what other seeds would have given is not in them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from crosstraj.analysis.probes.agents import check_same_task, judged
from crosstraj.analysis.probes.intervals import estimate
from crosstraj.analysis.probes.judge import Exam, Pair
from crosstraj.analysis.probes.ranking import Choices, examined, measured, remarks
from crosstraj.config.groups import LevelSplit
from crosstraj.learning.load import untrained
from crosstraj.nn.native import keep_memory
from crosstraj.report.statistics import Estimate

UNTRAINED = "untrained"


class Entry(NamedTuple):
    """A run that is judged."""

    variant: str
    seed: int
    run: Path


class Line(NamedTuple):
    """A variant, with the seeds that it shares with what it is held against."""

    variant: str
    seeds: list[int]
    share: Estimate
    share_over_untrained: Estimate
    share_over_baseline: Estimate
    auc: Estimate
    auc_over_untrained: Estimate
    auc_over_baseline: Estimate

    @property
    def passes(self) -> bool:
        """Is more of the expert's entropy explained than by either encoder it is held against?"""
        return self.share_over_untrained.low > 0 and self.share_over_baseline.low > 0


class Screened(NamedTuple):
    lines: list[Line]
    levels: int  # that the expert was met on and probes were tested on
    frames: int
    notes: list[str]


def screen(
    entries: Sequence[Entry],
    baseline: str,
    expert_run: Path,
    levels: LevelSplit,
    choices: Choices | None = None,
) -> Screened:
    """Play the expert once, probe every run and every seed's untrained encoder, and compare."""
    choices = choices or Choices()
    choices.check()
    keep_memory()
    for entry in entries:
        check_same_task(entry.run, expert_run)
    expert = judged(expert_run, choices.expert_step)
    torch.set_num_threads(expert.trained.configuration.threads)
    exam = examined(expert, choices, levels)
    found: dict[tuple[str, int], Pair] = {}
    for variant, seed, run in entries:
        agent = judged(run, None)
        if (UNTRAINED, seed) not in found:
            start = untrained(agent.trained.configuration)
            found[UNTRAINED, seed] = measured(agent._replace(trained=start), exam).unseen
        found[variant, seed] = measured(agent, exam).unseen
    notes = remarks(expert_run, expert, exam)
    return Screened(lines(found, baseline, exam), exam.levels, len(exam.unseen.level), notes)


def lines(found: dict[tuple[str, int], Pair], baseline: str, exam: Exam) -> list[Line]:
    """Untrained first, then every variant in its order; none without a seed of the baseline's."""
    table = []
    shared = {seed for variant, seed in found if variant == baseline}
    for variant in dict.fromkeys([UNTRAINED, *(variant for variant, _ in found)]):
        seeds = sorted(seed for name, seed in found if name == variant and seed in shared)
        if not seeds:
            continue
        figures = [
            estimate(np.mean(courses, axis=0), exam.levels)
            for kind in Pair._fields
            for courses in (
                [getattr(found[variant, seed], kind) for seed in seeds],
                *(
                    [
                        getattr(found[variant, seed], kind) - getattr(found[other, seed], kind)
                        for seed in seeds
                    ]
                    for other in (UNTRAINED, baseline)
                ),
            )
        ]
        table.append(Line(variant, seeds, *figures))
    return table
