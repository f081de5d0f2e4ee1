"""Whose gradient reaches what: exactly what it should, in every order."""

import pytest

from crosstraj.policies.experience import experience
from tests.helpers import bits, learner_for, moved, rollout_for, small


@pytest.mark.parametrize(
    ("grad", "by_policy", "by_objective"),
    [
        ("none", {"policy", "value"}, {"objective"}),
        ("rl", {"policy", "value", "encoder"}, {"objective"}),
        ("ssl", {"policy", "value"}, {"objective", "encoder"}),
        ("both", {"policy", "value", "encoder"}, {"objective", "encoder"}),
    ],
)
def test_each_update_moves_exactly_what_it_should(grad, by_policy, by_objective):
    config = small(encoder_grad=grad)
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    start = bits(learner)
    learner.update_policy(rollout, steps, moved=False)
    middle = bits(learner)
    assert moved(start, middle) == by_policy
    learner.update_objective(rollout)
    after = bits(learner)
    assert moved(middle, after) == by_objective
    # Again, now that both optimisers have moments that could push.
    learner.update_policy(rollout, steps, moved=True)
    assert moved(after, bits(learner)) == by_policy


@pytest.mark.parametrize("grad", ["none", "rl", "ssl", "both"])
def test_a_joint_step_moves_the_encoder_whenever_anybody_trains_it(grad):
    config = small(encoder_grad=grad, order="joint")
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    before = bits(learner)
    metrics = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    expected = {"policy", "value", "objective"} | (set() if grad == "none" else {"encoder"})
    assert moved(before, bits(learner)) == expected
    assert {"cluster", "surrogate"} <= metrics.keys()


def test_ppo_alone_has_no_objective_and_trains_the_encoder():
    config = small("ppo")
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    before = bits(learner)
    metrics = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    assert moved(before, bits(learner)) == {"encoder", "policy", "value"}
    assert "objective_kl" not in metrics


def test_who_does_not_train_the_encoder_moves_no_policy():
    config = small(encoder_grad="rl")
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    metrics = learner.update(rollout, steps)
    assert "objective_kl" not in metrics
    assert "gradient_ratio" not in metrics
