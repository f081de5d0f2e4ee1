"""PPO's terms by hand, and its gradient in pieces against the whole minibatch."""

import math

import pytest
import torch

from crosstraj.errors import BadInput
from crosstraj.policies import ppo
from crosstraj.policies.experience import Experience
from crosstraj.policies.ppo import PPO, PPOAgent, PPOConfig
from tests.helpers import random_experience, rng


def steps(action, log_prob, value, advantage, target) -> Experience:
    rows = [torch.tensor(x) for x in (action, log_prob, value, advantage, target)]
    return Experience(*rows, torch.zeros(len(action), 0))


def test_the_terms_of_one_step_by_hand():
    """pi = (1/4, 3/4), a = 1, old probability 1/2: ratio 1.5, outside the clip of 0.2."""
    log_probs = torch.log(torch.tensor([[0.25, 0.75]]))
    old = steps([1], [math.log(0.5)], [2.0], [1.0], [4.0])
    t = ppo.terms(log_probs, torch.tensor([3.0]), old, clip=0.2)
    assert float(t.surrogate) == pytest.approx(-1.2)  # min(1.5, 1.2) * 1
    # V = 3, clipped to 2.2; the larger of (3 - 4)^2 and (2.2 - 4)^2, halved.
    assert float(t.value_error) == pytest.approx(0.5 * 1.8**2)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert float(t.entropy) == pytest.approx(entropy)
    assert float(t.kl) == pytest.approx(1.5 - 1 - math.log(1.5))
    assert float(t.clipped) == 1.0


def test_the_clip_is_pessimistic_for_bad_actions_too():
    log_probs = torch.log(torch.tensor([[0.25, 0.75], [0.75, 0.25]]))
    old = steps([1, 1], [math.log(0.5)] * 2, [0.0] * 2, [-1.0, -1.0], [0.0] * 2)
    t = ppo.terms(log_probs, torch.zeros(2), old, clip=0.2)
    # Ratios 1.5 and 0.5: -min(-1.5, -1.2) = 1.5 and -min(-0.5, -0.8) = 0.8.
    assert float(t.surrogate) == pytest.approx((1.5 + 0.8) / 2)


def test_the_value_error_counts_the_unclipped_value_when_that_is_worse():
    log_probs = torch.log(torch.tensor([[0.5, 0.5]]))
    old = steps([0], [math.log(0.5)], [0.0], [0.0], [0.1])
    t = ppo.terms(log_probs, torch.tensor([1.0]), old, clip=0.2)
    assert float(t.value_error) == pytest.approx(0.5 * 0.9**2)  # clipped: (0.2 - 0.1)^2


def small_agent() -> PPOAgent:
    return PPOAgent((16, 16, 3), 5, encoder="laptop", feature_norm="none", context=0, rng=rng())


@pytest.mark.parametrize("piece", [1, 7, 20, 64])
def test_the_gradient_in_pieces_is_the_gradient_of_the_whole_minibatch(piece):
    agent, data = small_agent(), random_experience(40)
    frames = torch.randint(256, (40, 16, 16, 3), generator=rng(2), dtype=torch.uint8)
    index = torch.randperm(40, generator=rng(3))[:20]
    config = PPOConfig()

    log_probs, value = agent.heads(agent.encoder(frames[index]), data.context[index])
    old = Experience(*(field[index] for field in data))
    spread = old.advantage.std(correction=0)
    old = old._replace(advantage=(old.advantage - old.advantage.mean()) / (spread + 1e-8))
    t = ppo.terms(log_probs, value, old, config.clip)
    (t.surrogate + 0.5 * t.value_error - 0.01 * t.entropy).backward()
    expected = {name: p.grad.clone() for name, p in agent.named_parameters()}
    agent.zero_grad()

    def features_of(chosen: torch.Tensor) -> torch.Tensor:
        return agent.encoder(frames.index_select(0, chosen))

    means = PPO(agent, config).backward(features_of, data, index, piece)
    for name, parameter in agent.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], atol=1e-6, rtol=1e-4)
    for mean, whole in zip(means.values(), t, strict=True):
        torch.testing.assert_close(mean, whole.detach(), atol=1e-6, rtol=1e-5)


def test_stretches_are_refused_with_advantages_centred_in_each_minibatch():
    with pytest.raises(BadInput, match=r"policy\.stretch=32 .* add policy\.advantages=rollout"):
        PPOConfig(stretch=32)
