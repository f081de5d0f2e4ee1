"""Proto-RL: its loss beside a slow loop, its target, its reward, and an encoder frozen for good."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from crosstraj import loop
from crosstraj.config.presets import plain, preset
from crosstraj.health.complaints import empty_codes
from crosstraj.learning import watch as health
from crosstraj.learning.learner import Learner
from crosstraj.nn import ops
from crosstraj.nn.encoders import Encode
from crosstraj.objectives.phases import Phase
from crosstraj.objectives.proto import Batch, Proto, ProtoConfig
from tests.helpers import rng
from tests.objectives.every_method import bits, learner_for, moved, rollout_for, small
from tests.objectives.phased import training_with


def learner_with(objective: ProtoConfig, **changes: Any) -> Learner:
    return learner_for(replace(small("proto", **changes), objective=objective))


def proto_of(learner: Learner) -> Proto:
    assert isinstance(learner.objective, Proto)
    return learner.objective


def live(learner: Learner) -> Encode:
    return Encode(learner.agent.encoder, live=True, piece=128)


def batch_of(pairs: int = 24, side: int = 4) -> Batch:
    shape = (2 * pairs, side, side, 3)
    return of_frames(torch.randint(256, shape, generator=rng(7), dtype=torch.uint8))


def of_frames(frames: torch.Tensor) -> Batch:
    step = torch.arange(len(frames) // 2)
    return Batch(frames, step % 3, step)


# --- The loss


def test_the_loss_is_the_cross_entropy_written_out():
    learner = learner_with(ProtoConfig(prototypes=6, width=8, hidden=12, shift=0))
    proto, batch = proto_of(learner), batch_of()
    with torch.no_grad():  # a target that is not the network itself
        for parameter in [*proto.target_encoder.parameters(), *proto.target_projector.parameters()]:
            parameter.mul_(1.3)
        target = proto.target_projector(proto.target_encoder(batch.frames[24:]))
        online = proto.predictor(proto.projector(learner.agent.encoder(batch.frames[:24])))
        # Plain Sinkhorn on probabilities: from softmax rows, three times columns and rows.
        code = torch.softmax(
            target / target.norm(dim=1, keepdim=True) @ proto.prototypes.T / 0.1, 1
        )
        for _ in range(3):
            code = code / code.sum(0, keepdim=True)
            code = code / code.sum(1, keepdim=True)
        total = 0.0
        for row, guess in zip(code, online, strict=True):
            scores = [float(guess @ p) / float(guess.norm()) / 0.1 for p in proto.prototypes]
            log_sum = math.log(sum(math.exp(score) for score in scores))
            total -= sum(float(q) * (s - log_sum) for q, s in zip(row, scores, strict=True))
    loss, metrics = proto.loss(live(learner), batch, rng())
    assert float(loss.detach()) == pytest.approx(total / 24, rel=1e-4)
    assert float(metrics["code_entropy"]) <= math.log(6) + 1e-5


def test_the_order_within_a_batch_does_not_matter():
    learner = learner_with(ProtoConfig(prototypes=6, shift=0))
    batch, order = batch_of(), torch.randperm(24, generator=rng(1))
    losses = [
        float(proto_of(learner).loss(live(learner), each, rng())[0].detach())
        for each in (batch, of_frames(batch.frames[torch.cat([order, order + 24])]))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_gradients_reach_the_network_and_never_the_target():
    learner = learner_for(small("proto"))
    proto = proto_of(learner)
    loss, _ = proto.loss(live(learner), batch_of(), rng())
    loss.backward()
    for name, parameter in proto.named_parameters():
        target = name.startswith("target_")
        assert parameter.requires_grad != target
        assert (parameter.grad is None) == target
    assert all(p.grad is not None for p in learner.agent.encoder.parameters())


def test_the_two_frames_of_a_pair_are_shifted_each_in_its_own_way():
    """Equal pairs of equal frames: only the shifts tell what the two networks see."""
    learner = learner_with(ProtoConfig(prototypes=6, shift=2))
    proto, seen = proto_of(learner), {}
    learner.agent.encoder.register_forward_pre_hook(lambda _, x: seen.update(now=x[0]))
    proto.target_encoder.register_forward_pre_hook(lambda _, x: seen.update(following=x[0]))
    frame = torch.randint(256, (1, 4, 4, 3), generator=rng(3), dtype=torch.uint8)
    proto.loss(live(learner), of_frames(frame.expand(40, -1, -1, -1)), rng())
    assert len(seen["now"]) == len(seen["following"]) == 20
    differ = (seen["now"] != seen["following"]).flatten(1).any(1)
    assert 10 < int(differ.sum()) <= 20


def test_pairs_are_a_frame_and_the_next_of_the_same_episode_each_once():
    learner = learner_for(small("proto"))
    rollout = rollout_for(learner)
    steps, envs = rollout.done.shape
    number = torch.arange((steps + 1) * envs).view(steps + 1, envs).to(torch.uint8)
    rollout = rollout._replace(
        obs=number[:, :, None, None, None].expand_as(rollout.obs).contiguous()
    )
    pairs = []
    for batch in learner.objective_batches(rollout, 1):
        first, second = (frames.tolist() for frames in batch.frames[:, 0, 0, 0].chunk(2))
        pairs += list(zip(first, second, strict=True))
    expected = [
        (t * envs + n, (t + 1) * envs + n)
        for t in range(steps - 1)
        for n in range(envs)
        if not rollout.done[t, n]
    ]
    assert sorted(pairs) == expected
    assert pairs != expected


def test_frames_that_last_spread_over_the_prototypes():
    """Eight pictures that stay the same but for noise: after a first shrinking, codes sharpen."""
    learner = learner_with(
        ProtoConfig(prototypes=10, width=16, hidden=32, shift=0),
        encoder_grad="ssl",
        order="objective",
    )
    rollout, g = rollout_for(learner, side=8), rng(3)
    pictures = torch.randint(256, (1, 8, 8, 8, 3), generator=g)
    noise = torch.randint(-20, 21, rollout.obs.shape, generator=g)
    rollout = rollout._replace(obs=(pictures + noise).clamp(0, 255).to(torch.uint8))
    seen = [learner.update_objective(rollout) for _ in range(220)]
    dip = max(figures["code_entropy"] for figures in seen)
    assert seen[-1]["code_entropy"] < dip - 0.03  # measured: .05
    assert seen[-1]["objective_loss"] - seen[-1]["code_entropy"] < 0.02  # and are foretold
    with torch.no_grad():
        views = proto_of(learner).target_projector(learner.agent.encoder(rollout.frames()))
    picture = torch.arange(len(views)) % 8
    alike = ops.unit(views) @ ops.unit(views).T
    same = picture[:, None] == picture
    assert float(alike[same].mean()) > 0.5 + 0.5 * float(alike[~same].mean())


# --- Its health


def figures_of(features: torch.Tensor, prototypes: int = 64) -> dict[str, float]:
    """What a loss records when the target sees these features, whatever the frames."""

    class Told(torch.nn.Module):
        def forward(self, frames: torch.Tensor) -> torch.Tensor:
            return features.index_select(0, frames[:, 0, 0, 0].long())

    proto = Proto(ProtoConfig(prototypes=prototypes, width=32, shift=0), 256, 5, rng())
    proto.attach(Told())
    count = len(features)
    frames = torch.arange(count, dtype=torch.uint8).repeat(2)[:, None, None, None]
    batch = of_frames(frames.expand(-1, 4, 4, 3).contiguous())
    _, metrics = proto.loss(Encode(Told(), live=True, piece=64), batch, rng())
    return {name: float(figure) for name, figure in metrics.items()}


def test_prototypes_that_hold_nothing_are_called_so_in_words_and_live_ones_are_not():
    watch = health.Watch(plain("proto"))
    config = replace(watch.config, objective=ProtoConfig(prototypes=64))
    apart = torch.randn(128, 256, generator=rng(1))
    alive = figures_of(apart)
    assert alive["view_rank"] > 20
    assert alive["frame_gain"] != 0
    assert health.complaints(alive, config) == {}
    one_way = figures_of(torch.randn(1, 256, generator=rng(2)) + 0.02 * apart)
    assert one_way["view_cosine"] > 0.99
    assert abs(one_way["frame_gain"]) < abs(alive["frame_gain"])
    found = health.complaints(one_way, config)
    assert found.keys() == {"collapse", "empty codes"}
    assert "views have a mean cosine of 1.000" in found["collapse"]
    assert (
        f"of {math.log(64):.3f} (random vectors: {one_way['code_entropy_random']:.3f})"
        in (found["empty codes"])
    )


def test_empty_codes_are_those_that_say_less_than_a_tenth_of_what_random_vectors_say():
    most = math.log(512)
    figures = {"code_entropy_random": most - 0.4, "view_cosine": 0.5, "view_rank": 3.0}
    assert empty_codes(figures | {"code_entropy": most - 0.041}, 512) is None
    sentence = empty_codes(figures | {"code_entropy": most - 0.039}, 512)
    assert sentence is not None
    assert "the codes say next to nothing: their entropy is 6.199 of 6.238" in sentence
    assert "effective rank of 3.0" in sentence
    assert empty_codes({}, 512) is None  # a rollout without a minibatch


def test_its_health_is_measured_once_per_rollout():
    learner = learner_for(small("proto"))
    proto, batch = proto_of(learner), batch_of()
    proto.gather(rng())
    with_health = ["view_rank" in proto.loss(live(learner), batch, rng())[1] for _ in range(2)]
    proto.gather(rng())
    with_health.append("view_rank" in proto.loss(live(learner), batch, rng())[1])
    assert with_health == [True, False, True]


# --- After a step


def test_the_target_follows_by_a_twentieth_and_prototypes_stay_on_the_sphere():
    learner = learner_for(small("proto", order="objective"))
    proto = proto_of(learner)
    pairs = [
        (proto.target_encoder, learner.agent.encoder),
        (proto.target_projector, proto.projector),
    ]
    for target, online in pairs:  # it starts as a copy
        assert all(
            torch.equal(a, b) for a, b in zip(target.parameters(), online.parameters(), strict=True)
        )
    before = [[p.detach().clone() for p in target.parameters()] for target, _ in pairs]
    (batch, *_) = learner.objective_batches(rollout_for(learner), 1)
    loss, _ = proto.loss(live(learner), batch, rng())
    loss.backward()
    learner.objective_optimiser.step()
    with torch.no_grad():
        proto.prototypes.mul_(3.0)
    proto.after_step(learner.agent.encoder)
    for (target, online), old in zip(pairs, before, strict=True):
        for a, b, was in zip(target.parameters(), online.parameters(), old, strict=True):
            torch.testing.assert_close(a, 0.95 * was + 0.05 * b, atol=1e-7, rtol=1e-6)
    torch.testing.assert_close(proto.prototypes.norm(dim=1), torch.ones(len(proto.prototypes)))


# --- The intrinsic reward


def test_the_reward_is_the_distance_to_the_third_nearest_of_the_queue():
    learner = learner_with(ProtoConfig(prototypes=5, width=8, queue=20))
    proto, rollout = proto_of(learner), rollout_for(learner)
    with torch.no_grad():
        proto.queue.copy_(ops.unit(torch.randn(20, 8, generator=rng(1))))
    before = proto.queue.clone()
    reward = proto.reward(rollout, rng(2))
    # First in, first out: five new frames at the end, one for each prototype.
    assert torch.equal(proto.queue[:15], before[5:])
    with torch.no_grad():
        seen = ops.unit(proto.projector(rollout.features[1:]))
    flat = seen.flatten(0, 1)
    for row in proto.queue[15:]:
        assert (flat == row).all(1).any()
    for t, n in ((0, 0), (3, 2), (15, 7), (9, 4)):
        distances = sorted(float((seen[t, n] - row).norm()) for row in proto.queue)
        expected = 0.0 if rollout.done[t, n] else distances[2]
        assert float(reward[t, n]) == pytest.approx(expected, abs=2e-3)
    assert rollout.done.any()
    assert (reward[rollout.done] == 0).all()
    assert (reward[~rollout.done] > 0).any()


def test_an_empty_queue_pays_one():
    """Zeros are at distance 1 of any unit vector; two prototypes have put in two real rows."""
    learner = learner_with(ProtoConfig(prototypes=2, width=8, queue=64))
    rollout = rollout_for(learner, done=torch.zeros(16, 8, dtype=torch.bool))
    reward = proto_of(learner).reward(rollout, rng())
    torch.testing.assert_close(reward, torch.ones_like(reward), atol=1e-3, rtol=0)


def test_each_prototype_draws_frames_like_itself_more_often():
    """Two kinds of frames: softmax of cosines 1 and -1 gives e^2 : 1 in favour of the like."""
    learner = learner_with(ProtoConfig(prototypes=2, width=2, queue=2, neighbours=1))
    proto = proto_of(learner)
    rollout = rollout_for(learner)
    with torch.no_grad():
        proto.projector.weight.zero_()
        proto.projector.weight[:, :2] = torch.eye(2)
        proto.prototypes.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    features = torch.zeros_like(rollout.features)
    features[:, ::2, 0], features[:, 1::2, 0] = 1.0, -1.0
    rollout, g, like = rollout._replace(features=features), rng(5), 0
    for _ in range(500):
        proto.reward(rollout, g)
        like += int(proto.queue[0, 0] > 0) + int(proto.queue[1, 0] < 0)
    chance = math.e / (math.e + 1 / math.e)
    assert abs(like / 1000 - chance) < 4 * math.sqrt(chance * (1 - chance) / 1000)


def test_the_reward_is_asked_for_only_where_a_phase_weighs_it():
    plain, curious = training_with("proto"), training_with("proto", Phase(intrinsic=0.2))
    for training in (plain, curious):
        loop.learn(training)
    assert not proto_of(plain.learner).queue.any()
    assert proto_of(curious.learner).queue.any()
    assert curious.intrinsic_normaliser.count > 1 > plain.intrinsic_normaliser.count


# --- Two phases


@pytest.mark.parametrize("grad", ["both", "ssl"])
def test_the_encoder_is_trained_in_the_first_half_and_frozen_to_the_last_bit_in_the_second(grad):
    training = training_with("proto", encoder_grad=grad)
    before = bits(training.learner)
    for _ in range(2):
        assert loop.learn(training)["phase"] == 1
    middle = bits(training.learner)
    assert moved(before, middle) == {"encoder", "policy", "value", "objective"}
    for _ in range(2):
        assert loop.learn(training)["phase"] == 2
    assert moved(middle, bits(training.learner)) == {"policy", "value"}


@pytest.mark.parametrize("grad", ["both", "ssl"])
def test_in_the_second_half_the_policy_may_train_the_encoder_on_and_the_objective_rests(grad):
    first, second = plain("proto").phases
    training = training_with("proto", first, replace(second, encoder_grad="rl"), encoder_grad=grad)
    for _ in range(2):
        assert loop.learn(training)["phase"] == 1
    middle = bits(training.learner)
    for _ in range(2):
        assert loop.learn(training)["phase"] == 2
    assert moved(middle, bits(training.learner)) == {"encoder", "policy", "value"}


def test_the_rates_are_the_papers():
    config = plain("proto")
    assert config.representation.learning_rate == config.policy.learning_rate == 5e-4
    assert config.representation.encoder_rate == 1


def test_the_halves_are_those_of_the_paper():
    first, second = plain("proto").phases
    assert (first.share, second.share) == (0.5, 0.5)
    assert (second.encoder_grad, second.objective_weight, second.reset) == ("none", 0.0, ())
    assert all((phase.extrinsic, phase.intrinsic) == (1.0, 0.0) for phase in (first, second))
    assert preset("proto", "paper").frames == 16_000_000


# --- For an analysis


def test_an_analysis_clusters_single_frames_by_the_network_itself():
    proto = Proto(ProtoConfig(prototypes=6, width=8), 256, 5, rng())
    how, features = proto.clustering(), torch.randn(5, 1, 256, generator=rng(1))
    assert (how.keypoints, how.temperature, how.rounds) == (1, 0.1, 3)
    v = how.embed(features, torch.zeros(5, 1, dtype=torch.int64))
    torch.testing.assert_close(v, features[:, 0] @ proto.projector.weight.T + proto.projector.bias)
    assert how.prototypes is proto.prototypes
