"""ATC: its contrast against a slow loop, its pairs, its target network, and where it is cut."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.learning.optimiser import Averages
from crosstraj.nn import ops
from crosstraj.nn.encoders import Encode
from crosstraj.objectives.atc import ATC, ATCConfig, Batch
from tests.helpers import rng, slow_fragments
from tests.objectives.every_method import (
    ENVS,
    STEPS,
    bits,
    learner_for,
    moved,
    random_done,
    rollout_for,
    small,
    update,
)


def random_batch(pairs: int, side: int = 8) -> Batch:
    frames = torch.randint(256, (2 * pairs, side, side, 3), generator=rng(3), dtype=torch.uint8)
    order = torch.randperm(2 * pairs, generator=rng(4))
    return Batch(frames, order[:pairs], order[pairs:])


def rectified_or_not(rectified: bool) -> Config:
    config = small("atc")
    assert isinstance(config.objective, ATCConfig)
    return replace(config, objective=replace(config.objective, rectified=rectified))


def read(encoder: Any, frames: Tensor, rectified: bool) -> Tensor:
    """The last layer written out, with or without its ReLU."""
    linear = encoder.map(frames).flatten(1) @ encoder.last.weight.T + encoder.last.bias
    return linear.clamp(min=0) if rectified else linear


@pytest.mark.parametrize("rectified", [False, True])
def test_the_contrast_equals_the_slow_loop(rectified):
    learner = learner_for(rectified_or_not(rectified), side=8)
    method, batch, encoder = learner.objective, random_batch(6), learner.agent.encoder
    assert isinstance(method, ATC)
    with torch.no_grad():
        method.similarity.mul_(100)
        for parameter in method.target.parameters():
            parameter.mul_(1.1)  # no longer the encoder itself
    loss, seen = method.loss(Encode(encoder, live=True, piece=4), batch, rng(5))
    g, shift = rng(5), method.config.shift
    with torch.no_grad():
        now = ops.random_shift(batch.frames[batch.now], shift, g)
        later = ops.random_shift(batch.frames[batch.later], shift, g)
        anchor, positive = read(encoder, now, rectified), read(method.target, later, rectified)
        assert (float(anchor.min()) < 0) != rectified
        query = anchor + method.residual(anchor)
        losses, right = [], 0
        for i in range(6):
            scores = [float(query[i] @ method.similarity @ positive[j]) for j in range(6)]
            losses.append(math.log(sum(math.exp(s - scores[i]) for s in scores)))
            right += scores[i] == max(scores)
    assert float(loss.detach()) == pytest.approx(sum(losses) / 6, rel=1e-3)
    assert float(seen["top_one"]) == pytest.approx(right / 6)


def test_before_the_last_relu_every_unit_of_the_last_layer_learns():
    """Push all units below zero: behind the ReLU nothing is left to learn from."""
    for rectified in (False, True):
        learner = learner_for(rectified_or_not(rectified), side=8)
        method, encoder = learner.objective, learner.agent.encoder
        assert isinstance(method, ATC)
        with torch.no_grad():
            encoder.last.bias.fill_(-1e3)
            method.target.get_parameter("last.bias").normal_(generator=rng(4))
        method.loss(Encode(encoder, live=True, piece=4), random_batch(6), rng(5))[0].backward()
        gradient = encoder.last.weight.grad
        assert gradient is not None
        assert bool(gradient.any()) != rectified


def test_the_default_contrasts_what_the_source_does():
    config = small("atc")
    assert isinstance(config.objective, ATCConfig)
    assert not config.objective.rectified


def test_equal_frames_leave_a_blind_guess():
    learner = learner_for(small("atc"))
    same = torch.full((8, 4, 4, 3), 100, dtype=torch.uint8)
    batch = Batch(same, torch.arange(8), torch.arange(8))
    _, seen = learner.objective.loss(learner.live_encode(True), batch, rng())
    assert float(seen["contrast"].detach()) == pytest.approx(math.log(8), abs=1e-5)


def pairs_of(done: Tensor, lag: int) -> set[tuple[int, int]]:
    """All that one epoch deals, as places in the rollout."""
    learner = learner_for(replace(small("atc"), objective=ATCConfig(lag=lag)))
    rollout = rollout_for(learner, done=done)
    number = torch.arange((STEPS + 1) * ENVS, dtype=torch.uint8).view(STEPS + 1, ENVS, 1, 1, 1)
    rollout = rollout._replace(obs=number.expand(-1, -1, 4, 4, 3).contiguous())
    found = []
    for batch in learner.objective.minibatches(rollout, 2, rng(7)):
        shown = batch.frames[:, 0, 0, 0].long()
        found += list(zip(shown[batch.now].tolist(), shown[batch.later].tolist(), strict=True))
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("lag", [1, 3])
def test_a_pair_is_exactly_so_many_steps_apart_in_one_episode(lag):
    done = random_done(0.1)
    home = {frame: i for i, frames in enumerate(slow_fragments(done)) for frame in frames}
    pairs = pairs_of(done, lag)
    assert len(pairs) > 20
    for now, later in pairs:
        assert later - now == lag * ENVS  # the same row, so many steps on
        assert home[now] == home[later]
    assert pairs_of(torch.ones_like(done), lag) == set()


def test_the_target_is_the_exact_moving_average_and_has_no_gradient():
    learner = learner_for(small("atc"))
    method = learner.objective
    assert isinstance(method, ATC)
    before = [p.clone() for p in method.target.parameters()]
    with torch.no_grad():
        for parameter in learner.agent.encoder.parameters():
            parameter.add_(1.0)
    method.after_step(learner.agent.encoder)
    for old, now, online in zip(
        before, method.target.parameters(), learner.agent.encoder.parameters(), strict=True
    ):
        torch.testing.assert_close(now, 0.99 * old + 0.01 * online)
    (batch, *_) = learner.objective_batches(rollout_for(learner), 1)
    learner.objective_backward(batch, Averages())
    assert all(p.grad is None for p in method.target.parameters())


def test_the_policy_never_moves_the_encoder_and_the_objective_never_the_policys_own_layer():
    config = plain("atc")
    assert (config.split_at, config.encoder_grad, config.order) == ("conv", "ssl", "policy")
    learner = learner_for(small("atc"))
    rollout = rollout_for(learner)
    before = bits(learner)
    learner.update_objective(rollout)
    after = bits(learner)
    assert moved(before, after) == {"encoder", "objective"}
    before = {name: p.detach().clone() for name, p in learner.agent.named_parameters()}
    learner.objective_weight = 0.0  # the policy alone
    update(learner, rollout)
    changed = {n for n, p in learner.agent.named_parameters() if not torch.equal(p, before[n])}
    assert changed == {n for n in before if not n.startswith("encoder.")}
    assert any(name.startswith("top.") for name in changed)
