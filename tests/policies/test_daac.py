"""DAAC: two networks that never touch each other, its losses by hand, its schedule, its table."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from crosstraj.config.presets import plain, preset, started, with_policy
from crosstraj.config.stored import from_dict, to_dict
from crosstraj.config.values import Config
from crosstraj.envs import GAMES
from crosstraj.errors import BadInput
from crosstraj.learning.learner import Learner
from crosstraj.policies.daac import DAAC, TUNED, DAACAgent, DAACConfig, Tuned
from crosstraj.policies.experience import Experience, experience
from tests.helpers import random_experience, rng
from tests.objectives.every_method import bits, learner_for, moved, rollout_for, small

POLICY_NETWORK, VALUE_NETWORK = {"encoder", "policy", "advantage"}, {"value_encoder", "value"}


def agent_of(learner: Learner) -> DAACAgent:
    assert isinstance(learner.agent, DAACAgent)
    return learner.agent


def steps_for(learner: Learner, rollout: Any) -> Experience:
    return experience(rollout, rollout.reward, learner.config.policy)


def on_daac(method: str, **changes: Any) -> Config:
    """Another method under DAAC, as `--policy.kind daac` makes it."""
    config = with_policy(small(method), "daac")
    return replace(config, policy=replace(config.policy, minibatches=2), **changes)


# --- Two networks


def test_the_networks_share_no_parameter_and_together_are_the_whole_agent():
    agent = agent_of(learner_for(small("daac")))
    assert set(dict(agent.named_children())) - {"top"} == POLICY_NETWORK | VALUE_NETWORK
    pointers = [parameter.data_ptr() for parameter in agent.parameters()]
    assert len(set(pointers)) == len(pointers)
    # IMPALA twice, 15 actions: trunk 622,144 each; heads 3,855 and 257; advantage 256 + 15 + 1.
    whole = DAACAgent((64, 64, 3), 15, encoder="impala", feature_norm="none", context=0, rng=rng())
    assert sum(p.numel() for p in whole.parameters()) == 2 * 622_144 + 3_855 + 257 + 272


@pytest.mark.parametrize("part", sorted(POLICY_NETWORK | VALUE_NETWORK))
def test_values_of_a_rollout_come_from_the_value_network_alone(part):
    agent = agent_of(learner_for(small("daac")))
    frames = torch.randint(256, (6, 4, 4, 3), generator=rng(1), dtype=torch.uint8)
    context = torch.zeros(6, 0)

    def seen() -> tuple[Tensor, Tensor, Tensor]:
        acted = agent.act(frames, context, rng(2), greedy=True)
        judged, _ = agent.judge(frames, context)
        assert torch.equal(acted.value, judged)
        return acted.value, judged, agent.log_probs(agent.encoder(frames), context)

    value, _, log_probs = seen()
    with torch.no_grad():
        for parameter in getattr(agent, part).parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=rng(3)))
    other_value, _, other_log_probs = seen()
    assert torch.equal(value, other_value) == (part in POLICY_NETWORK)
    assert torch.equal(log_probs, other_log_probs) == (part not in ("encoder", "policy"))


def test_nobody_can_ask_for_values_of_the_policys_features():
    assert not hasattr(agent_of(learner_for(small("daac"))), "heads")


def test_each_networks_update_leaves_the_other_as_it_was_to_the_last_bit():
    learner = learner_for(small("daac"))
    rollout = rollout_for(learner)
    steps = steps_for(learner, rollout)
    for _ in range(2):  # again, now that both optimisers have moments that could push
        start = bits(learner)
        learner.update_policy(rollout, steps, moved=False)
        middle = bits(learner)
        assert moved(start, middle) == POLICY_NETWORK
        learner.update_value(rollout, steps)
        assert moved(middle, bits(learner)) == VALUE_NETWORK


@pytest.mark.parametrize("grad", ["none", "rl", "ssl", "both"])
@pytest.mark.parametrize("order", ["objective", "joint"])
def test_an_objective_trains_the_policys_encoder_and_never_the_values(grad, order):
    learner = learner_for(on_daac("ctrl", encoder_grad=grad, order=order))
    rollout = rollout_for(learner)
    steps = steps_for(learner, rollout)
    before = bits(learner)
    learner.update_objective(rollout)
    assert moved(before, bits(learner)) == {"objective"} | (
        {"encoder"} if grad == "ssl" or (grad == "both" and order == "objective") else set()
    )
    before = bits(learner)
    learner.update(rollout, steps)
    still = {"encoder"} if grad == "none" else set()
    assert moved(before, bits(learner)) == (POLICY_NETWORK | VALUE_NETWORK | {"objective"}) - still


# --- Losses


@pytest.mark.parametrize("piece", [1, 7, 64])
def test_the_policys_loss_is_the_formula_and_reaches_exactly_the_policys_network(piece):
    agent, data = agent_of(learner_for(small("daac"))), random_experience(40)
    frames = torch.randint(256, (40, 4, 4, 3), generator=rng(2), dtype=torch.uint8)
    index = torch.randperm(40, generator=rng(3))[:20]
    config = DAACConfig(advantage_weight=0.3, entropy_weight=0.02)

    # Written out: advantages of the whole rollout are normalised by its unbiased spread.
    everything = data.advantage
    target = ((everything - everything.mean()) / (everything.std(correction=1) + 1e-5))[index]
    features = agent.encoder(frames[index])
    probabilities = torch.softmax(features @ agent.policy.weight.T + agent.policy.bias, 1)
    taken = probabilities[torch.arange(20), data.action[index]]
    ratio = taken / data.log_prob[index].exp()
    gain = torch.minimum(ratio * target, ratio.clamp(0.8, 1.2) * target).mean()
    one_hot = torch.eye(5)[data.action[index]]
    weight = agent.advantage.weight[0]
    estimate = features @ weight[:256] + one_hot @ weight[256:] + agent.advantage.bias
    error = ((estimate - target) ** 2).mean()
    entropy = -(probabilities * probabilities.log()).sum(1).mean()
    (-gain + 0.3 * error - 0.02 * entropy).backward()
    expected = {n: None if p.grad is None else p.grad.clone() for n, p in agent.named_parameters()}
    agent.zero_grad()

    def features_of(chosen: Tensor) -> Tensor:
        return agent.encoder(frames.index_select(0, chosen))

    means = DAAC(agent, config).backward(features_of, data, index, piece)
    for name, parameter in agent.named_parameters():
        assert (parameter.grad is None) == name.startswith(agent.value_network)
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, expected[name], atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(means["advantage_error"], error.detach(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(means["surrogate"], -gain.detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("piece", [3, 64])
def test_the_values_loss_is_half_the_larger_square_of_raw_targets(piece):
    agent, data = agent_of(learner_for(small("daac"))), random_experience(12)
    frames = torch.randint(256, (12, 4, 4, 3), generator=rng(2), dtype=torch.uint8)
    index = torch.tensor([5, 0, 11, 7, 2])
    value = agent.values(agent.value_encoder(frames[index]), data.context[index])
    old, target = data.value[index], data.target[index]
    errors = []
    for v, o, r in zip(value, old, target, strict=True):
        near = o + (v - o).clamp(-0.2, 0.2)
        errors.append(torch.maximum((v - r) ** 2, (near - r) ** 2))
    expected = 0.5 * torch.stack(errors).mean()
    expected.backward()
    gradients = {n: p.grad.clone() for n, p in agent.named_parameters() if p.grad is not None}
    assert all(name.startswith(agent.value_network) for name in gradients)
    agent.zero_grad()

    def features_of(index):
        return agent.value_encoder(frames[index])

    error = DAAC(agent, DAACConfig()).value_backward(features_of, data, index, piece)
    torch.testing.assert_close(error, expected.detach(), atol=1e-6, rtol=1e-5)
    for name, parameter in agent.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-6, rtol=1e-4)
        else:
            assert parameter.grad is None


# --- Its schedule


def count_steps(learner: Learner) -> Counter[str]:
    steps: Counter[str] = Counter()
    for name in ("policy_optimiser", "value_optimiser"):
        optimiser = getattr(learner, name)

        def step(name: str = name, real: Any = optimiser.step) -> Tensor:
            steps[name] += 1
            return real()

        optimiser.step = step
    return steps


def test_one_epoch_for_the_policy_and_nine_for_the_values():
    learner = learner_for(small("daac"))
    rollout = rollout_for(learner)
    steps = count_steps(learner)
    metrics = learner.update(rollout, steps_for(learner, rollout))
    assert steps == {"policy_optimiser": 2, "value_optimiser": 18}  # two minibatches each
    assert {"advantage_error", "value_error", "policy_grad_norm", "value_grad_norm"} <= set(metrics)


def test_values_learn_from_the_first_and_then_from_every_third_rollout_also_when_resumed():
    config = small("daac", policy=DAACConfig(minibatches=2, value_epochs=1, value_every=3))
    learner = learner_for(config)
    rollout = rollout_for(learner)
    learnt = []
    for turn in range(7):
        if turn == 2:  # a fresh process goes on
            state, weights = learner.state_dict(), learner.weights()
            learner = learner_for(config)
            learner.load_weights(weights)
            learner.load_state_dict(state)
        before = bits(learner)
        metrics = learner.update(rollout, steps_for(learner, rollout))
        assert moved(before, bits(learner)) >= POLICY_NETWORK
        learnt.append(moved(before, bits(learner)) >= VALUE_NETWORK)
        assert ("value_error" in metrics) == learnt[-1]
    assert learnt == [True, False, False, True, False, False, True]


# --- Values of the configuration


def test_the_table_of_games_is_an_option_and_the_configuration_tells_what_it_gave():
    assert set(TUNED) <= set(GAMES)
    assert plain("daac").policy == DAACConfig()
    for game in GAMES:
        config = started({"method": "daac", "env": game, "policy.per_game": True})
        assert isinstance(config.policy, DAACConfig)
        told = (config.policy.value_epochs, config.policy.value_every)
        assert Tuned(*told, config.policy.advantage_weight) == TUNED.get(game, Tuned(9, 1, 0.25))
        assert from_dict(to_dict(config)) == config
    off = started({"method": "daac", "preset": "paper", "env": "plunder"})
    assert off.policy == DAACConfig()


def test_what_the_table_of_games_does_not_say_is_refused_with_it():
    config = started({"method": "daac", "env": "plunder", "policy.per_game": True})
    with pytest.raises(BadInput, match=r"policy.value_epochs=1, but policy.per_game=True takes 9 "):
        replace(config, env="coinrun")
    policy = DAACConfig(per_game=True, advantage_weight=0.9)
    said = "advantage_weight=0.9, .* takes 0.25 for coinrun; leave policy.advantage_weight out, or "
    with pytest.raises(BadInput, match=said):
        replace(config, env="coinrun", policy=policy)
    assert replace(config, env="coinrun", policy=replace(policy, per_game=False))


def test_another_policy_comes_with_its_own_values_and_the_rest_stays():
    config = with_policy(plain("ctrl"), "daac")
    assert config.policy == DAACConfig()
    assert replace(config, policy=plain("ctrl").policy) == plain("ctrl")
    assert from_dict(to_dict(config)) == config
    assert with_policy(preset("ctrl", "paper"), "ppo") == preset("ctrl", "paper")
    with pytest.raises(BadInput, match="did you mean 'daac'"):
        with_policy(config, "dac")


@pytest.mark.parametrize("name", ["value_epochs", "value_every", "epochs"])
def test_nonsense_is_refused(name):
    with pytest.raises(BadInput, match=rf"policy\.{name}=0"):
        DAACConfig(**{name: 0})


def test_ctrl_on_daac_needs_one_word_on_the_command_line(tmp_path, capfd):
    from crosstraj.cli.main import main
    from crosstraj.learning.load import read_config
    from tests.conftest import TINY

    command = ["train", "--method", "ctrl", "--policy.kind", "daac", *TINY, "--frames", "256"]
    command += ["--objective.clusters", "8", "--policy.value-epochs", "2"]
    assert main([*command, "--machine.threads", "1", "--saving.runs", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    policy = read_config(run).policy
    assert isinstance(policy, DAACConfig)
    assert policy.value_epochs == 2
    assert main(["train", "--policy.kind", "dac"]) == 2
    assert "unknown policy 'dac'" in capfd.readouterr().err


def test_both_networks_of_daac_are_pooled():
    agent = DAACAgent(
        (64, 64, 3),
        15,
        encoder="slim",
        feature_norm="none",
        context=0,
        rng=rng(),
        pooling="mean",
    )
    assert agent.encoder.last.weight.shape == agent.value_encoder.last.weight.shape == (256, 32)
