"""Advantages against the sum that defines them, and the scale of rewards against a slow loop."""

import pytest
import torch

from crosstraj.data.advantages import gae
from tests.helpers import rng


def slow_gae(reward, value, done, final, discount, trace):
    """A_t = sum_k (discount trace)^k delta_{t+k} within the episode, term by term."""
    steps, envs = reward.shape
    advantage = torch.zeros(steps, envs, dtype=torch.float64)
    for n in range(envs):
        for t in range(steps):
            for k in range(t, steps):
                following = final[k, n] if done[k, n] else value[k + 1, n]
                delta = reward[k, n] + discount * following - value[k, n]
                advantage[t, n] += (discount * trace) ** (k - t) * delta
                if done[k, n]:
                    break
    return advantage


@pytest.mark.parametrize("seed", range(5))
def test_gae_equals_the_sum_of_discounted_errors_within_each_episode(seed):
    g = rng(seed)
    reward, value = torch.randn(9, 4, generator=g), torch.randn(10, 4, generator=g)
    done = torch.rand(9, 4, generator=g) < 0.3
    done[-1, 0], done[0, 1] = True, True
    final = torch.randn(9, 4, generator=g) * (done & (torch.rand(9, 4, generator=g) < 0.5))
    expected = slow_gae(reward.double(), value.double(), done, final.double(), 0.9, 0.8)
    result = gae(reward, value, done, final, discount=0.9, trace=0.8)
    torch.testing.assert_close(result.double(), expected, atol=1e-5, rtol=1e-5)


def test_gae_of_an_endless_constant_reward_is_what_is_missing_to_the_infinite_sum():
    """With V at its fixed point 1 / (1 - discount) every error is zero; one reward short shows."""
    value = torch.full((6, 1), 10.0)
    none = torch.zeros(5, 1)
    at_rest = gae(torch.ones(5, 1), value, none.bool(), none, discount=0.9, trace=0.95)
    torch.testing.assert_close(at_rest, none, atol=1e-5, rtol=0)
    short = gae(torch.zeros(5, 1), value, none.bool(), none, discount=0.9, trace=0.95)
    assert float(short[-1]) == pytest.approx(-1.0, abs=1e-5)
