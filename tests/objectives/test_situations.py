"""Situations: pairs, whose gradient flows, what it learns and not, and one pass with the policy."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crosstraj.config.presets import plain, with_policy
from crosstraj.config.values import Config
from crosstraj.data.within_episodes import Stretches, stretches
from crosstraj.errors import BadInput
from crosstraj.learning.learner import Learner
from crosstraj.learning.optimiser import Averages
from crosstraj.nn import ops
from crosstraj.nn.sinkhorn import sinkhorn
from crosstraj.objectives.situations import LEAST, SituationsConfig
from crosstraj.policies.experience import experience
from tests.helpers import bits, learner_for, moved, ragged_done, rng, rollout_for, slow_fragments
from tests.objectives.stretch_pairs import ACTIONS, batch_of, every_pair, objective, process


def small(**changes: Any) -> Config:
    config = plain("situations")
    return replace(
        config,
        **{
            "encoder": "laptop",
            "envs": 4,
            "rollout_steps": 64,
            "objective": SituationsConfig(clusters=4, gap=2),
            "policy": replace(config.policy, epochs=2, minibatches=2),
            "representation": replace(config.representation, minibatches=2),
        }
        | changes,
    )


def synthetic(done: Tensor) -> Any:
    """A rollout of which only the fields exist that a batch is made of."""
    learner, config = learner_for(small()), small()
    rollout = rollout_for(learner, replace(config, rollout_steps=len(done), envs=done.shape[1]))
    return rollout._replace(done=done)


# --- Pairs


@pytest.mark.parametrize("gap", [1, 2, 4, 5])
def test_pairs_lie_in_one_stretch_of_eight_steps_at_least_and_have_every_gap(gap):
    done = ragged_done(3, 64, 6)
    rollout, method = synthetic(done), objective(gap=gap)
    owner = {f: number for number, frames in enumerate(slow_fragments(done)) for f in frames}
    gaps: set[int] = set()
    for minibatch in stretches(done, 4, 16, rng(1)):
        batch = method.batch(rollout, minibatch, rng(2))
        assert batch is not None
        for first, k in zip(batch.earlier.tolist(), batch.gap.tolist(), strict=True):
            inside = list(range(first, first + k + 1))
            assert len({int(minibatch.stretch[i]) for i in inside}) == 1
            length = int((minibatch.stretch == minibatch.stretch[first]).sum())
            assert length >= LEAST
            a, b = int(minibatch.frame[first]), int(minibatch.frame[first + k])
            assert b - a == k * done.shape[1]  # k steps later in the same environment
            assert owner[a] == owner[b]
            gaps.add(k)
    assert gaps == {1, 2, 4} & set(range(gap + 1))


def test_a_batch_has_the_frames_actions_places_times_and_levels_of_its_steps():
    done = ragged_done(5, 64, 6)
    rollout = synthetic(done)
    level = torch.arange(64 * 6).view(64, 6) % 7
    level[:, 0] = -1  # no levels: the episode stands in for it
    rollout = rollout._replace(level=level)
    minibatch = next(stretches(done, 4, 16, rng(1)))
    batch = objective().batch(rollout, minibatch, rng(2))
    assert batch is not None
    fragment_of = {f: k for k, frames in enumerate(slow_fragments(done)) for f in frames}
    place = 0
    for i, frame in enumerate(minibatch.frame.tolist()):
        t, n = divmod(frame, 6)
        began = max([s + 1 for s in range(t) if done[s, n]], default=0)
        place = place + 1 if i and minibatch.stretch[i] == minibatch.stretch[i - 1] else 0
        assert batch.time[i] == t - began
        assert batch.place[i] == place
        assert batch.action[i] == rollout.action[t, n]
        assert torch.equal(batch.frames[i], rollout.obs[t, n])
        assert batch.level[i] == (level[t, n] if n else -1 - fragment_of[frame])


def test_the_actions_between_are_those_from_the_earlier_frame_on_and_then_none():
    batch = batch_of(torch.zeros(10, dtype=torch.int64), torch.tensor([2, 7]), torch.tensor([1, 2]))
    batch = batch._replace(action=torch.arange(10) % ACTIONS)
    assert objective(gap=4).between(batch).tolist() == [[2, -1, -1, -1], [1, 2, -1, -1]]


def test_episodes_that_are_all_too_short_give_no_batch_and_no_error():
    done = torch.ones(64, 4, dtype=torch.bool)
    rollout = synthetic(done)
    minibatch = next(stretches(done, 2, 16, rng()))
    assert objective().batch(rollout, minibatch, rng()) is None
    assert list(objective().minibatches(rollout, 2, rng())) == []


# --- The loss


def test_the_loss_equals_the_slow_loop():
    method, batch = objective(), every_pair(4, 9, gap=2)
    features = torch.randn(36, 256, generator=rng(1))
    c = method.config
    total, metrics = method.loss_of(features, batch, rng(2))
    within = features.clone()
    for stretch in range(4):
        within[batch.stretch == stretch] -= features[batch.stretch == stretch].mean(0)
    subject = method.subject(within, batch)
    v = method.psi(subject)
    code = sinkhorn(ops.unit(v) @ method.prototypes.T / c.code_temperature, c.rounds)
    source = within[batch.earlier]
    w = method.theta(method.psi(method.film(source, method.between(batch))))
    code, w = code.detach(), w.detach()
    cluster = 0.0
    for row in range(len(batch.earlier)):
        scores = ops.unit(w)[row] @ method.prototypes.detach().T / c.temperature
        cluster -= float((code[row] * scores.log_softmax(0)).sum()) / len(batch.earlier)
    inverse = []  # of every step whose next frame is in its stretch, in a pair or not
    for step in range(35):
        if batch.stretch[step] == batch.stretch[step + 1]:
            told = method.inverse(features[step + 1] - features[step]).log_softmax(0)
            inverse.append(-told[batch.action[step]].item())
    assert len(inverse) == 4 * 8
    assert metrics["cluster"].item() == pytest.approx(cluster, rel=1e-4)
    assert metrics["inverse"].item() == pytest.approx(sum(inverse) / 32, rel=1e-4)
    expected = cluster + c.inverse_weight * sum(inverse) / 32
    assert total.item() == pytest.approx(expected, rel=1e-4)


def test_no_gradient_flows_through_codes():
    """Uncentred and without the inverse loss, only the earlier frames of pairs are learnt from."""
    method = objective(centred=False, inverse_weight=0.0)
    batch = every_pair(4, 9)._replace(
        earlier=torch.tensor([0, 2, 10, 20]), gap=torch.tensor([1, 1, 1, 1])
    )
    features = torch.randn(36, 256, generator=rng(1)).requires_grad_()
    method.loss_of(features, batch, rng(2))[0].backward()
    assert features.grad is not None
    touched = features.grad.abs().sum(1).nonzero().squeeze(1).tolist()
    assert touched == [0, 2, 10, 20]


def test_running_statistics_are_those_of_the_codes_alone():
    method, batch = objective(), every_pair(8, 9)
    features = torch.randn(72, 256, generator=rng(1))
    method.loss_of(features, batch, rng(2))
    layer, norm = method.psi[0], method.psi[1]
    within = method.without_stretch(features, batch.stretch)
    seen = layer(method.subject(within, batch))
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.num_batches_tracked == 1
    torch.testing.assert_close(norm.running_mean, 0.1 * seen.mean(0), atol=1e-5, rtol=1e-4)


def test_mined_neighbours_come_from_other_levels_and_v_has_its_cosine():
    method, batch = objective(predict_weight=1.0), every_pair(6, 9)
    seen: dict[str, Tensor] = {}
    mine = ops.mine

    def watched(prototypes, cluster, level, anchor, *rest):
        mined, valid = mine(prototypes, cluster, level, anchor, *rest)
        seen["own"], seen["theirs"] = level[anchor][:, None].expand_as(mined), level[mined]
        seen["valid"] = valid
        return mined, valid

    ops.mine = watched
    try:
        features = torch.randn(54, 256, generator=rng(1))
        metrics = method.loss_of(features, batch, rng(2))[1]
    finally:
        ops.mine = mine
    assert seen["valid"].any()
    assert (seen["own"] != seen["theirs"])[seen["valid"]].all()
    assert -1 <= metrics["predict_cosine"] <= 1


# --- What it learns


def learnt(*, moves: bool, **changes: Any) -> dict[str, float]:
    method = objective(gap=1, inverse_weight=0.0, **changes)
    adam = torch.optim.Adam(method.parameters(), 2e-3)
    for step in range(120):
        method.gather(rng())
        loss, metrics = method.loss_of(*process(step, moves=moves), rng(step))
        adam.zero_grad()
        loss.backward()
        adam.step()
        method.after_step(nn.Identity())
    figures = metrics | method.figures()
    return {name: float(figure) for name, figure in figures.items()}


def test_where_actions_move_the_state_they_are_worth_something_and_codes_are_not_the_level():
    figures = learnt(moves=True)
    assert figures["action_gain"] > 0.3
    assert figures["knowing_all"] < figures["knowing_before"] - 0.3  # beats copying
    assert figures["knowing_time"] > math.log(8) - 0.05
    assert figures["codes_about_level"] < 0.2
    assert figures["levels_per_cluster"] > 0.8


def test_where_actions_do_nothing_they_are_worth_nothing():
    figures = learnt(moves=False)
    assert abs(figures["action_gain"]) < 0.05
    assert figures["frame_gain"] > 0.05  # the state is slow: it can be foretold


def test_without_centring_the_codes_are_about_the_level():
    figures = learnt(moves=True, centred=False)
    assert figures["codes_about_level"] > 0.6
    assert figures["levels_per_cluster"] < 0.75


# --- One pass with the policy


@pytest.mark.parametrize("grad", ["none", "rl", "ssl", "both"])
def test_one_pass_moves_exactly_what_it_should(grad):
    config = small(encoder_grad=grad)
    learner = learner_for(config)
    assert learner.one_pass
    rollout = rollout_for(learner, config)
    encoder = set() if grad == "none" else {"encoder"}
    for _ in range(2):
        before = bits(learner)
        learner.update(rollout, experience(rollout, rollout.reward, config.policy))
        assert moved(before, bits(learner)) == {"policy", "value", "objective"} | encoder


@pytest.mark.parametrize("most", [0.0, 0.01])
@pytest.mark.parametrize("gain", [None, "measured"])
def test_the_gradient_of_one_pass_is_the_policys_and_the_objectives_bounded(gain, most):
    """Against two encodings of the same frames, one for each loss."""
    config = small()
    config = replace(config, representation=replace(config.representation, max_ratio=most))
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    minibatch = next(learner.policy_batches(rollout.done))
    batch = learner.objective.batch(rollout, minibatch, learner.streams.objective)
    assert batch is not None
    chosen, draws = learner.policy.chosen(steps, minibatch.frame), rng(3).get_state()

    def gradients(*losses: str) -> dict[str, Tensor]:
        learner.policy_optimiser.zero()
        learner.streams.objective.set_state(draws)
        features = learner.agent.encoder(batch.frames)
        if "policy" in losses:
            learner.policy.loss(features, chosen)[0].backward(retain_graph=True)
        if "objective" in losses:
            learner.objective.loss_of(features, batch, learner.streams.objective)[0].backward()
        return {name: p.grad.clone() for name, p in learner.encoder.items() if p.grad is not None}

    def length(parts: dict[str, Tensor]) -> float:
        return math.sqrt(sum(float(part.square().sum()) for part in parts.values()))

    policy, own = gradients("policy"), gradients("objective")
    ratio = length(own) / length(policy)
    learner.policy_optimiser.zero()
    learner.streams.objective.set_state(draws)
    measured = None
    if gain:  # as the first minibatch of a rollout has measured it
        shared = learner.shared_backward(batch.frames, chosen, batch, None, Averages())[1]
        measured = shared.gain
        learner.policy_optimiser.zero()
        learner.streams.objective.set_state(draws)
    shared = learner.shared_backward(batch.frames, chosen, batch, measured, Averages())[1]
    assert bool(shared.own) == (gain is None)
    scale = min(1.0, most / ratio) if most else 1.0
    assert (scale < 1) == bool(most)
    for name, gradient in policy.items():
        found = learner.encoder[name].grad
        assert found is not None
        torch.testing.assert_close(found, gradient + scale * own[name], atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("policy", ["ppo", "daac"])
def test_with_weight_zero_it_equals_its_policy_on_the_same_minibatches(policy):
    config = small()
    if policy == "daac":
        daac = plain("daac").policy
        config = replace(config, policy=replace(daac, minibatches=2, stretch=32))
    config = replace(config, representation=replace(config.representation, weight=0.0))
    alone = replace(
        plain(policy),
        **{name: getattr(config, name) for name in ("encoder", "envs", "rollout_steps", "policy")},
    )
    learners = [learner_for(config), learner_for(alone)]
    for learner in learners:
        rollout = rollout_for(learner, config) if policy == "ppo" else daac_rollout(learner, config)
        learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    for part in ("encoder", "policy", "value"):
        assert bits(learners[0])[part] == bits(learners[1])[part]


def daac_rollout(learner: Learner, config: Config) -> Any:
    """DAAC has no values of the policy's features: those of PPO's agent serve for the test."""
    plain = learner_for(small())
    rollout = rollout_for(plain, config)
    return rollout._replace(
        features=learner.agent.encoder(rollout.obs.flatten(0, 1))
        .detach()
        .view(*rollout.obs.shape[:2], -1)
    )


def test_two_threads_give_the_same_bits_each_time():
    results = []
    for _ in range(3):
        torch.set_num_threads(2)
        config = small(envs=32)  # enough numbers that the work is split between threads
        learner = learner_for(config)
        rollout = rollout_for(learner, config)
        for _ in range(2):
            learner.update(rollout, experience(rollout, rollout.reward, config.policy))
        results.append(bits(learner))
    assert results[0] == results[1] == results[2]


def test_the_figures_of_one_pass_are_recorded_and_an_update_of_its_own_records_the_same_ones():
    figures = []
    for order in ("joint", "policy"):
        config = small(order=order)
        learner = learner_for(config)
        rollout = rollout_for(learner, config)
        found = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
        figures.append(set(found) - {"gradient_scale"})
    assert figures[0] == figures[1]
    assert {
        *("cluster", "inverse", "action_gain", "frame_gain", "gradient_ratio", "objective_kl"),
        *("codes_about_level", "levels_per_cluster", "level_variance", "level_variance_untrained"),
        *("knowing_before", "knowing_time", "knowing_action", "knowing_nothing", "view_cosine"),
    } <= figures[0]


def test_stretches_that_are_too_short_for_a_pair_are_refused():
    config = plain("situations")
    with pytest.raises(BadInput, match=r"policy\.stretch=6 is shorter than the 8 steps"):
        replace(config, policy=replace(config.policy, stretch=6))
    other = plain("spr")  # which has frames of its own
    policy = replace(other.policy, stretch=6, advantages="rollout")
    assert replace(other, policy=policy).policy.stretch == 6


def test_fewer_pieces_than_minibatches_are_refused():
    config = plain("situations")
    with pytest.raises(BadInput, match=r"policy\.stretch=256 leaves 4 pieces .*minibatches=8"):
        replace(config, envs=4, policy=replace(config.policy, stretch=256))


def test_daac_keeps_the_stretches_and_with_them_the_one_pass():
    config = with_policy(plain("situations"), "daac")
    assert config.policy.stretch == 32
    assert learner_for(replace(config, encoder="laptop", envs=4)).one_pass


def test_a_dead_encoder_has_no_ratio_and_does_not_halt_the_run():
    config = small()
    learner = learner_for(config)
    with torch.no_grad():
        learner.agent.encoder.last.weight.zero_()
        learner.agent.encoder.last.bias.fill_(-1.0)
    rollout = rollout_for(learner, config)
    metrics = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    assert "gradient_ratio" not in metrics


def test_a_minibatch_without_pairs_trains_the_policy_all_the_same():
    config = small()
    learner = learner_for(config)
    rollout = rollout_for(learner, config)._replace(done=torch.ones(64, 4, dtype=torch.bool))
    before = bits(learner)
    metrics = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    assert moved(before, bits(learner)) == {"encoder", "policy", "value"}
    assert "cluster" not in metrics


def test_minibatch_frames_are_those_of_the_policy():
    """The same stretches, in the same order: one encoding can serve both."""
    config = small()
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    minibatch = next(learner.policy_batches(rollout.done))
    assert isinstance(minibatch, Stretches)
    batch = learner.objective.batch(rollout, minibatch, learner.streams.objective)
    assert batch is not None
    assert torch.equal(batch.frames, rollout.frames()[minibatch.frame])
