"""Joint steps: the sum of two gradients, its bound and ratio, and the anchor."""

import math
from dataclasses import replace

import pytest
import torch

from crosstraj.config.groups import RepresentationConfig
from crosstraj.learning.joint import Anchor, norm, scale_within, summed, take
from crosstraj.learning.optimiser import Averages
from crosstraj.policies.experience import experience
from crosstraj.policies.ppo import PPOConfig
from tests.helpers import bits, learner_for, moved, rollout_for, small


def test_a_joint_gradient_is_the_sum_of_both_gradients():
    config = small(encoder_grad="both", order="joint")
    config = replace(
        config,
        policy=replace(config.policy, epochs=1, minibatches=1),
        representation=replace(config.representation, minibatches=1),
    )
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    weight = learner.agent.encoder.last.weight
    seen: dict[str, torch.Tensor] = {}
    alone = learner_for(config)
    other = alone.agent.encoder.last.weight
    reader, piece = alone.feature_reader(rollout, Averages(), moved=False)
    index = next(alone.policy_batches(rollout.done)).frame
    alone.policy.backward(reader, steps, index, piece)
    assert other.grad is not None
    seen["policy"] = other.grad.clone()
    other.grad = None
    alone.objective_backward(next(alone.objective_batches(rollout, 1)), Averages())
    assert other.grad is not None
    seen["objective"] = other.grad.clone()

    norms = []
    learner.policy_optimiser.step = lambda: norms.append(weight.grad.clone()) or torch.zeros(())  # type: ignore[assignment,method-assign,union-attr,func-returns-value]  # looks instead of stepping
    learner.trial_kl = lambda *_: torch.zeros(())  # type: ignore[method-assign]  # Adam has no scale yet
    learner.update(rollout, steps)
    torch.testing.assert_close(norms[0], seen["policy"] + seen["objective"], atol=1e-6, rtol=1e-4)


def test_in_split_joint_steps_the_heads_read_the_encoder_as_it_is_now_without_moving_it():
    config = small(encoder_grad="ssl", order="joint")
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    reader, _ = learner.feature_reader(rollout, Averages(), moved=False)
    index = torch.tensor([0, 7, 30])
    before = reader(index)
    assert not before.requires_grad
    learner.update_objective(rollout)
    with torch.no_grad():
        expected = learner.agent.encoder(rollout.frames()[index])
    torch.testing.assert_close(reader(index), expected)
    assert not torch.allclose(before, expected, atol=1e-4)


def test_the_objectives_gradient_is_bounded_by_a_multiple_of_the_policys():
    own, policy = torch.tensor(6.0), torch.tensor(2.0)
    assert scale_within(own, policy, 1.0).item() == pytest.approx(1 / 3)
    assert scale_within(own, policy, 5.0).item() == 1  # it is below the bound
    assert scale_within(own, policy, 0.0).item() == 1  # there is none
    assert scale_within(own, torch.tensor(0.0), 1.0).item() == 1  # nothing to be held against
    assert scale_within(torch.tensor(0.0), policy, 1.0).item() == 1


@pytest.mark.parametrize("zero", ["own", "policy"])
def test_a_gradient_of_zeros_is_summed_as_it_is_and_has_no_ratio(zero):
    encoder = {"a": torch.nn.Parameter(torch.zeros(2))}
    given = {"own": {"a": torch.tensor([3.0, 4.0])}, "policy": {"a": torch.tensor([1.0, 0.0])}}
    figures = summed(encoder, given["policy"], given["own"], 0.5)[1]
    assert {name: float(f) for name, f in figures.items()} == pytest.approx(
        {"gradient_ratio": 5.0, "gradient_scale": 0.1}
    )
    assert encoder["a"].grad is not None
    assert encoder["a"].grad.tolist() == pytest.approx([1.3, 0.4])
    encoder["a"].grad = None
    given[zero] = {"a": torch.zeros(2)}
    own, figures = summed(encoder, given["policy"], given["own"], 0.5)
    assert all(figure.isnan() for figure in figures.values())
    assert torch.equal(own["a"], given["own"]["a"])
    assert torch.equal(encoder["a"].grad, given["own"]["a"] + given["policy"]["a"])
    averages = Averages()
    averages.add_known(**figures)
    assert averages.numbers() == {}


@pytest.mark.parametrize("most", [0.0, 0.25])
def test_a_joint_steps_ratio_and_bound_are_those_of_the_two_gradients(most):
    """Against both gradients taken one by one, added by hand."""
    once = {"epochs": 1, "minibatches": 1}
    config = small(
        encoder_grad="both",
        order="joint",
        representation=RepresentationConfig(**once, max_ratio=most),
        policy=PPOConfig(**once),
    )
    alone, learner = learner_for(config), learner_for(config)
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    reader, piece = alone.feature_reader(rollout, Averages(), moved=False)
    index = next(alone.policy_batches(rollout.done)).frame
    alone.policy.backward(reader, steps, index, piece)
    policy = take(alone.encoder)
    alone.objective_backward(next(alone.objective_batches(rollout, 1)), Averages())
    own = take(alone.encoder)

    summed_up: dict[str, torch.Tensor] = {}
    step = learner.policy_optimiser.step

    def watched() -> torch.Tensor:
        summed_up.update({n: p.grad.clone() for n, p in learner.encoder.items()})  # type: ignore[union-attr]  # all have one
        return step()

    learner.policy_optimiser.step = watched  # type: ignore[method-assign]  # looks, and goes on
    metrics = learner.update(rollout, steps)
    ratio = float(norm(own) / norm(policy))
    assert metrics["gradient_ratio"] == pytest.approx(ratio, rel=1e-3)
    scale = min(1.0, most / ratio) if most else 1.0
    assert (scale < 1) == bool(most)  # or the bound would not be tried
    for name, gradient in policy.items():
        expected = gradient + scale * own[name]
        torch.testing.assert_close(summed_up[name], expected, atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize("method", ["curl", "driml", "dbc"])
def test_joint_steps_record_what_the_objectives_part_alone_would_do_to_the_policy(method):
    config = small(method, encoder_grad="both", order="joint")
    config = replace(config, policy=replace(config.policy, learning_rate=0.1))  # or it is rounding
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    metrics = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    assert metrics["objective_kl"] > 1e-7
    assert metrics["gradient_ratio"] > 0


def test_an_anchor_holds_the_policy_while_the_objective_moves_the_encoder():
    """The same pass of the objective, with and without it: the policy moves less."""
    moves = {}
    for anchor in (0.0, 30.0):
        fast = RepresentationConfig(minibatches=2, epochs=8, learning_rate=3e-3, anchor=anchor)
        config = small(order="policy", encoder_grad="both", representation=fast)
        learner = learner_for(config)
        rollout = rollout_for(learner, config)
        learner.update_policy(
            rollout, experience(rollout, rollout.reward, config.policy), moved=False
        )
        before = bits(learner)
        moves[anchor] = learner.update_objective(rollout)["objective_kl"]
        heads = {"policy", "value"} if anchor else set()  # live: they may follow the encoder
        assert moved(before, bits(learner)) == {"encoder", "objective"} | heads
    assert moves[30.0] < 0.5 * moves[0.0]


def test_the_anchors_loss_is_kl_and_half_the_squared_difference_of_values():
    config = small(encoder_grad="both", order="policy")
    learner = learner_for(config)
    frames = rollout_for(learner, config).frames()[:6]
    anchor = Anchor(learner.agent, learner.live_encode(True))
    nothing = torch.zeros(6, 0)
    with torch.no_grad():
        old, value = learner.agent.heads(learner.agent.encoder(frames), nothing)
        for parameter in learner.agent.parameters():
            parameter.mul_(1.5)
        new, value_now = learner.agent.heads(learner.agent.encoder(frames), nothing)
    expected = 0.0
    for row in range(6):
        expected += (
            sum(
                math.exp(p) * (p - q)
                for p, q in zip(old[row].tolist(), new[row].tolist(), strict=True)
            )
            / 6
        )
        expected += 0.5 * float(value[row] - value_now[row]) ** 2 / 6
    anchor(frames[:2])
    anchor(frames[2:])
    loss = anchor.loss()
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    loss.backward()
    assert learner.agent.policy.weight.grad is not None
    assert learner.agent.encoder.last.weight.grad is not None
