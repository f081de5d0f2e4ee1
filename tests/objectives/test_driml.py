"""DRIML: log B at the start, slow loops, the lags, and which pairs are negatives."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj.data.episode_borders import fragments
from crosstraj.data.rollout import Rollout
from crosstraj.data.within_episodes import stretches
from crosstraj.learning.learner import Learner
from crosstraj.objectives.driml import DRIML, Batch, DRIMLConfig, near_positive
from tests.helpers import rng
from tests.objectives.every_method import learner_for, random_done, rollout_for, small


def random_batch(pairs: int) -> Batch:
    g = rng(2)
    frames = torch.randint(256, (2 * pairs, 16, 16, 1), generator=g, dtype=torch.uint8)
    order = torch.randperm(2 * pairs, generator=g)
    action = torch.randint(5, (2 * pairs,), generator=g)
    moment = torch.arange(pairs) * 100  # of episodes of their own
    return Batch(frames, action, order[:pairs], order[pairs:], moment)


def random_features(frames: Tensor) -> Tensor:
    """Features of about the size of an encoder's at the start, unrelated between frames."""
    g = rng(int(frames.long().sum()) % 1000)
    return torch.rand(len(frames), 256, generator=g) * 0.3


@pytest.mark.parametrize("pairs", [64, 256])
def test_with_random_features_it_starts_at_log_b(pairs):
    method = DRIML(DRIMLConfig(), 256, 5, rng())
    loss, metrics = method.loss(random_features, random_batch(pairs), rng())
    assert float(loss.detach()) == pytest.approx(math.log(pairs), abs=0.1)
    assert float(metrics["contrast_blind"]) == pytest.approx(math.log(pairs))
    assert float(metrics["top_one"]) < 0.2


def test_a_fresh_agent_starts_at_log_b_too():
    learner = learner_for(small("driml"), side=16)
    (batch, *_) = learner.objective_batches(rollout_for(learner, side=16), 1)
    loss, metrics = learner.objective.loss(learner.agent.encoder, batch, rng())
    assert float(loss.detach()) == pytest.approx(float(metrics["contrast_blind"]), abs=0.2)


def test_the_contrast_equals_the_slow_loop():
    method = DRIML(DRIMLConfig(score_bound=2.0), 256, 5, rng())
    batch = random_batch(7)
    features = random_features(batch.frames)
    losses = []
    for i in range(7):
        code = method.action_code(torch.eye(5)[batch.action[batch.now[i]]])
        now = method.psi_now(torch.cat([features[batch.now[i]], code]))
        scores = []
        for j in range(7):
            later = method.psi_later(features[batch.later[j]])
            score = float((now @ later).detach()) / math.sqrt(512)
            scores.append(2 * math.tanh(score / 2))
        losses.append(math.log(sum(math.exp(s - scores[i]) for s in scores)))
    loss, _ = method.loss(random_features, batch, rng())
    assert float(loss.detach()) == pytest.approx(sum(losses) / 7, rel=1e-4)


def test_the_order_of_the_pairs_does_not_matter_and_who_follows_whom_does():
    method, batch = DRIML(DRIMLConfig(), 256, 5, rng()), random_batch(32)
    shuffle = torch.randperm(32, generator=rng(7))
    near = torch.arange(32) // 4 * 100  # four pairs each that are no negatives of one another
    batch = batch._replace(moment=near)
    loss = float(method.loss(random_features, batch, rng())[0].detach())
    together = Batch(*batch[:2], *(field[shuffle] for field in batch[2:]))
    assert float(method.loss(random_features, together, rng())[0].detach()) == pytest.approx(loss)
    apart = batch._replace(later=batch.later[shuffle], moment=batch.moment[shuffle])
    assert abs(float(method.loss(random_features, apart, rng())[0].detach()) - loss) > 1e-4


def test_both_sides_learn():
    method, batch = DRIML(DRIMLConfig(), 256, 5, rng()), random_batch(16)
    features = random_features(batch.frames).requires_grad_()
    method.loss(lambda _: features, batch, rng())[0].backward()
    assert features.grad is not None
    assert features.grad[batch.now].any(1).all()
    assert features.grad[batch.later].any(1).all()


def test_the_lag_is_one_or_two_about_equally_often_and_reaches_the_frame_that_many_steps_on():
    learner = learner_for(small("driml"))
    rollout = rollout_for(learner, done=torch.zeros(16, 8, dtype=torch.bool))
    number = torch.arange(17 * 8, dtype=torch.uint8).view(17, 8, 1, 1, 1)
    rollout = rollout._replace(obs=number.expand(-1, -1, 4, 4, 3).contiguous())
    lags: Counter[int] = Counter()
    for batch in learner.objective_batches(rollout, 20):
        frame = batch.frames[:, 0, 0, 0].long()
        now, later = frame[batch.now], frame[batch.later]
        assert torch.equal(now % 8, later % 8)  # the same environment
        lags.update(((later - now) // 8).tolist())
    assert set(lags) == {1, 2}
    assert 0.45 < lags[1] / lags.total() < 0.55


# --- Which pairs are negatives


def marked_rollout(learner: Learner, done: Tensor) -> Rollout:
    """The frame of step t in row n shows the number 8 t + n."""
    rollout = rollout_for(learner, done=done)
    number = torch.arange(17 * 8, dtype=torch.uint8).view(17, 8, 1, 1, 1)
    return rollout._replace(obs=number.expand(-1, -1, 4, 4, 3).contiguous())


def batches_of(learner: Learner, rollout: Rollout, *, shared: bool) -> list[Batch]:
    if not shared:
        return list(learner.objective_batches(rollout, 3))
    dealt = [m for seed in range(3) for m in stretches(rollout.done, 2, 8, rng(seed))]
    found = [learner.objective.batch(rollout, minibatch, rng(9)) for minibatch in dealt]
    return [batch for batch in found if batch is not None]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("apart", [0, 4])
def test_no_negative_is_the_positive_or_within_four_steps_of_it_in_its_episode(apart, shared):
    config = small("driml")
    learner = learner_for(replace(config, objective=replace(config.objective, apart=apart)))
    rollout = marked_rollout(learner, random_done())
    episode = fragments(rollout.done)
    equal = 0
    for batch in batches_of(learner, rollout, shared=shared):
        shown = batch.frames[:, 0, 0, 0].long()[batch.later].tolist()
        near = near_positive(batch.moment, apart)
        for i, mine in enumerate(shown):
            for j, other in enumerate(shown):
                steps = abs(mine // 8 - other // 8)
                same = episode[mine // 8, mine % 8] == episode[other // 8, other % 8]
                assert bool(near[i, j]) == (i != j and bool(same) and steps <= apart)
                equal += i != j and mine == other
    assert equal > 10  # there is something to leave out


def test_the_contrast_is_over_what_is_left_and_a_blind_model_stands_at_the_log_of_its_count():
    method = DRIML(DRIMLConfig(), 256, 5, rng())
    batch = random_batch(6)._replace(moment=torch.tensor([0, 4, 5, 100, 100, 300]))
    left = [{0, 2, 3, 4, 5}, {1, 3, 4, 5}, {0, 2, 3, 4, 5}, {0, 1, 2, 3, 5}, {0, 1, 2, 4, 5}]
    left.append({0, 1, 2, 3, 4, 5})
    features = random_features(batch.frames)
    code = method.action_code(torch.eye(5)[batch.action[batch.now]])
    now = method.psi_now(torch.cat([features[batch.now], code], dim=1))
    scores = now @ method.psi_later(features[batch.later]).T / math.sqrt(512)
    scores = (20 * torch.tanh(scores / 20)).detach()
    losses = [
        math.log(sum(math.exp(scores[i, j] - scores[i, i]) for j in kept))
        for i, kept in enumerate(left)
    ]
    loss, metrics = method.loss(random_features, batch, rng())
    assert float(loss.detach()) == pytest.approx(sum(losses) / 6, rel=1e-5)
    blind = sum(math.log(len(kept)) for kept in left) / 6
    assert float(metrics["contrast_blind"]) == pytest.approx(blind)


def test_a_perfect_score_attains_nearly_zero_where_equal_targets_would_leave_a_floor():
    """psi of a frame is the axis of its number, and 20 where the anchor's target is that frame.

    Half of the anchors have their target twice: telling it from itself costs them ln 2.
    """

    class Known(torch.nn.Module):
        def __init__(self, number: Tensor) -> None:
            super().__init__()
            self.number = number

        def forward(self, _: Tensor) -> Tensor:
            return 1000.0 * F.one_hot(self.number, 512).float()

    number = torch.tensor([0, 0, 40, 80, 120, 120, 160, 200])  # pairs' targets: two are twice there
    batch = random_batch(8)._replace(moment=number)
    method = DRIML(DRIMLConfig(), 256, 5, rng())
    method.psi_now, method.psi_later = Known(number), Known(number)
    loss, metrics = method.loss(random_features, batch, rng())
    assert float(loss) < 1e-6
    assert float(metrics["top_one"]) == 1.0

    everything = batch._replace(moment=torch.arange(8) * 100)  # were none of them left out
    floor, metrics = method.loss(random_features, everything, rng())
    assert float(floor) == pytest.approx(0.5 * math.log(2), abs=1e-6)
    assert float(metrics["top_one"]) == 0.75
