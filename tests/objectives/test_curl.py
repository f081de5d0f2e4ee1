"""CURL: its contrast against a slow loop, its key encoder, and frames that only it sees shifted."""

import math
from dataclasses import replace

import pytest
import torch

from crosstraj.learning.learner import Learner
from crosstraj.learning.optimiser import Averages
from crosstraj.nn import ops
from crosstraj.nn.encoders import Encode
from crosstraj.objectives.curl import CURL, Batch, CURLConfig
from crosstraj.policies.experience import experience
from tests.helpers import rng
from tests.objectives.every_method import learner_for, rollout_for, small, update


def curl(learner: Learner) -> CURL:
    assert isinstance(learner.objective, CURL)
    return learner.objective


def random_batch(count: int, side: int = 8) -> Batch:
    return Batch(torch.randint(256, (count, side, side, 3), generator=rng(3), dtype=torch.uint8))


def test_the_contrast_equals_the_slow_loop():
    learner = learner_for(small("curl"), side=8)
    method, batch, encoder = curl(learner), random_batch(6), learner.agent.encoder
    with torch.no_grad():
        method.similarity.copy_(torch.randn(128, 128, generator=rng(4)))
        for parameter in method.target.parameters():
            parameter.mul_(1.1)  # no longer the encoder itself
    _, metrics = method.loss(Encode(encoder, live=True, piece=4), batch, rng(5))
    g = rng(5)
    query = method.head(encoder(ops.random_shift(batch.frames, method.config.shift, g)))
    key = method.target_head(method.target(ops.random_shift(batch.frames, method.config.shift, g)))
    losses, right = [], 0
    query, similarity = query.detach(), method.similarity.detach()
    for i in range(6):
        scores = [0.1 * float(query[i] @ similarity @ key[j]) for j in range(6)]
        losses.append(math.log(sum(math.exp(s - scores[i]) for s in scores)))
        right += scores[i] == max(scores)
    assert float(metrics["contrast"].detach()) == pytest.approx(sum(losses) / 6, rel=1e-3)
    assert float(metrics["top_one"]) == pytest.approx(right / 6)


def test_with_identical_crops_each_frame_finds_itself_from_the_start():
    config = small("curl")
    config = replace(config, objective=CURLConfig(shift=0))
    learner = learner_for(config, side=8)
    encode = Encode(learner.agent.encoder, live=True, piece=128)
    _, metrics = learner.objective.loss(encode, random_batch(256), rng())
    assert float(metrics["top_one"]) > 0.99


@pytest.mark.parametrize("order", ["objective", "joint"])
def test_the_key_encoder_is_the_exact_moving_average_of_the_moved_encoder(order):
    learner = learner_for(small("curl", order=order))
    method, seen = curl(learner), []
    average = {k: v.clone() for k, v in method.target.state_dict().items()}
    for name, value in learner.agent.encoder.state_dict().items():
        assert torch.equal(average[name], value)  # a copy at the start
    follow = method.after_step

    def watched(encoder):
        follow(encoder)
        online = encoder.state_dict()
        for name in average:
            average[name].mul_(0.99).add_(online[name], alpha=1 - 0.99)
        seen.append({k: v.clone() for k, v in online.items()})

    method.after_step = watched
    update(learner, rollout_for(learner))
    assert len(seen) == 2
    for name, value in method.target.state_dict().items():
        assert torch.equal(value, average[name])
    # What it followed is what the step had already moved: the last is today's encoder, unless the
    # policy has moved it again since.
    if order == "joint":
        for name, value in learner.agent.encoder.state_dict().items():
            assert torch.equal(seen[-1][name], value)


def test_the_key_side_gets_no_gradient():
    learner = learner_for(small("curl"))
    (batch, *_) = learner.objective_batches(rollout_for(learner), 1)
    learner.objective_backward(batch, Averages())
    method = curl(learner)
    for part in (method.target, method.target_head):
        assert all(p.grad is None and not p.requires_grad for p in part.parameters())
    assert all(p.grad is not None for p in method.head.parameters())
    names = learner.objective_optimiser.parameters
    assert not [name for name in names if "target" in name]


def test_the_policy_is_not_touched_by_a_contrast_of_weight_zero():
    """So it sees frames as they are, and draws nothing that CURL draws."""
    with_curl = learner_for(
        replace(small("curl"), objective=replace(small("curl").objective, weight=0.0))
    )
    alone = learner_for(small("ppo", order="joint"))
    alone.agent.load_state_dict(with_curl.agent.state_dict())
    rollout = rollout_for(alone)
    steps = experience(rollout, rollout.reward, alone.config.policy)
    for learner in (with_curl, alone):
        learner.update(rollout, steps)
    for name, value in alone.agent.state_dict().items():
        assert torch.equal(value, with_curl.agent.state_dict()[name])


def test_the_sources_similarity_starts_uniform_and_nearly_blind():
    uniform = CURL(CURLConfig(similarity="uniform"), 256, 5, rng()).similarity.detach()
    assert 0 <= float(uniform.min()) < 0.01
    assert 0.99 < float(uniform.max()) < 1
    ours = CURL(CURLConfig(), 256, 5, rng()).similarity.detach()
    assert torch.equal(ours, torch.eye(128))


def test_a_minibatch_holds_one_of_every_few_frames_and_all_frames_are_used():
    learner = learner_for(small("curl"))
    rollout = rollout_for(learner)
    number = torch.arange(17 * 8, dtype=torch.uint8).view(17, 8, 1, 1, 1)
    rollout = rollout._replace(obs=number.expand(-1, -1, 4, 4, 3).contiguous())
    frames = [b.frames[:, 0, 0, 0].tolist() for b in learner.objective_batches(rollout, 1)]
    assert sorted(frames[0] + frames[1]) == list(range(128))
    for batch in frames:
        blocks = sorted((f // 8 // 2, f % 8) for f in batch)  # two steps make a block here
        assert blocks == sorted((block, env) for block in range(8) for env in range(8))
