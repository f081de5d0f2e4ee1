"""Objectives that can read the frames of the policy's own minibatches, and what all of them record.

`situations` was made for it and has tests of its own.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from crosstraj.config.methods import METHODS
from crosstraj.config.values import Config
from crosstraj.data.within_episodes import stretches
from crosstraj.errors import BadInput
from crosstraj.learning.learner import Learner
from tests.helpers import rng
from tests.objectives.every_method import (
    ENVS,
    STEPS,
    bits,
    heads_of,
    learner_for,
    moved,
    random_done,
    rollout_for,
    small,
    update,
)

SHARING = ["dbc", "driml"]


def joint(method: str, stretch: int, grad: str = "both") -> Config:
    config = small(method, order="joint", encoder_grad=grad)
    return replace(config, policy=replace(config.policy, stretch=stretch, advantages="rollout"))


@pytest.mark.parametrize("method", METHODS)
def test_a_configuration_knows_whether_its_objective_can_share_the_policys_pass(method):
    learner = learner_for(small(method))
    assert learner.objective.reads_stretches == learner.config.objective_kind.reads_stretches
    one_pass = ("dbc", "diayn", "driml", "idaac", "situations")
    assert learner.objective.reads_stretches == (method in one_pass)


@pytest.mark.parametrize("method", SHARING)
def test_the_loss_on_the_same_frames_is_equal_in_a_pass_of_its_own_and_in_one_pass(method):
    config = small(method)
    if method == "driml":  # no lag to draw, or the two would draw different ones
        config = replace(config, objective=replace(config.objective, lag=1))
    learner = learner_for(config)
    rollout, objective = rollout_for(learner, done=random_done(0.2)), learner.objective
    (own,) = objective.minibatches(rollout, 1, rng(1))
    (minibatch,) = stretches(rollout.done, 1, STEPS, rng(2))
    shared = objective.batch(rollout, minibatch, rng(3))
    assert all(torch.equal(a, b) for a, b in zip(own, shared, strict=True))
    assert len(own.frames) == STEPS * ENVS

    encode = learner.live_encode(True)
    loss, evidence = objective.loss(encode, own, rng(4))
    again, same = objective.loss_of(encode(rollout.frames()[minibatch.frame]), shared, rng(4))
    assert torch.equal(loss, again)
    assert all(torch.equal(evidence[name], same[name]) for name in evidence)


@pytest.mark.parametrize("method", SHARING)
def test_pairs_of_stretches_stay_inside_their_stretch(method):
    learner = learner_for(small(method))
    rollout = rollout_for(learner)
    for minibatch in stretches(rollout.done, 2, 4, rng(1)):
        batch = learner.objective.batch(rollout, minibatch, rng(2))
        frame, stretch = minibatch
        assert torch.equal(stretch[batch.now], stretch[batch.later])
        steps = (frame[batch.later] - frame[batch.now]) // ENVS
        assert set(steps.tolist()) == ({1} if method == "dbc" else {1, 2})
        assert torch.equal(frame[batch.now] % ENVS, frame[batch.later] % ENVS)
        if method == "dbc":  # every step that is followed in its stretch, and its own reward
            assert len(batch.now) == len(frame) - len(stretch.unique())
            assert torch.equal(batch.reward, rollout.reward.flatten()[frame])


def live_frames(learner: Learner) -> list[int]:
    """Fills up with the number of frames of each encoding that carries a gradient."""
    seen: list[int] = []

    def note(_: torch.nn.Module, frames: tuple[Tensor, ...], __: Tensor) -> None:
        if torch.is_grad_enabled():
            seen.append(len(frames[0]))

    learner.agent.encoder.register_forward_hook(note)
    return seen


@pytest.mark.parametrize("grad", ["rl", "ssl", "both"])
@pytest.mark.parametrize("method", SHARING)
def test_one_pass_encodes_each_frame_once_and_moves_what_it_should(method, grad):
    learner = learner_for(joint(method, 8, grad))
    rollout, before = rollout_for(learner), bits(learner)
    assert learner.one_pass
    seen = live_frames(learner)
    metrics = update(learner, rollout)
    assert sum(seen) == STEPS * ENVS * learner.config.policy.epochs
    assert moved(before, bits(learner)) == heads_of(learner) | {"objective", "encoder"}
    assert ("gradient_ratio" in metrics) == (grad == "both")
    if grad == "both":  # single steps: the objective has frames of its own, and encodes them again
        apart = learner_for(joint(method, 0))
        assert not apart.one_pass
        twice = live_frames(apart)
        update(apart, rollout)
        assert sum(twice) == 2 * sum(seen)


def test_stretches_too_short_for_a_lag_are_refused_and_episodes_of_one_step_give_no_batch():
    with pytest.raises(BadInput, match=r"policy\.stretch=2 is shorter than the 3 steps"):
        joint("driml", 2)
    learner = learner_for(joint("driml", 8))
    rollout = rollout_for(learner, done=torch.ones(STEPS, ENVS, dtype=torch.bool))
    (minibatch, *_) = stretches(rollout.done, 2, 8, rng())
    assert learner.objective.batch(rollout, minibatch, rng()) is None
    assert "contrast" not in update(learner, rollout)


@pytest.mark.parametrize("order", ["objective", "policy", "joint"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_records_the_rank_of_its_features_with_every_rollout(method, order):
    learner = learner_for(small(method, order=order))
    for _ in range(2):
        assert 1 <= update(learner, rollout_for(learner))["feature_rank"] <= STEPS * ENVS
