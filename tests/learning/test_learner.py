"""Where gradients go, proved by bit-equality: what must not move is equal to the last bit."""

import math
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch

from crosstraj.config.groups import RepresentationConfig
from crosstraj.config.methods import METHODS
from crosstraj.data.rollout import Rollout
from crosstraj.errors import BadInput
from crosstraj.learning.learner import Learner
from crosstraj.learning.optimiser import Averages
from crosstraj.objectives.ctrl import CTRLConfig
from crosstraj.policies.experience import experience
from tests.helpers import bits, learner_for, moved, rollout_for, small


@pytest.mark.parametrize("order", ["objective", "policy", "joint"])
def test_without_an_objective_the_order_makes_no_difference(order):
    config = small("ppo", order=order)
    learner, plain = learner_for(config), learner_for(small("ppo"))
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    for one in (learner, plain):
        one.update(rollout, steps)
    assert bits(learner) == bits(plain)


@pytest.mark.parametrize("order", ["objective", "policy"])
def test_the_kl_of_the_objective_is_that_of_the_policy_before_and_after(order):
    """Over all frames of a rollout this small, against a loop over probabilities."""
    fast = RepresentationConfig(minibatches=2, learning_rate=0.02)
    config = small(order=order, encoder_grad="both", representation=fast)
    learner = learner_for(config)
    rollout = rollout_for(learner, config)

    def opinions() -> torch.Tensor:
        with torch.no_grad():
            features = learner.agent.encoder(rollout.frames())
            return learner.agent.heads(features, rollout.context[:-1].flatten(0, 1))[0]

    seen, update_objective, heads = {}, learner.update_objective, bits(learner)["policy"]

    def watched(rollout: Rollout) -> dict[str, float]:
        assert (bits(learner)["policy"] != heads) == (order == "policy")  # who comes first
        seen["before"] = opinions()
        metrics = update_objective(rollout)
        seen["after"] = opinions()
        return metrics

    learner.update_objective = watched  # type: ignore[method-assign]  # looks, and goes on
    metrics = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    expected = sum(
        math.exp(old) * (old - new)
        for was, now in zip(seen["before"].tolist(), seen["after"].tolist(), strict=True)
        for old, new in zip(was, now, strict=True)
    ) / len(seen["before"])
    assert expected > 1e-7
    assert metrics["objective_kl"] == pytest.approx(expected, rel=1e-2, abs=1e-9)


def test_the_encoder_takes_its_share_of_the_objectives_step():
    """Adam's first step is the learning rate itself wherever there is a gradient."""
    for rate in (1.0, 0.1, 0.0):
        config = small(encoder_grad="ssl", representation=RepresentationConfig(encoder_rate=rate))
        learner = learner_for(config)
        rollout = rollout_for(learner, config)
        names = {"encoder": "encoder.last.weight", "objective": "film.net.2.weight"}
        of = {"encoder": learner.agent, "objective": learner.objective}
        before = {who: of[who].get_parameter(name).detach().clone() for who, name in names.items()}
        learner.objective_backward(next(learner.objective_batches(rollout, 1)), Averages())
        learner.objective_optimiser.step()
        moved_by = {
            who: float((of[who].get_parameter(name).detach() - before[who]).abs().max())
            for who, name in names.items()
        }
        assert moved_by["objective"] == pytest.approx(5e-4, rel=0.2)
        assert moved_by["encoder"] == pytest.approx(rate * 5e-4, rel=0.2)


def test_the_heads_take_a_multiple_of_the_policys_step():
    """Adam's first step is the learning rate itself wherever there is a gradient."""
    encoders = []
    for rate in (1.0, 4.0, 0.0):
        plain = small("ppo")
        config = replace(plain, policy=replace(plain.policy, head_rate=rate))
        learner = learner_for(config)
        rollout = rollout_for(learner, config)
        steps = experience(rollout, rollout.reward, config.policy)
        names = ("policy.weight", "value.weight", "encoder.last.weight")
        before = [learner.agent.get_parameter(name).detach().clone() for name in names]
        reader, piece = learner.feature_reader(rollout, Averages(), moved=False)
        index = next(learner.policy_batches(rollout.done)).frame
        learner.policy.backward(reader, steps, index, piece)
        learner.policy_optimiser.step()
        now = [learner.agent.get_parameter(name).detach() for name in names]
        moved_by = [float((b - a).abs().max()) for a, b in zip(before, now, strict=True)]
        assert moved_by[:2] == pytest.approx([rate * 5e-4] * 2, rel=0.2)
        assert moved_by[2] == pytest.approx(5e-4, rel=0.2)
        encoders.append(bits(learner)["encoder"])
    assert encoders[0] == encoders[1] == encoders[2]


def test_the_first_policy_step_starts_at_ratio_one_when_nothing_moved():
    config = small("ppo")
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    reader, piece = learner.feature_reader(rollout, Averages(), moved=False)
    index = torch.arange(len(steps.action))
    terms = learner.policy.backward(reader, steps, index, piece)
    assert float(terms["kl"]) == pytest.approx(0.0, abs=1e-6)
    assert float(terms["clipped"]) == 0.0


def test_cached_features_are_those_of_the_encoder_after_the_objective():
    config = small(encoder_grad="ssl")
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    learner.update_objective(rollout)
    reader, _ = learner.feature_reader(rollout, Averages(), moved=True)
    index = torch.tensor([0, 7, 30])
    with torch.no_grad():
        expected = learner.agent.encoder(rollout.frames()[index])
    torch.testing.assert_close(reader(index), expected, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(reader(index), rollout.features.flatten(0, 1)[index], atol=1e-4)
    assert not reader(index).requires_grad


def test_same_seed_same_bits_other_seed_other_bits():
    def result(seed: int) -> dict[str, bytes]:
        config = small(seed=seed)
        learner = learner_for(config)
        rollout = rollout_for(learner, config)
        learner.update(rollout, experience(rollout, rollout.reward, config.policy))
        return bits(learner)

    assert result(0) == result(0)
    assert moved(result(0), result(1)) == {"encoder", "policy", "value", "objective"}


@pytest.mark.parametrize(
    "change", [{}, {"target_decay": 0.5, "head_norm": "batch", "view_encoder": "rnn"}]
)
def test_state_round_trips_through_a_fresh_learner(change):
    objective = CTRLConfig(clusters=4, **change)
    config = small(encoder_grad="both", objective=objective)
    first = learner_for(config)
    rollout = rollout_for(first, config)
    steps = experience(rollout, rollout.reward, config.policy)
    first.update(rollout, steps)
    second = learner_for(config)
    second.load_weights(first.weights())
    second.load_state_dict(first.state_dict())
    second.streams.load_state_dict(first.streams.state_dict())
    for learner in (first, second):
        learner.update(rollout, steps)
    assert bits(first) == bits(second)


def test_weights_of_another_configuration_are_refused():
    learner = learner_for(small(objective=CTRLConfig(clusters=4)))
    other = learner_for(small(objective=CTRLConfig(clusters=5))).weights()
    for weights in (other, {"objective": other["objective"]}):
        with pytest.raises(BadInput, match=r"do not fit the run's config\.json"):
            learner.load_weights(weights)


@pytest.mark.parametrize(("grad", "encoder_moves"), [("ssl", True), ("none", False)])
@pytest.mark.parametrize("order", ["objective", "policy", "joint"])
def test_cut_at_the_map_the_policy_trains_a_last_layer_of_its_own(grad, encoder_moves, order):
    config = small(split_at="conv", encoder_grad=grad, order=order)
    learner = learner_for(config)
    agent = learner.agent

    def parts() -> dict[str, bytes]:
        top = b"".join(p.detach().numpy().tobytes() for p in agent.top.parameters())
        return bits(learner) | {"top": top}

    rollout = rollout_for(learner, config)
    assert rollout.features.shape[-1] == agent.reads == agent.encoder.map_size
    steps = experience(rollout, rollout.reward, config.policy)
    start = parts()
    learner.update_policy(rollout, steps, moved=False)
    middle = parts()
    assert moved(start, middle) == {"top", "policy", "value"}
    learner.update_objective(rollout)
    after = parts()
    assert moved(middle, after) == {"objective"} | ({"encoder"} if encoder_moves else set())
    learner.update(rollout, steps)
    assert {"top", "policy", "value"} <= moved(after, parts())


def test_cut_at_the_map_the_policy_reads_what_its_own_layer_makes_of_it():
    config = small(split_at="conv", feature_norm="layer")
    agent = learner_for(config).agent
    frames = torch.randint(256, (3, 2, 2, 1), generator=torch.Generator(), dtype=torch.uint8)
    read = agent.read(agent.encoder, frames)
    torch.testing.assert_close(read, agent.encoder.map(frames).flatten(1))
    own = torch.nn.functional.layer_norm(torch.relu(agent.top[0](read)), (256,))
    log_probs, value = agent.heads(read, torch.zeros(3, 0))
    torch.testing.assert_close(value, agent.value(own).squeeze(-1))
    torch.testing.assert_close(log_probs, agent.policy(own).log_softmax(-1))


# --- Equal starts


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("atc", "daac", "idaac", "ppg")])
def test_with_equal_seeds_every_method_begins_with_the_same_agent(method):
    """But for DAAC and PPG, which have more heads, and ATC, whose heads have a layer below them.

    DIAYN's skills come after what all have.
    """
    first, ppo_alone = learner_for(small(method)), learner_for(small("ppo"))
    for part in ("encoder", "policy", "value"):
        assert bits(first)[part] == bits(ppo_alone)[part]


@pytest.mark.parametrize("order", ["objective", "policy", "joint"])
@pytest.mark.parametrize(
    "method",
    ["ctrl", "curl", "spr", "drac", "driml", "dbc", "proto", "pse", "situations"],
)
def test_an_objective_of_weight_zero_equals_ppo_to_the_bit(method, order):
    """But for those whose agent is not PPO's: DIAYN's reads a skill, ATC's has a layer of its own,
    and IDAAC's is DAAC's.

    What an update learns is compared, on one rollout with one reward: Proto-RL's own reward and
    PSE's play beside the rollouts are no part of the loss whose weight is 0.
    """
    nothing = RepresentationConfig(minibatches=2, weight=0.0)
    config = small(method, order=order, encoder_grad="both", representation=nothing)
    learner, plain = learner_for(config), learner_for(small("ppo", policy=config.policy))
    rollout = rollout_for(learner, config)
    for _ in range(2):
        for one in (learner, plain):
            one.update(rollout, experience(rollout, rollout.reward, one.config.policy))
    for part in ("encoder", "policy", "value"):
        assert bits(learner)[part] == bits(plain)[part]


# --- How far a rollout may move the policy


def taught(
    target: float, order: str, **changes: Any
) -> tuple[Learner, dict[str, float], list[float]]:
    """A learner after one rollout, what it recorded, and the KL of each of its minibatches."""
    config = small("ppo", order=order)
    policy = replace(config.policy, target_kl=target, learning_rate=0.01, **changes)
    learner = learner_for(replace(config, policy=policy))
    rollout, seen, backward = rollout_for(learner, config), list[float](), learner.policy.backward

    def watched(*given: Any) -> dict[str, torch.Tensor]:
        terms = backward(*given)
        seen.append(float(terms["kl"]))
        return terms

    learner.policy.backward = watched  # type: ignore[method-assign]  # looks, and goes on
    figures = learner.update(rollout, experience(rollout, rollout.reward, policy))
    return learner, figures, seen


@pytest.mark.parametrize(("order", "left"), [("objective", 1), ("policy", 2)])
def test_an_objective_that_comes_first_uses_up_the_distance_that_the_policy_may_go(
    order: Literal["objective", "policy"], left: int
) -> None:
    """The distance is that from the policy that played, whoever has left it."""
    fast = RepresentationConfig(minibatches=4, learning_rate=0.1)
    config = small("dbc", order=order, representation=fast)
    policy = replace(config.policy, target_kl=1e-3, minibatches=2, epochs=1, learning_rate=1e-6)
    learner = learner_for(replace(config, policy=policy))
    rollout = rollout_for(learner, config)
    figures = learner.update(rollout, experience(rollout, rollout.reward, policy))
    assert figures["objective_kl"] > 1e-3
    assert figures["policy_steps"] == left


@pytest.mark.parametrize("order", ["objective", "policy", "joint"])
def test_the_first_minibatch_beyond_the_target_is_the_last(order: str) -> None:
    whole, unbounded, every = taught(0.0, order)
    assert len(every) == 4
    assert "policy_steps" not in unbounded
    assert abs(every[0]) < 1e-6 < every[1]  # the policy that played, and one a step away from it
    for target in (every[1] / 2, every[1] * 2, max(every) * 2):
        learner, figures, seen = taught(target, order)
        beyond = [place for place, kl in enumerate(every) if kl > target]
        expected = beyond[0] + 1 if beyond else 4  # that minibatch's step is still taken
        assert seen == every[:expected]
        assert figures["policy_steps"] == expected
        assert figures["kl"] == pytest.approx(sum(seen) / len(seen))
        assert (bits(learner) == bits(whole)) == (expected == 4)
