"""The drift of the estimated ratio of two gradients: by hand, and without a trace in training."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from benchmarks.gradient_bound import drifts
from crosstraj.config.groups import RepresentationConfig
from crosstraj.learning import learner as where
from crosstraj.policies.experience import experience
from tests.helpers import bits, learner_for, rollout_for, small


def test_measured_over_estimated_by_hand():
    """One weight, frames 1 and 2: norms of 3 and 2 on it, of 3 and 1 at the features."""
    weight = torch.nn.Parameter(torch.tensor(1.0))
    features = weight * torch.tensor([[1.0], [2.0]])
    policy, own = torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0], [0.0]])
    with drifts() as found:
        where.through_encoder({"weight": weight}, features, policy, own, 0.0, gain=2.0)  # type: ignore[attr-defined]  # as the learner calls it
    assert found == [pytest.approx((3 / 2) / (2.0 * 3 / 1))]
    assert weight.grad is not None
    assert weight.grad.item() == 3 + 2


def test_all_but_the_first_minibatch_of_an_update_are_measured_and_nothing_else_is_learnt():
    parts = RepresentationConfig(minibatches=2, max_ratio=0.1)
    config = small("situations", rollout_steps=64, representation=parts)
    config = replace(config, order="joint")
    learnt, count = [], 0
    for look in (nullcontext, drifts):
        learner = learner_for(config)
        rollout = rollout_for(learner, config)
        with look() as found:
            learner.update(rollout, experience(rollout, rollout.reward, config.policy))
        count = len(found or [])
        learnt.append(bits(learner))
    assert count == config.policy.epochs * config.policy.minibatches - 1
    assert learnt[0] == learnt[1]
