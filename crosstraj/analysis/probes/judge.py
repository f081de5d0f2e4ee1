"""One encoder's features judged: fitted on seen levels, measured on unseen ones, compared."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosstraj.analysis.probes.intervals import (
    Course,
    auc_course,
    estimate,
    resamples,
    share_course,
)
from crosstraj.analysis.probes.linear import Floats, Probe, choose, divergence, fit, hold_out
from crosstraj.analysis.probes.record import Recording
from crosstraj.errors import BadInput
from crosstraj.report.statistics import Estimate


class Exam(NamedTuple):
    """What every encoder is judged on."""

    seen: Recording
    unseen: Recording
    held: NDArray[np.bool_]  # frames of seen levels kept apart to choose the ridge
    weights: Floats  # [1 + R, levels] resamples of the unseen levels

    @property
    def levels(self) -> int:
        """How many unseen ones."""
        return self.weights.shape[1]


def prepare(seen: Recording, unseen: Recording, rng: np.random.Generator) -> Exam:
    count = len(np.unique(seen.level))
    if count < 2:
        raise BadInput(
            f"the expert played {count} seen level: at least 2 are needed, one to fit a probe on "
            "and one to choose its ridge; raise --frames or choose an expert of more levels"
        )
    held = hold_out(seen.level, rng)
    return Exam(seen, unseen, held, resamples(len(np.unique(unseen.level))))


class Pair(NamedTuple):
    """Both figures of an encoder, each on the levels as they are and on every resample."""

    share: Course
    auc: Course


class Measured(NamedTuple):
    unseen: Pair
    held: tuple[float, float]  # share and AUC on the held-out seen levels, before the last fit
    ridge: tuple[float, float]


def measure(features: tuple[Floats, Floats], exam: Exam) -> Measured:
    """From the features of the seen and of the unseen frames."""
    (seen, unseen), held = features, exam.held
    expert, kinds = np.exp(exam.seen.log_probs), one_hot(exam.seen.soon)
    action_ridge, action_probe = choose(seen, expert, held)
    reward_ridge, reward_probe = choose(seen, kinds, held)
    rest = judged(
        (action_probe, reward_probe),
        seen[held],
        exam.seen.take(held),
        expert[~held].mean(0),
        np.ones((1, len(np.unique(exam.seen.level[held])))),
    )
    final = judged(
        (fit(seen, expert, action_ridge), fit(seen, kinds, reward_ridge)),
        unseen,
        exam.unseen,
        expert.mean(0),
        exam.weights,
    )
    if len(np.unique(exam.seen.soon[~held])) < 2:  # nothing was there to learn from
        rest, final = (pair._replace(auc=np.full_like(pair.auc, np.nan)) for pair in (rest, final))
    both = float(rest.share[0]), float(rest.auc[0])
    return Measured(final, both, (action_ridge, reward_ridge))


def one_hot(labels: NDArray[np.bool_]) -> Floats:
    return np.stack([~labels, labels], axis=1).astype(np.float64)


def judged(
    probes: tuple[Probe, Probe], features: Floats, play: Recording, mean: Floats, weights: Floats
) -> Pair:
    """Explained share and AUC of an action and a reward probe; `mean` [actions] explains nothing.

    share = 1 - sum KL(expert || probe) / sum KL(expert || mean), over the frames of `play`.
    """
    actions, reward = probes
    level = np.unique(play.level, return_inverse=True)[1]
    unknown = divergence(play.log_probs, np.log(mean))
    left = divergence(play.log_probs, actions.log_probs(features))
    odds = reward.log_probs(features)
    return Pair(
        share_course(weights, unknown - left, unknown, level),
        auc_course(weights, odds[:, 1] - odds[:, 0], play.soon, level),
    )


class Judgement(NamedTuple):
    """One line of the table: explained share and AUC with intervals over unseen levels."""

    name: str
    frames: int  # of training
    share: Estimate
    auc: Estimate
    share_over_untrained: Estimate
    auc_over_untrained: Estimate
    share_over_first: Estimate  # over the first judged run
    auc_over_first: Estimate
    held_share: float
    held_auc: float
    action_ridge: float
    reward_ridge: float


def compare(names: list[tuple[str, int]], found: list[Measured], levels: int) -> list[Judgement]:
    """The first one is untrained and the second is the first run, against which all are held."""
    untrained, first = found[0].unseen, found[1].unseen

    def over(ours: Course, theirs: Course) -> Estimate:
        return estimate(ours - theirs, levels)

    return [
        Judgement(
            *name,
            share=estimate(one.unseen.share, levels),
            auc=estimate(one.unseen.auc, levels),
            share_over_untrained=over(one.unseen.share, untrained.share),
            auc_over_untrained=over(one.unseen.auc, untrained.auc),
            share_over_first=over(one.unseen.share, first.share),
            auc_over_first=over(one.unseen.auc, first.auc),
            held_share=one.held[0],
            held_auc=one.held[1],
            action_ridge=one.ridge[0],
            reward_ridge=one.ridge[1],
        )
        for name, one in zip(names, found, strict=True)
    ]
