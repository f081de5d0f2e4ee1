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

from crosstraj.analysis.probes.agents import Judged, check_same_task, judged
from crosstraj.analysis.probes.archive import (
    Facts,
    check_play,
    digest_of_play,
    digest_of_question,
    measurement,
    recall,
    write,
)
from crosstraj.analysis.probes.intervals import estimate
from crosstraj.analysis.probes.judge import Exam, Pair
from crosstraj.analysis.probes.ranking import Choices, examined, measured, remarks
from crosstraj.config.groups import LevelSplit
from crosstraj.errors import BadInput
from crosstraj.learning.load import before_training, read_config, refuse_memory
from crosstraj.nn.native import keep_memory
from crosstraj.report.statistics import RESAMPLES, Estimate

UNTRAINED = "untrained"


class Entry(NamedTuple):
    """A run that is judged, by its weights after so many frames."""

    variant: str
    seed: int
    run: Path
    frames: int


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
    file: Path,
    choices: Choices | None = None,
) -> Screened:
    """Probe every run and every seed's untrained encoder on one play of the expert, and compare.

    What is kept in `file` is not measured again, and what is measured is kept at once; where all
    is, nobody plays. What cannot be measured is left out with a note.
    """
    choices = choices or Choices()
    choices.check()
    keep_memory()
    for entry in entries:
        check_same_task(entry.run, expert_run)
    expert = judged(expert_run, choices.expert_step)
    torch.set_num_threads(expert.trained.configuration.threads)
    chosen = choices._asdict() | {"levels": levels, "resamples": RESAMPLES}
    question = digest_of_question(expert.trained.agent.state_dict(), chosen)
    facts, known = recall(file, question)
    exam: Exam | None = None
    found: dict[tuple[str, int], Pair] = {}
    left_out = []
    for entry in with_untrained(entries, baseline):
        name, config = f"{entry.variant}/{entry.seed}/{entry.frames}", read_config(entry.run)
        try:
            if name not in known or not known[name].is_of(config):
                agent = weights_of(entry)
                exam = exam or examined(expert, choices, levels)
                facts = facts or facts_of(exam, question, remarks(expert_run, expert, exam))
                check_play(file, facts, exam)
                one = measurement(config, measured(agent, exam).unseen)
                known = recall(file, question)[1] | known | {name: one}  # another may have written
                write(file, facts, known)
        except BadInput as error:
            left_out.append(f"{entry.variant}, seed {entry.seed}, is left out: {error}")
        else:
            found[entry.variant, entry.seed] = known[name].pair
    if facts is None:  # nothing could be measured
        raise BadInput(left_out[0])
    table = lines(found, baseline, facts.levels)
    return Screened(table, facts.levels, facts.frames, [*facts.notes, *left_out])


def with_untrained(entries: Sequence[Entry], baseline: str) -> list[Entry]:
    """The runs of seeds that the baseline has, and for each seed its encoder before training."""
    starts = {entry.seed: entry for entry in entries if entry.variant == baseline}
    return [
        *(entry._replace(variant=UNTRAINED, frames=0) for entry in starts.values()),
        *(entry for entry in entries if entry.seed in starts),
    ]


def weights_of(entry: Entry) -> Judged:
    """The agent after the frames that it is judged at, for a run may have gone on."""
    if entry.frames == 0:
        start = before_training(entry.run)
        refuse_memory(start.agent, entry.run, "probes read frames that lie apart")
        return Judged(UNTRAINED, start)
    if entry.run.is_file():
        raise BadInput(
            f"its logs were kept, and its weights were not; remove {entry.run} to run it again"
        )
    return judged(entry.run, entry.frames)


def facts_of(exam: Exam, question: str, notes: list[str]) -> Facts:
    return Facts(question, digest_of_play(exam), exam.levels, len(exam.unseen.level), notes)


def lines(found: dict[tuple[str, int], Pair], baseline: str, levels: int) -> list[Line]:
    """Untrained first, then every variant in its order; none without a seed of the baseline's."""
    table = []
    shared = {seed for who, seed in found if who == baseline and (UNTRAINED, seed) in found}
    for variant in dict.fromkeys([UNTRAINED, *(variant for variant, _ in found)]):
        seeds = sorted(seed for name, seed in found if name == variant and seed in shared)
        if not seeds:
            continue
        figures = [
            estimate(np.mean(courses, axis=0), levels)
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
