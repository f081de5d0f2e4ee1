"""DBC against a slow loop, closed forms, its stop-gradients, and its collapse said in words."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crosstraj.config.presets import plain, preset
from crosstraj.learning import watch as health
from crosstraj.objectives.dbc import DBC, Batch, DBCConfig, Gaussian, gaussian_nll
from tests.helpers import rng


class Linear(nn.Module):
    """A stand-in for the encoder: one linear layer on four pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 256, generator=rng(9)))

    def forward(self, frames: Tensor) -> Tensor:
        return frames.flatten(1).float() / 255 @ self.weight


def make_batch(frames: int = 12) -> Batch:
    g = rng(1)
    now = torch.tensor([0, 1, 3, 4, 5, 8])
    return Batch(
        torch.randint(256, (frames, 2, 2, 1), generator=g, dtype=torch.uint8),
        torch.randint(5, (frames,), generator=g),
        torch.randn(frames, generator=g),
        now,
        now + 1,
    )


def smooth(x: float) -> float:
    return 0.5 * x * x if abs(x) < 1 else abs(x) - 0.5


def gaussians(count: int, seed: int = 4) -> Gaussian:
    g = rng(seed)
    return Gaussian(torch.randn(count, 256, generator=g), torch.rand(count, 256, generator=g) + 0.1)


@pytest.mark.parametrize("distance", ["elementwise", "l1"])
def test_the_bisimulation_loss_equals_the_slow_loop(distance):
    method = DBC(DBCConfig(distance=distance), 256, 5, rng())
    latent, reward = torch.randn(4, 256, generator=rng(2)) * 2, torch.tensor([0.0, 0.3, -2.0, 5.0])
    expected, other = gaussians(4), torch.tensor([2, 0, 3, 1])
    errors, distances = [], []
    for i in range(4):
        j = int(other[i])
        gap = float(reward[i] - reward[j])
        per_feature = [
            (
                float(latent[i, d] - latent[j, d]),
                float(expected.mean[i, d] - expected.mean[j, d]),
                float(expected.spread[i, d] - expected.spread[j, d]),
            )
            for d in range(256)
        ]
        if distance == "elementwise":
            for z, m, s in per_feature:
                distances.append(smooth(z))
                errors.append((smooth(z) - smooth(gap) - 0.99 * math.hypot(m, s)) ** 2)
        else:
            total = sum(abs(z) for z, _, _ in per_feature)
            wasserstein = math.sqrt(sum(m * m + s * s for _, m, s in per_feature))
            distances.append(total)
            errors.append((total - abs(gap) - 0.99 * wasserstein) ** 2)
    loss, mean = method.bisimulation(latent, reward, expected, other)
    assert float(loss) == pytest.approx(sum(errors) / len(errors), rel=1e-4)
    assert float(mean) == pytest.approx(sum(distances) / len(distances), rel=1e-4)


@pytest.mark.parametrize("distance", ["elementwise", "l1"])
def test_equal_transitions_are_at_distance_zero_and_want_nothing_else(distance):
    method = DBC(DBCConfig(distance=distance), 256, 5, rng())
    same = torch.ones(2, 256)
    loss, mean = method.bisimulation(
        same, torch.ones(2), Gaussian(same, same), torch.tensor([1, 0])
    )
    assert float(loss) == float(mean) == 0.0


def test_the_metric_trains_both_latents_and_never_the_model():
    method, batch = DBC(DBCConfig(), 256, 5, rng()), make_batch(2)
    latent = torch.randn(2, 256, generator=rng(3)).requires_grad_()
    expected = method.model(latent.detach(), torch.eye(5)[batch.action])
    method.bisimulation(latent, batch.reward, expected, torch.tensor([1, 1]))[0].backward()
    assert latent.grad is not None
    assert latent.grad[0].any()  # i, whose partner is 1
    assert latent.grad[1].any()  # the partner
    assert all(p.grad is None for p in method.model.parameters())


def test_the_likelihood_is_the_gaussian_density_and_its_target_has_no_gradient():
    expected, true = gaussians(3), torch.randn(3, 256, generator=rng(8))
    density = torch.distributions.Normal(*expected).log_prob(true)
    constant = 0.5 * math.log(2 * math.pi)
    torch.testing.assert_close(gaussian_nll(expected, true), -(density + constant).mean())
    nothing = Gaussian(torch.zeros(0, 256), torch.ones(0, 256))
    assert float(gaussian_nll(nothing, torch.zeros(0, 256))) == 0.0

    # One pair, from a frame whose latent is constant to one that depends on the encoder: were the
    # target live, the encoder would learn from it.
    config = DBCConfig(bisimulation_weight=0.0, layer_norm=False, model_trains_encoder=True)
    method = DBC(config, 256, 5, rng())
    batch, encoder = make_batch(2), Linear()
    batch = batch._replace(now=torch.tensor([0]), later=torch.tensor([1]))
    batch.frames[0] = 0
    with torch.no_grad():
        for parameter in method.reward_head.parameters():
            parameter.zero_()
    method.loss(encoder, batch, rng())[0].backward()
    assert not encoder.weight.grad.any()
    assert method.model.mean.weight.grad.any()


def gradients(**values: Any) -> dict[str, Tensor]:
    """Of one loss on given weights and draws; the encoder's beside those of the method's parts."""
    method, encoder = DBC(DBCConfig(**values), 256, 5, rng()), Linear()
    method.loss(encoder, make_batch(), rng(3))[0].backward()
    parts = {name: p.grad for name, p in method.named_parameters() if p.grad is not None}
    return parts | {"encoder": encoder.weight.grad}


def test_only_the_metric_trains_the_encoder_unless_the_model_may():
    cut, whole = gradients(), gradients(model_trains_encoder=True)
    assert set(cut) == set(whole)
    latents = {"encoder", "norm.weight", "norm.bias"}
    for name in cut:  # the heads learn from both losses as ever, and bit for bit the same
        assert torch.equal(cut[name], whole[name]) == (name not in latents)

    without = gradients(bisimulation_weight=0.0)
    assert not any(without[name].any() for name in latents)
    assert gradients(bisimulation_weight=0.0, model_trains_encoder=True)["encoder"].any()

    # What is left is the gradient of the metric by itself, to the bit.
    method, encoder, batch, draws = DBC(DBCConfig(), 256, 5, rng()), Linear(), make_batch(), rng(3)
    latent = method.norm(encoder(batch.frames))
    with torch.no_grad():
        expected = method.model(latent, torch.eye(5)[batch.action])
    torch.randn(latent.shape, generator=draws)  # the sampled latent of the reward's error
    other = torch.randperm(len(latent), generator=draws)
    metric, _ = method.bisimulation(latent, batch.reward, expected, other)
    (0.5 * metric).backward()
    assert torch.equal(encoder.weight.grad, cut["encoder"])
    assert torch.equal(method.norm.weight.grad, cut["norm.weight"])


def test_the_paper_of_the_comparison_has_the_authors_gradients_and_the_default_the_cut():
    trained = {name: preset("dbc", name).objective for name in ("default", "paper")}
    assert [x.model_trains_encoder for x in trained.values()] == [False, True]


def test_a_step_that_ended_its_episode_counts_for_its_reward_and_not_for_the_likelihood():
    method, encoder, batch = DBC(DBCConfig(), 256, 5, rng()), Linear(), make_batch()
    _, before = method.loss(encoder, batch, rng())
    ended = 2  # not in `now`: no next frame, though frame 3 is here
    reward = batch.reward.clone()
    reward[ended] += 3.0
    _, after = method.loss(encoder, batch._replace(reward=reward), rng())
    assert float(after["likelihood"].detach()) == float(before["likelihood"].detach())
    for name in ("reward_error", "bisimulation"):
        assert float(after[name].detach()) != float(before[name].detach())


def test_the_learnt_metric_of_two_states_is_the_reward_gap_over_one_minus_gamma():
    """States 0 and 1 stay where they are and pay 0 and 1: their distance is 1 + gamma * itself."""

    class Line(nn.Module):
        """One feature; in one dimension the paper's L1 and the Wasserstein distance agree."""

        def __init__(self) -> None:
            super().__init__()
            self.place = nn.Parameter(torch.tensor([[0.1], [-0.1]]))

        def forward(self, frames: Tensor) -> Tensor:
            place = self.place.index_select(0, frames[:, 0, 0, 0].long())
            return torch.cat([place, torch.zeros(len(place), 255)], dim=1)

    # The model learns where the states lie by likelihood, the states their distance by the metric.
    # Their full sum, which also moves latents towards what is easily predicted, comes close slowly.
    config = DBCConfig(distance="l1", discount=0.8, layer_norm=False, hidden=128)
    method, line = DBC(config, 256, 1, rng()), Line()
    state, action, other = torch.tensor([0, 1]), torch.ones(2, 1), torch.tensor([1, 0])
    frames = state.to(torch.uint8).view(2, 1, 1, 1)
    optimiser = torch.optim.Adam(
        [
            {"params": method.model.parameters(), "lr": 3e-3},
            {"params": line.parameters(), "lr": 0.1},
        ]
    )
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 500)
    for _ in range(500):
        latent = line(frames)
        expected = method.model(latent.detach(), action)
        metric, distance = method.bisimulation(latent, state.float(), expected, other)
        optimiser.zero_grad()
        (metric + gaussian_nll(expected, latent.detach())).backward()
        optimiser.step()
        decay.step()
    assert float(distance) == pytest.approx(1 / (1 - 0.8), rel=0.05)


def test_a_collapse_is_said_in_words():
    config = plain("dbc")
    fine = {"latent_std": 0.8, "latent_distance": 0.5}
    assert health.complaints(fine, config) == {}
    (sentence,) = health.complaints(fine | {"latent_std": 0.004}, config).values()
    assert "collapsed" in sentence
    assert "0.0040" in sentence
    method, batch = DBC(DBCConfig(), 256, 5, rng()), make_batch()
    _, metrics = method.loss(lambda frames: torch.ones(len(frames), 256), batch, rng())
    figures = {name: float(value.detach()) for name, value in metrics.items()}
    assert "collapse" in health.complaints(figures, config)


def test_the_objective_sees_the_rewards_that_the_policy_learns_from(monkeypatch):
    from crosstraj import loop
    from crosstraj.learning.state import Training
    from tests.short_runs import small

    training = Training(replace(small("dbc", "default"), frames=256))
    seen = []
    make = training.learner.objective.minibatches
    monkeypatch.setattr(
        training.learner.objective,
        "minibatches",
        lambda rollout, *rest: seen.append(rollout.reward.clone()) or make(rollout, *rest),
    )
    scale = training.normaliser.__call__
    monkeypatch.setattr(training, "normaliser", lambda raw, done: scale(raw + 1.0, done) + 0.5)
    loop.learn(training)
    raw = training.collector.rollout.reward
    assert not torch.equal(seen[0], raw)
    assert float(seen[0].min()) >= 0.5
