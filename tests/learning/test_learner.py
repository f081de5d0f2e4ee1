"""Where gradients go, proved by bit-equality: what must not move is equal to the last bit."""

import math
from dataclasses import replace

import pytest
import torch

from crosstraj.config.groups import RepresentationConfig
from crosstraj.config.methods import METHODS
from crosstraj.config.presets import preset
from crosstraj.config.stored import from_dict, to_dict
from crosstraj.config.values import Config
from crosstraj.data.rollout import Rollout
from crosstraj.errors import BadInput, NonFinite
from crosstraj.learning.joint import Anchor, norm, scale_within, take
from crosstraj.learning.learner import Learner
from crosstraj.learning.optimiser import Averages, Optimiser
from crosstraj.nn.ops import feature_health, sample
from crosstraj.objectives import CTRLConfig
from crosstraj.policies.experience import experience
from crosstraj.policies.ppo import PPOConfig
from crosstraj.randomness import Streams
from tests.data.test_rollout import Scripted


def small(method: str = "ctrl", **changes: object) -> Config:
    config = preset(method, "default")
    config = replace(
        config,
        encoder="laptop",
        envs=4,
        rollout_steps=16,
        policy=replace(config.policy, epochs=2, minibatches=2),
        representation=RepresentationConfig(minibatches=2),
    )
    if method == "ctrl":
        objective = CTRLConfig(clusters=4, least_rank=0.0)
        config = replace(config, objective=objective, encoder_grad="ssl", order="objective")
    return replace(config, **changes)  # type: ignore[arg-type]  # any field, by name


def learner_for(config: Config) -> Learner:
    return Learner(config, Scripted((5,) * config.envs), Streams(config.seed))


def rollout_for(learner: Learner, config: Config) -> Rollout:
    """Random frames, with the log-probabilities, values and features of this very agent."""
    g = torch.Generator().manual_seed(5)
    s, n = config.rollout_steps, config.envs
    obs = torch.randint(256, (s + 1, n, 2, 2, 1), generator=g, dtype=torch.uint8)
    action = torch.randint(3, (s, n), generator=g)
    with torch.no_grad():
        features = learner.agent.read(learner.agent.encoder, obs.flatten(0, 1))
        log_probs, value = learner.agent.heads(features, torch.zeros(len(features), 0))
    log_prob = log_probs.view(s + 1, n, 3)[:-1].gather(-1, action[..., None]).squeeze(-1)
    return Rollout(
        obs,
        action,
        torch.randn(s, n, generator=g),
        torch.rand(s, n, generator=g) < 0.05,
        torch.zeros(s, n, dtype=torch.int64),
        log_prob,
        value.view(s + 1, n),
        torch.zeros(s, n),
        features.view(s + 1, n, -1),
        torch.zeros(s + 1, n, 0),
    )


def bits(learner: Learner) -> dict[str, bytes]:
    """The bytes of every parameter, by part."""
    parts = {
        "encoder": learner.agent.encoder,
        "policy": learner.agent.policy,
        "value": learner.agent.value,
        "objective": learner.objective,
    }
    return {
        name: b"".join(p.detach().contiguous().numpy().tobytes() for p in part.parameters())
        for name, part in parts.items()
    }


def moved(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("grad", "by_policy", "by_objective"),
    [
        ("none", {"policy", "value"}, {"objective"}),
        ("rl", {"policy", "value", "encoder"}, {"objective"}),
        ("ssl", {"policy", "value"}, {"objective", "encoder"}),
        ("both", {"policy", "value", "encoder"}, {"objective", "encoder"}),
    ],
)
def test_each_update_moves_exactly_what_it_should(grad, by_policy, by_objective):
    config = small(encoder_grad=grad)
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    start = bits(learner)
    learner.update_policy(rollout, steps, moved=False)
    middle = bits(learner)
    assert moved(start, middle) == by_policy
    learner.update_objective(rollout)
    after = bits(learner)
    assert moved(middle, after) == by_objective
    # Again, now that both optimisers have moments that could push.
    learner.update_policy(rollout, steps, moved=True)
    assert moved(after, bits(learner)) == by_policy


@pytest.mark.parametrize("grad", ["none", "rl", "ssl", "both"])
def test_a_joint_step_moves_the_encoder_whenever_anybody_trains_it(grad):
    config = small(encoder_grad=grad, order="joint")
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    before = bits(learner)
    metrics = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    expected = {"policy", "value", "objective"} | (set() if grad == "none" else {"encoder"})
    assert moved(before, bits(learner)) == expected
    assert {"cluster", "surrogate"} <= metrics.keys()


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


def test_ppo_alone_has_no_objective_and_trains_the_encoder():
    config = small("ppo")
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    before = bits(learner)
    metrics = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    assert moved(before, bits(learner)) == {"encoder", "policy", "value"}
    assert "objective_kl" not in metrics


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


def test_who_does_not_train_the_encoder_moves_no_policy():
    config = small(encoder_grad="rl")
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    metrics = learner.update(rollout, steps)
    assert "objective_kl" not in metrics
    assert "gradient_ratio" not in metrics


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


def test_a_sample_of_a_rollout_is_from_all_over_it():
    steps = torch.arange(256 * 32)
    for count in (128, 1024):
        chosen = sample(steps, count)
        assert len(chosen.unique()) == count
        assert len((chosen % 32).unique()) >= 28  # environments
        assert len((chosen // 1024).unique()) == 8  # and times
    assert torch.equal(sample(steps[:5], 256).sort().values, steps[:5])


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


def test_a_parameter_without_a_gradient_does_not_move_and_a_bound_holds():
    a, b = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    optimiser = Optimiser(({"a": a, "b": b}, 0.1), epsilon=1e-5, max_norm=0.5)
    for _ in range(3):
        optimiser.zero()
        (a * torch.tensor([3.0, 0.0, 4.0])).sum().backward()
        norm = optimiser.step()
        assert float(norm) == pytest.approx(5.0)
        assert a.grad is not None
        assert float(a.grad.norm()) == pytest.approx(0.5, rel=1e-4)
    assert torch.equal(b, torch.ones(3))
    assert not torch.equal(a, torch.ones(3))


def test_a_state_from_before_the_first_step_takes_the_moments_away():
    a = torch.nn.Parameter(torch.ones(2))
    optimiser = Optimiser(({"a": a}, 0.1), epsilon=1e-5, max_norm=0.5)
    fresh = optimiser.state_dict()
    a.sum().backward()
    optimiser.step()
    assert optimiser.state_dict()["a"]
    optimiser.load_state_dict(fresh)
    assert optimiser.state_dict() == {"a": {}}


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_never_reaches_the_weights(poison):
    a = torch.nn.Parameter(torch.ones(2))
    optimiser = Optimiser(({"layer.a": a}, 0.1), epsilon=1e-5, max_norm=0.5)
    (a * poison).sum().backward()
    with pytest.raises(NonFinite, match=r"layer\.a"):
        optimiser.step()
    assert torch.equal(a, torch.ones(2))


def test_averages_are_means_and_refuse_what_is_not_finite():
    averages = Averages()
    for value in (1.0, 2.0, 6.0):
        averages.add(loss=torch.tensor(value))
    averages.add(once=torch.tensor(5.0))
    assert averages.numbers() == {"loss": 3.0, "once": 5.0}
    averages.add(loss=torch.tensor(float("nan")))
    with pytest.raises(NonFinite, match="loss"):
        averages.numbers()


def test_feature_health_of_known_features():
    g = torch.Generator().manual_seed(0)
    features = torch.randn(4096, 8, generator=g) * 2
    features[:, 6:] = 0.0
    figures = feature_health(features)
    assert float(figures["feature_std"]) == pytest.approx(2 * 6 / 8, rel=0.05)
    assert float(figures["dead_features"]) == 0.25
    assert float(figures["feature_rank"]) == pytest.approx(6.0, rel=0.02)
    for constant in (0.0, 3.0):  # dead altogether, which is a figure and no error
        figures = feature_health(torch.full((64, 8), constant))
        assert float(figures["dead_features"]) == 1.0
        assert float(figures["feature_rank"]) == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"envs": 0}, "envs=0"),
        ({"frames": 0}, "frames=0"),
        ({"method": "ctrk"}, "did you mean 'ctrl'"),
        ({"seed": -1}, "seed=-1"),
        (
            {"order": "joint", "representation": RepresentationConfig(minibatches=3)},
            "minibatches=3",
        ),
        ({"encoder": "lattice", "pooling": "mean"}, "use pooling=none"),
        ({"objective": {"keypoints": 200}}, "keypoints=200"),
        ({"objective": {"clusters": 1}}, "clusters=1"),
        ({"objective": {"temperature": 0.0}}, "temperature=0.0"),
    ],
)
def test_nonsense_is_refused_when_it_is_configured(change, words):
    def build() -> Config:
        config, values = preset("ctrl", "default"), dict(change)
        if "objective" in values:
            assert isinstance(config.objective, CTRLConfig)
            values["objective"] = replace(config.objective, **values["objective"])
        return replace(config, **values)

    with pytest.raises(BadInput, match=words):
        build()


def test_a_configuration_survives_json():
    for method in ("ppo", "ctrl"):
        for name in ("default", "paper", "literal", "procgen"):
            config = preset(method, name)
            assert from_dict(to_dict(config)) == config


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


@pytest.mark.parametrize("grad", ["rl", "both"])
def test_a_cut_that_the_gradient_passes_is_refused(grad):
    with pytest.raises(BadInput, match=f"encoder_grad={grad} lets it through"):
        small(split_at="conv", encoder_grad=grad)


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


# --- Two gradients on one encoder


def test_the_objectives_gradient_is_bounded_by_a_multiple_of_the_policys():
    own, policy = torch.tensor(6.0), torch.tensor(2.0)
    assert scale_within(own, policy, 1.0).item() == pytest.approx(1 / 3)
    assert scale_within(own, policy, 5.0).item() == 1  # it is below the bound
    assert scale_within(own, policy, 0.0).item() == 1  # there is none
    assert scale_within(own, torch.tensor(0.0), 1.0).item() == 1  # nothing to be held against
    assert scale_within(torch.tensor(0.0), policy, 1.0).item() == 1


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


def test_a_trial_step_is_adams_without_momentum_and_leaves_no_trace():
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimiser = Optimiser(({"x": parameter}, 0.1), epsilon=1e-8, max_norm=1e9)
    for gradient in ([1.0, 2.0], [3.0, 0.5]):
        parameter.grad = torch.tensor(gradient)
        optimiser.step()
    kept = parameter.detach().clone()
    # v after two steps: .001 (.999 g1^2 + g2^2), over 1 - .999^2.
    scale = [((0.999 * a * a + b * b) / 1.999) ** 0.5 for a, b in ((1, 3), (2, 0.5))]
    with optimiser.tried({"x": torch.tensor([4.0, 1.0])}):
        moved_by = (parameter - kept).tolist()
    assert moved_by == pytest.approx([-0.1 * 4 / scale[0], -0.1 * 1 / scale[1]], rel=1e-4)
    assert torch.equal(parameter, kept)


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


# --- Equal starts


@pytest.mark.parametrize("method", [m for m in METHODS if m != "daac"])
def test_with_equal_seeds_every_method_begins_with_the_same_agent(method):
    """But for DAAC, which has more heads; DIAYN's skills come after what all have."""
    first, ppo_alone = learner_for(small(method)), learner_for(small("ppo"))
    for part in ("encoder", "policy", "value"):
        assert bits(first)[part] == bits(ppo_alone)[part]


@pytest.mark.parametrize("order", ["objective", "policy", "joint"])
@pytest.mark.parametrize("method", ["ctrl", "curl", "spr", "driml", "dbc"])
def test_an_objective_of_weight_zero_equals_ppo_to_the_bit(method, order):
    nothing = RepresentationConfig(minibatches=2, weight=0.0)
    config = small(method, order=order, encoder_grad="both", representation=nothing)
    learner, plain = learner_for(config), learner_for(small("ppo", policy=config.policy))
    rollout = rollout_for(learner, config)
    for _ in range(2):
        for one in (learner, plain):
            one.update(rollout, experience(rollout, rollout.reward, one.config.policy))
    for part in ("encoder", "policy", "value"):
        assert bits(learner)[part] == bits(plain)[part]


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [
        ("ctrl", {"order": "joint"}, "order=joint has no such pass"),
        ("diayn", {}, "method=diayn gives the heads a skill"),
        ("spr", {"order": "policy"}, "method=spr reads the map before the features"),
        ("ctrl", {"encoder_grad": "ssl", "split_at": "conv"}, "split_at=conv gives the heads"),
    ],
)
def test_an_anchor_that_cannot_hold_is_refused(method, change, words):
    anchored = RepresentationConfig(minibatches=2, anchor=1.0)
    with pytest.raises(BadInput, match=rf"representation\.anchor=1\.0 holds .*{words}"):
        small(method, representation=anchored, **change)
