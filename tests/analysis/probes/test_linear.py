"""Linear probes: against scikit-learn, and what they never see."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from crosstraj.analysis.probes.intervals import share_course
from crosstraj.analysis.probes.linear import choose, cross_entropy, divergence, fit, hold_out


def test_half_of_what_there_is_to_explain_is_a_share_of_a_half():
    # On one half of the frames the probe is the expert, on the other it knows only the mean.
    target = np.log(np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.1, 0.9]]))
    probe = target.copy()
    probe[2:] = np.log(0.5)
    unknown, left = divergence(target, np.log([0.5, 0.5])), divergence(target, probe)
    nats = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    np.testing.assert_allclose(unknown, nats)
    np.testing.assert_allclose(left, [0, 0, nats, nats], atol=1e-15)
    level = np.array([0, 1, 0, 1])
    assert share_course(np.ones((1, 2)), unknown - left, unknown, level)[0] == pytest.approx(0.5)


def test_hard_targets_give_the_solution_of_scikit_learn():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 6)) * [1, 10, 0.1, 1, 1, 1] + 4
    label = (features[:, 0] + rng.normal(size=400) > 4.3).astype(int)
    ridge = 0.02
    ours = fit(features, np.eye(2)[label], ridge)
    scaled = (features - features.mean(0)) / features.std(0)
    # Two softmax columns w and -w cost 2 |w|^2 / 2; one logistic column of 2w, |2w|^2 / 2.
    theirs = LogisticRegression(C=2 / (ridge * len(label)), tol=1e-10, max_iter=10_000)
    theirs.fit(scaled, label)
    np.testing.assert_allclose(
        ours.log_probs(features), theirs.predict_log_proba(scaled), atol=2e-4
    )


def test_soft_targets_weigh_as_frames_repeated_in_their_proportions():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, 3))
    counts = rng.integers(0, 4, (60, 4)) + np.array([1, 0, 0, 0])
    counts[:, 3] += 4 - counts.sum(1).clip(max=4)
    counts = np.where(counts.sum(1, keepdims=True) == 4, counts, [1, 1, 1, 1])  # four each
    soft = fit(features, counts / 4, 0.05)
    hard = fit(
        np.repeat(features, 4, 0),
        np.eye(4)[np.repeat(np.tile(np.arange(4), 60), counts.ravel())],
        0.05,
    )
    np.testing.assert_allclose(soft.weight, hard.weight, atol=1e-4)


def test_the_statistics_that_standardise_are_those_of_the_fitted_frames():
    rng = np.random.default_rng(2)
    features = np.concatenate([rng.normal(5, 2, (300, 2)), np.full((300, 1), 0.1)], 1)
    probe = fit(features, softmax(features, axis=1), 0.1)
    np.testing.assert_allclose(probe.centre, features.mean(0))
    np.testing.assert_allclose(probe.spread, [*features.std(0)[:2], 1])
    shifted = probe.log_probs(features + np.array([100, 0, 0]))
    assert np.abs(shifted - probe.log_probs(features)).max() > 1  # not standardised anew


def test_the_ridge_is_the_best_on_held_out_frames_and_its_probe_never_saw_them():
    rng = np.random.default_rng(3)
    features, noise = rng.normal(size=(200, 40)), rng.normal(size=(200, 3))
    target = softmax(features[:, :3] + 2 * noise, axis=1)
    held = np.arange(200) % 4 == 0
    ridge, probe = choose(features, target, held)
    again = fit(features[~held], target[~held], ridge)
    np.testing.assert_allclose(probe.log_probs(features), again.log_probs(features), atol=1e-3)
    best = cross_entropy(target[held], probe.log_probs(features[held]))
    for other in (ridge / 10, 10 * ridge):
        worse = fit(features[~held], target[~held], other)
        assert cross_entropy(target[held], worse.log_probs(features[held])) > best


def test_the_held_out_split_shares_no_level_and_is_a_quarter_of_them():
    level = np.random.default_rng(0).integers(50, 90, 3000)
    held = hold_out(level, np.random.default_rng(1))
    ours, theirs = set(level[held]), set(level[~held])
    assert not ours & theirs
    assert (len(ours), len(theirs)) == (10, 30)
    other = hold_out(level, np.random.default_rng(2))
    assert set(level[other]) != ours
    assert hold_out(np.array([4, 4, 9]), np.random.default_rng(0)).sum() in (1, 2)
