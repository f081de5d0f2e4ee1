"""`crosstraj probe`: how well an expert's behaviour can be read off the features of encoders.

One recording of the expert's play serves all encoders. A probe is fitted on frames of seen levels
and judged on frames of unseen ones; docs/analysis.md has the definitions.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from crosstraj.analysis.play import examiner_for
from crosstraj.analysis.probes.agents import (
    Judged,
    check_same_task,
    encoders,
    features_of,
    judged,
)
from crosstraj.analysis.probes.judge import (
    Exam,
    Judgement,
    Measured,
    compare,
    measure,
    prepare,
)
from crosstraj.analysis.probes.linear import divergence
from crosstraj.analysis.probes.record import Recording, record
from crosstraj.config.groups import LevelSplit
from crosstraj.errors import BadInput, check_range
from crosstraj.learning.display import stage
from crosstraj.learning.evaluation import EASY_RANGE, SPLITS, Examiner, normalised
from crosstraj.learning.load import read_config
from crosstraj.nn.native import keep_memory
from crosstraj.randomness import ANALYSES, derived_seed, generator
from crosstraj.runs.log import read_rows, series

PLAY, HELD = 2, 3  # places among the random streams of analyses
FEW_LEVELS = 20
LITTLE = 0.05  # nats of divergence below which there is hardly anything to explain


class Choices(NamedTuple):
    """What a person may choose of a probe."""

    frames: int = 6144  # of each split, at least
    every: int = 4  # steps from one frame to the next
    random: float = 0.2  # share of actions drawn uniformly
    step: tuple[int, ...] = ()  # frame counts of snapshots of each judged run; none: the newest
    expert_step: int | None = None

    def check(self) -> None:
        check_range(self, "--", "frames", at_least=100)
        check_range(self, "--", "every", at_least=1)
        check_range(self, "--", "random", at_least=0, at_most=1)


class Result(NamedTuple):
    facts: dict[str, Any]
    judgements: list[Judgement]  # untrained, the judged ones as given, the expert's own
    notes: list[str]


def probe(runs: list[Path], expert_run: Path, choices: Choices) -> Result:
    """Play the expert and judge all encoders; nothing is written."""
    choices.check()
    for run in runs:
        check_same_task(run, expert_run)
    config = read_config(expert_run)
    keep_memory()
    torch.set_num_threads(config.threads)
    expert = judged(expert_run, choices.expert_step)
    subjects = encoders(runs, choices.step, expert)  # before minutes of play: is all there?
    exam = examined(expert, choices)
    names, found, notes = [], [], remarks(expert_run, expert, exam)
    for encoder in subjects:
        names.append((encoder.name, encoder.trained.frames))
        notes += same_seed(encoder, expert)
        found.append(measured(encoder, exam))
    judgements = compare(names, found, exam.levels)
    return Result(facts_of(expert, exam, choices), judgements, list(dict.fromkeys(notes)))


def examined(expert: Judged, choices: Choices, held_out: LevelSplit = "unseen") -> Exam:
    """The expert's play on seen levels, which probes are fitted on, and on those that test them."""
    config = expert.trained.configuration
    examiner = examiner_for(config, choices.frames, choices.every)
    seen = play(expert, examiner, "seen", choices)
    rng = np.random.default_rng(derived_seed(config.seed, ANALYSES, HELD))
    return prepare(seen, play(expert, examiner, held_out, choices), rng)


def measured(encoder: Judged, exam: Exam) -> Measured:
    """Both probes of an encoder."""
    with stage(f"probing {encoder.name}, {encoder.trained.frames:,}"):
        seen, unseen = (features_of(encoder, part.frames) for part in (exam.seen, exam.unseen))
        with threadpool_limits(1):  # several threads would add in no fixed order
            return measure((seen, unseen), exam)


def play(expert: Judged, examiner: Examiner, split: LevelSplit, choices: Choices) -> Recording:
    if expert.trained.objective.context:
        raise BadInput(
            f"{expert.name} acts by skills, which no probe can see in a frame; choose an expert "
            "trained with another method"
        )
    pool = examiner.pool(split)
    count = -(-choices.frames // pool.envs.num_envs)
    with stage(f"the expert on {split} levels", count * pool.envs.num_envs) as shown:
        return record(
            pool,
            expert.trained.agent,
            count,
            every=choices.every,
            random=choices.random,
            rng=generator(expert.trained.configuration.seed, ANALYSES, PLAY, SPLITS[split].stream),
            device=torch.device(expert.trained.configuration.machine.device),
            shown=shown,
        )


def facts_of(expert: Judged, exam: Exam, choices: Choices) -> dict[str, Any]:
    """What the table is about."""
    log_probs = exam.unseen.log_probs
    return {
        "env": expert.trained.configuration.env,
        "expert": expert.name,
        "expert_frames": expert.trained.frames,
        "expert_seed": expert.trained.configuration.seed,
        "expert_entropy": float(-(np.exp(log_probs) * log_probs).sum(1).mean()),
        "explainable_entropy": explainable(exam),
        "random": choices.random,
        "every": choices.every,
        **{
            f"{split}_{what}": figure
            for split, part in zip(("seen", "unseen"), (exam.seen, exam.unseen), strict=True)
            for what, figure in (
                ("frames", len(part.level)),
                ("levels", len(np.unique(part.level))),
                ("reward_soon", float(part.soon.mean())),
            )
        },
    }


def explainable(exam: Exam) -> float:
    """Mean divergence of the expert's actions on unseen levels from their mean on seen ones."""
    mean = np.exp(exam.seen.log_probs).mean(0)
    return float(divergence(exam.unseen.log_probs, np.log(mean)).mean())


def remarks(run: Path, expert: Judged, exam: Exam) -> list[str]:
    """What a reader must know of the expert and its play."""
    notes = []
    config = expert.trained.configuration
    rows = series(read_rows(run / "metrics.jsonl"), "unseen_return")
    known = [(frames, score) for frames, score in rows if frames <= expert.trained.frames]
    if not known:
        notes.append("the expert was not evaluated: is it clearly above random play?")
    elif config.env in EASY_RANGE and config.procgen.mode == "easy":
        frames, score = known[-1]
        weak = normalised(config.env, score) <= 0
        notes.append(
            f"the expert's return on unseen levels was {score:.2f} at {frames:,.0f} frames"
            + (": no better than random play, so its actions are no standard" if weak else "")
        )
    if (found := explainable(exam)) < LITTLE:
        notes.append(
            f"the expert's actions hardly depend on the frame ({found:.3f} nats): there is little "
            "to explain, so choose a better expert"
        )
    if exam.levels < FEW_LEVELS:
        notes.append(
            f"{exam.levels} unseen levels are too few for intervals to be trusted; raise --frames"
        )
    if not 0 < exam.seen.soon.mean() < 1 or not 0 < exam.unseen.soon.mean() < 1:
        notes.append("a reward follows always or never, so the AUC says nothing")
    return notes


def same_seed(encoder: Judged, expert: Judged) -> list[str]:
    own, seed = (who.trained.configuration.seed for who in (encoder, expert))
    if encoder.trained is expert.trained or own != seed:
        return []
    return [
        f"{encoder.name} has the expert's seed, {seed}, and may have begun with its very weights; "
        "an expert of another seed is fairer"
    ]
