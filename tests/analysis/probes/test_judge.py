"""What features tell of an expert: everything, nothing, or less than nothing."""

import numpy as np
import pytest
from scipy.special import log_softmax

from crosstraj.analysis.probes.intervals import resamples, share_course
from crosstraj.analysis.probes.judge import Exam, Measured, Pair, compare, measure, prepare
from crosstraj.analysis.probes.record import Recording
from crosstraj.errors import BadInput
from tests.analysis.probes.few_levels import frames_of_levels

ACTIONS = 5


def play_of(log_probs: np.ndarray, level: np.ndarray, soon: np.ndarray) -> Recording:
    return Recording(np.zeros((len(level), 1, 1, 1), np.uint8), log_probs, level, soon)


def expert(count: int, seed: int) -> tuple[np.ndarray, Recording]:
    """Logits [count, ACTIONS], and play by them; a reward is soon where the first logit is high."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(count, ACTIONS))
    level = rng.integers(seed * 100, seed * 100 + 30, count)
    return logits, play_of(log_softmax(logits, axis=1), level, logits[:, 0] > 0.5)


def exam() -> tuple[tuple[np.ndarray, np.ndarray], Exam]:
    (ours, seen), (theirs, unseen) = expert(1500, 1), expert(1200, 2)
    return (ours, theirs), prepare(seen, unseen, np.random.default_rng(0))


def test_features_that_are_the_experts_logits_explain_everything():
    features, play = exam()
    mixing = np.random.default_rng(5).normal(size=(ACTIONS, 12))  # any invertible view of them
    found = measure(tuple(logits @ mixing + 3 for logits in features), play)
    assert found.unseen.share[0] == pytest.approx(1, abs=0.005)
    assert found.unseen.auc[0] == pytest.approx(1, abs=0.002)
    assert found.held == pytest.approx((1, 1), abs=0.005)


def test_constant_features_explain_exactly_nothing():
    _, play = exam()
    constant = tuple(np.full((len(part.level), 3), 0.1) for part in (play.seen, play.unseen))
    found = measure(constant, play)
    # The fitted mean is the prior itself, on whatever frames; every pair of scores is a tie.
    np.testing.assert_allclose(found.unseen.share, 0, atol=1e-6)
    np.testing.assert_allclose(found.unseen.auc, 0.5, atol=1e-12)
    assert found.held == pytest.approx((0, 0.5), abs=1e-6)


def test_features_that_only_help_on_seen_levels_may_be_worse_than_nothing():
    (ours, theirs), play = exam()
    found = measure((ours, -theirs), play)
    assert found.unseen.share[0] < -0.5
    assert found.unseen.auc[0] < 0.01
    assert found.held[0] > 0.99


def test_one_seen_level_is_refused():
    _, play = expert(50, 1)
    with pytest.raises(BadInput, match="played 1 seen level: at least 2 are needed"):
        prepare(play._replace(level=np.full(50, 7)), play, np.random.default_rng(0))


def test_without_any_reward_to_learn_from_there_is_no_auc():
    features, play = exam()
    never = play._replace(seen=play.seen._replace(soon=np.zeros(1500, bool)))
    found = measure(features, never)
    assert np.isnan(found.unseen.auc).all()
    assert found.unseen.share[0] > 0.99


def test_differences_are_paired_level_by_level():
    level, _, _, part = frames_of_levels()
    weights, ones = resamples(12), np.ones(len(level))
    low, high = (share_course(weights, p, ones, level) for p in (part, part + 0.25))
    pairs = [Measured(Pair(c, c), (0.0, 0.0), (1.0, 1.0)) for c in (low, high, low)]
    untrained, first, other = compare([("a", 0), ("b", 1), ("c", 2)], pairs, 12)
    # Levels differ, but each by the same quarter: the difference is known exactly.
    assert first.share_over_untrained == pytest.approx((0.25, 0.25, 0.25))
    assert first.share.high - first.share.low > 0.02
    assert untrained.share_over_untrained == (0, 0, 0)
    assert other.share_over_first == pytest.approx((-0.25, -0.25, -0.25))
    assert other.auc_over_first == other.share_over_first
