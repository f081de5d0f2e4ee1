"""DRIML: log B at the start, a slow loop, the lags, and what a permutation may change."""

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from crosstraj.objectives.driml import DRIML, Batch, DRIMLConfig
from tests.test_methods import learner_for, rollout_for, small


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_batch(pairs: int) -> Batch:
    g = rng(2)
    frames = torch.randint(256, (2 * pairs, 16, 16, 1), generator=g, dtype=torch.uint8)
    order = torch.randperm(2 * pairs, generator=g)
    return Batch(frames, torch.randint(5, (2 * pairs,), generator=g), order[:pairs], order[pairs:])


def random_features(frames: Tensor) -> Tensor:
    """Features of about the size of an encoder's at the start, unrelated between frames."""
    g = rng(int(frames.long().sum()) % 1000)
    return torch.rand(len(frames), 256, generator=g) * 0.3


@pytest.mark.parametrize("pairs", [64, 256])
def test_with_random_features_it_starts_at_log_b(pairs):
    method = DRIML(DRIMLConfig(), 5, rng())
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
    method = DRIML(DRIMLConfig(score_bound=2.0), 5, rng())
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
    method, batch = DRIML(DRIMLConfig(), 5, rng()), random_batch(32)
    shuffle = torch.randperm(32, generator=rng(7))
    loss = float(method.loss(random_features, batch, rng())[0].detach())
    together = batch._replace(now=batch.now[shuffle], later=batch.later[shuffle])
    assert float(method.loss(random_features, together, rng())[0].detach()) == pytest.approx(loss)
    apart = batch._replace(later=batch.later[shuffle])
    assert abs(float(method.loss(random_features, apart, rng())[0].detach()) - loss) > 1e-4


def test_both_sides_learn():
    method, batch = DRIML(DRIMLConfig(), 5, rng()), random_batch(16)
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
