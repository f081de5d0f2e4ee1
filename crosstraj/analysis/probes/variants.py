"""Variants of several seeds judged by one expert: each against the same seeds' untrained encoders
and against a baseline's.

All runs read one recording of the expert's play, so a difference is taken on the same levels; the
courses of a variant's seeds are averaged before an interval is taken. Intervals are over levels:
what other seeds would have given is not in them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from crosstraj.analysis.probes.agents import Judged, check_same_task, judged
from crosstraj.analysis.probes.intervals import estimate
from crosstraj.analysis.probes.judge import Exam, Pair
from crosstraj.analysis.probes.kept import digest_of_question, known_exam, recall, write
from crosstraj.analysis.probes.ranking import Choices, examined, measured, remarks
from crosstraj.config.groups import LevelSplit
from crosstraj.config.stored import identity
from crosstraj.errors import BadInput
from crosstraj.learning.load import read_config, untrained
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
    memory: Path,
    choices: Choices | None = None,
) -> Screened:
    """Probe every run and every seed's untrained encoder on one play of the expert, and compare.

    What is in `memory` is not measured again, and what is measured goes there at once; where all
    is, nobody plays. A run whose weights are gone, and that is not there, is left out with a note.
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
    facts, pairs = recall(memory, question)
    exam: Exam | None = None
    found: dict[tuple[str, int], Pair] = {}
    left_out = []
    for entry, start in with_untrained(entries):
        config = read_config(entry.run)
        name = f"{identity(config)}-{entry.frames}"
        if name not in pairs:
            try:
                agent = Judged(UNTRAINED, untrained(config)) if start else weights_of(entry)
            except BadInput as error:
                left_out.append(f"{entry.variant}, seed {entry.seed}, is left out: {error}")
                continue
            exam = exam or examined(expert, choices, levels)
            facts = known_exam(memory, facts, exam, question, remarks(expert_run, expert, exam))
            pairs[name] = measured(agent, exam).unseen
            write(memory, facts, pairs)
        found[entry.variant, entry.seed] = pairs[name]
    assert facts is not None  # an untrained encoder needs no weights
    table = lines(found, baseline, facts.levels)
    return Screened(table, facts.levels, facts.frames, [*facts.notes, *left_out])


def with_untrained(entries: Sequence[Entry]) -> Iterator[tuple[Entry, bool]]:
    """Each run, and before the first of a seed what its encoder was before training."""
    begun = set()
    for entry in entries:
        if entry.seed not in begun:
            begun.add(entry.seed)
            yield entry._replace(variant=UNTRAINED, frames=0), True
        yield entry, False


def weights_of(entry: Entry) -> Judged:
    """The agent after the frames it is judged at: a run may have gone on."""
    if entry.run.is_file():
        raise BadInput("its logs were kept, and its weights were not")
    return judged(entry.run, entry.frames)


def lines(found: dict[tuple[str, int], Pair], baseline: str, levels: int) -> list[Line]:
    """Untrained first, then every variant in its order; none without a seed of the baseline's."""
    table = []
    shared = {seed for variant, seed in found if variant == baseline}
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
