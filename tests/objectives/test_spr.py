"""SPR: which action and which frame belong to which step, what an episode's end hides, targets."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crosstraj.learning.learner import Learner
from crosstraj.learning.optimiser import Averages
from crosstraj.nn import ops
from crosstraj.nn.encoders import Encode
from crosstraj.objectives.spr import SPR, Batch, Dynamics, SPRConfig
from tests.helpers import rng
from tests.objectives.every_method import learner_for, rollout_for, small, update

SIDE, K = 16, 3


def setting(**values: Any) -> tuple[Learner, SPR, Encode]:
    config = small("spr")
    config = replace(config, objective=SPRConfig(steps=K, weight=1.0, **values))
    learner = learner_for(config, side=SIDE)
    assert isinstance(learner.objective, SPR)
    return learner, learner.objective, Encode(learner.agent.encoder, live=True, piece=7)


def make_batch(windows: int = 4, ends: tuple[tuple[int, int], ...] = ()) -> Batch:
    """Windows one after another; an end (b, k): action k of window b ended its episode."""
    g, frames = rng(1), windows * (K + 1)
    valid = torch.ones(windows, K + 1, dtype=torch.bool)
    for b, k in ends:
        valid[b, k + 1 :] = False
    return Batch(
        torch.randint(256, (frames, SIDE, SIDE, 3), generator=g, dtype=torch.uint8),
        torch.randint(5, (frames,), generator=g),
        torch.arange(frames).view(windows, K + 1),
        valid,
    )


class Told(nn.Module):
    """A model that is told the true maps, one step after another."""

    def __init__(self, maps: list[Tensor]) -> None:
        super().__init__()
        self.maps = iter(maps)

    def forward(self, spatial: Tensor, action: Tensor) -> Tensor:
        return next(self.maps)


def maps_of(encode: Encode, batch: Batch, offset: int) -> list[Tensor]:
    with torch.no_grad():
        every = ops.min_max(encode.map(batch.frames))
        return [every[batch.position[:, k + offset]] for k in range(K)]


def test_a_perfect_model_has_loss_zero_and_one_that_is_a_step_late_has_not():
    _, method, encode = setting()
    batch = make_batch()
    method.predictor = nn.Identity()
    for offset, perfect in ((1, True), (0, False)):
        method.dynamics = Told(maps_of(encode, batch, offset))
        loss = float(method.loss(encode, batch, rng())[0].detach())
        assert (abs(loss) < 1e-6) == perfect


def test_when_nothing_changes_the_identity_predicts_it():
    class Still(nn.Module):
        def forward(self, spatial: Tensor, action: Tensor) -> Tensor:
            return spatial

    _, method, encode = setting()
    method.predictor, method.dynamics = nn.Identity(), Still()
    batch = make_batch()
    frozen = batch.frames[batch.position[:, 0]].repeat_interleave(K + 1, dim=0)
    loss, _ = method.loss(encode, batch._replace(frames=frozen), rng())
    assert float(loss.detach()) == pytest.approx(0.0, abs=1e-6)
    assert float(method.loss(encode, batch, rng())[0].detach()) > 1e-3


def last_layer(encoder: Any, spatial: Tensor, rectified: bool) -> Tensor:
    """The last layer written out, with or without its ReLU."""
    read = spatial.flatten(1) @ encoder.last.weight.T + encoder.last.bias
    return read.clamp(min=0) if rectified else read


def slow_loss(learner: Learner, method: SPR, batch: Batch) -> float:
    encoder, terms = learner.agent.encoder, []
    rectified = method.config.rectified
    for b in range(len(batch.position)):
        place = batch.position[b]
        z = ops.min_max(encoder.map(batch.frames[place[:1]]))
        for k in range(1, K + 1):
            z = method.dynamics(z, batch.action[place[k - 1 : k]])  # a_{k-1} leads from k-1 to k
            y = method.predictor(last_layer(encoder, z, rectified))[0]
            true = method.target.map(batch.frames[place[k : k + 1]])
            t = last_layer(method.target, ops.min_max(true), rectified)[0]
            if batch.valid[b, k]:
                terms.append(float(2 - 2 * torch.cosine_similarity(y.detach(), t, dim=0)))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("rectified", [False, True])
def test_the_loss_equals_the_slow_loop(rectified):
    learner, method, encode = setting(rectified=rectified)
    with torch.no_grad():
        for parameter in method.target.parameters():
            parameter.mul_(1.2)  # no longer the encoder itself
    batch = make_batch(ends=((1, 0), (2, 1)))
    loss, _ = method.loss(encode, batch, rng())
    assert float(loss.detach()) == pytest.approx(slow_loss(learner, method, batch), rel=1e-4)


def test_before_the_last_relu_every_unit_of_the_last_layer_learns():
    """Push all units below zero: behind the ReLU nothing is left to learn from."""
    for rectified in (False, True):
        learner, method, encode = setting(rectified=rectified)
        with torch.no_grad():
            learner.agent.encoder.last.bias.fill_(-1e3)
            method.target.last.bias.normal_(generator=rng(4))
        method.loss(encode, make_batch(), rng())[0].backward()
        gradient = learner.agent.encoder.last.weight.grad
        assert gradient is not None
        assert bool(gradient.any()) != rectified


def test_the_default_predicts_what_the_source_does():
    config = small("spr")
    assert isinstance(config.objective, SPRConfig)
    assert not config.objective.rectified


def test_what_comes_after_an_end_inside_a_window_changes_nothing_and_what_comes_before_does():
    _, method, encode = setting()
    batch = make_batch(ends=((2, 1),))  # action 1 of window 2 ends it: steps 2 and 3 are hidden

    def loss_with(frame: int | None = None, action: int | None = None) -> float:
        frames, actions = batch.frames.clone(), batch.action.clone()
        if frame is not None:
            frames[batch.position[2, frame]] = 77
        if action is not None:
            index = batch.position[2, action]
            actions[index] = (actions[index] + 1) % 5
        changed = batch._replace(frames=frames, action=actions)
        return float(method.loss(encode, changed, rng())[0].detach())

    plain = loss_with()
    assert loss_with(frame=2) == loss_with(frame=3) == plain
    assert loss_with(action=1) == loss_with(action=2) == loss_with(action=3) == plain
    assert loss_with(frame=0) != plain
    assert loss_with(frame=1) != plain
    assert loss_with(action=0) != plain


def test_windows_of_a_rollout_are_masked_from_the_first_end_on():
    learner, method, _ = setting()
    done = torch.zeros(16, 8, dtype=torch.bool)
    done[6], done[9, 3] = True, True
    rollout = rollout_for(learner, side=SIDE, done=done)
    number = torch.arange(17 * 8, dtype=torch.uint8).view(17, 8, 1, 1, 1)
    rollout = rollout._replace(obs=number.expand(-1, -1, SIDE, SIDE, 3).contiguous())
    hidden = 0
    for batch in method.minibatches(rollout, 2, rng()):
        frame = batch.frames[:, 0, 0, 0].long()[batch.position]
        for row, valid in zip(frame.tolist(), batch.valid.tolist(), strict=True):
            assert [f - row[0] for f in row] == [0, 8, 16, 24]  # successive steps of one row
            alive = True
            for k in range(K + 1):
                assert valid[k] == alive
                alive = alive and not bool(done[row[k] // 8, row[k] % 8])
            assert valid[1]  # there is something to predict
            hidden += valid.count(False)
    assert hidden > 4


def test_the_target_follows_without_a_gradient_and_at_decay_zero_it_is_the_encoder():
    learner, method, _ = setting(target_decay=0.0)
    (batch, *_) = learner.objective_batches(rollout_for(learner, side=SIDE), 1)
    learner.objective_backward(batch, Averages())
    assert all(p.grad is None and not p.requires_grad for p in method.target.parameters())
    update(learner, rollout_for(learner, side=SIDE))
    for name, value in learner.agent.encoder.state_dict().items():
        assert torch.equal(method.target.state_dict()[name], value)


def test_augmentation_is_drawn_anew_each_time_and_off_it_is_nothing():
    _, plain, _ = setting()
    frames = make_batch().frames
    assert torch.equal(plain.augment(frames, rng()), frames)  # off: exactly nothing
    for values in ({"shift": 4}, {"intensity": 0.05}):
        _, method, _ = setting(**values)
        draws = rng()
        first = method.augment(frames, draws)
        assert not torch.equal(first, frames)
        assert not torch.equal(first, method.augment(frames, draws))


def test_the_model_stays_between_zero_and_one_and_knows_the_action():
    model = Dynamics(5, 16, rng())
    spatial = torch.rand(6, 32, 2, 2, generator=rng(1))
    one = model(spatial, torch.zeros(6, dtype=torch.int64))
    assert float(one.detach().amin()) == 0.0
    assert float(one.detach().amax()) == pytest.approx(1.0)
    assert not torch.equal(one, model(spatial, torch.ones(6, dtype=torch.int64)))
