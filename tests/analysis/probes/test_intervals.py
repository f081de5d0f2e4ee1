"""Intervals over levels: resamples, pairs, and what has none."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from crosstraj.analysis.probes.intervals import auc_course, estimate, resamples, share_course
from tests.analysis.probes.few_levels import frames_of_levels


def test_every_resample_is_the_statistic_of_levels_drawn_with_replacement():
    level, score, positive, part = frames_of_levels()
    weights = resamples(12)
    assert (weights.sum(1) == 12).all()
    shares = share_course(weights, part, part + 1, level)
    areas = auc_course(weights, score, positive, level)
    for row in (0, 1, 2, 777):
        again = np.repeat(np.arange(len(level)), weights[row].astype(int)[level])
        assert shares[row] == pytest.approx(part[again].sum() / (part[again] + 1).sum())
        assert areas[row] == pytest.approx(roc_auc_score(positive[again], score[again]))


def test_the_interval_of_a_mean_over_levels_is_that_of_its_standard_error():
    values = np.random.default_rng(6).normal(size=400)
    course = share_course(resamples(400), values, np.ones(400), np.arange(400))
    found = estimate(course, 400)
    reach = 1.96 * values.std() / np.sqrt(400)
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - reach, abs=0.1 * reach)
    assert found.high == pytest.approx(values.mean() + reach, abs=0.1 * reach)


def test_a_frame_more_of_the_same_level_makes_no_interval_narrower():
    level, _, _, part = frames_of_levels()
    often = np.repeat(np.arange(len(level)), 9)
    weights = resamples(12)
    once = estimate(share_course(weights, part, part + 1, level), 12)
    many = estimate(share_course(weights, part[often], part[often] + 1, level[often]), 12)
    assert many == pytest.approx(once)


def test_one_level_has_a_value_and_no_interval():
    found = estimate(share_course(resamples(1), np.ones(3), np.full(3, 4.0), np.zeros(3, int)), 1)
    assert found.value == 0.25
    assert np.isnan([found.low, found.high]).all()


def test_resamples_without_a_reward_are_left_out_and_no_reward_at_all_is_nan():
    positive = np.array([True, False, False, False])
    level = np.array([0, 0, 1, 2])
    course = auc_course(resamples(3), np.array([1.0, 0, 2, 0]), positive, level)
    assert course[0] == pytest.approx(2 / 3)
    assert np.isnan(course).any()
    assert 0 <= estimate(course, 3).low <= estimate(course, 3).high <= 1
    nothing = auc_course(resamples(3), np.zeros(4), np.zeros(4, bool), level)
    assert np.isnan(estimate(nothing, 3)).all()
