"""The scale of rewards: the exact order of the reference, and a restored one."""

import math

import pytest
import torch

from crosstraj.data.rewards import RewardNormaliser
from tests.helpers import rng


class SlowNormaliser:
    """All discounted returns ever seen, kept in a list, and the mass the count starts with."""

    def __init__(self, envs: int) -> None:
        self.running, self.seen = [0.0] * envs, list[float]()

    def __call__(self, reward, done):
        scaled = []
        for r, d in zip(reward.tolist(), done.tolist(), strict=True):
            self.running = [0.99 * g + x for g, x in zip(self.running, r, strict=True)]
            self.seen += self.running
            # Prior: 1e-4 samples with mean 0 and variance 1.
            total = len(self.seen) + 1e-4
            mean = sum(self.seen) / total
            variance = (sum(x * x for x in self.seen) + 1e-4) / total - mean**2
            scaled.append([max(-10.0, min(10.0, x / math.sqrt(variance + 1e-8))) for x in r])
            self.running = [0.0 if e else g for g, e in zip(self.running, d, strict=True)]
        return torch.tensor(scaled)


def test_rewards_are_scaled_in_the_exact_order_of_the_reference():
    fast, slow = RewardNormaliser(3), SlowNormaliser(3)
    g = rng()
    for _ in range(3):  # state carries over from rollout to rollout
        reward = torch.randn(20, 3, generator=g) * 5
        done = torch.rand(20, 3, generator=g) < 0.2
        torch.testing.assert_close(fast(reward, done), slow(reward, done), atol=1e-4, rtol=1e-4)


def test_the_first_reward_is_scaled_by_a_variance_that_already_knows_it():
    """One environment, reward 1: variance of {1} with the 1e-4 prior, then clipped at 10."""
    normaliser = RewardNormaliser(1)
    variance = (1 + 1e-4) / (1 + 1e-4) - (1 / (1 + 1e-4)) ** 2
    expected = min(10.0, 1 / math.sqrt(variance + 1e-8))
    result = normaliser(torch.ones(1, 1), torch.zeros(1, 1, dtype=torch.bool))
    assert float(result) == pytest.approx(expected, rel=1e-5)


def test_a_restored_normaliser_goes_on_exactly():
    g = rng()
    first = RewardNormaliser(4)
    first(torch.randn(8, 4, generator=g), torch.rand(8, 4, generator=g) < 0.2)
    second = RewardNormaliser(4)
    second.load_state_dict(first.state_dict())
    reward, done = torch.randn(8, 4, generator=g), torch.rand(8, 4, generator=g) < 0.2
    assert torch.equal(first(reward, done), second(reward, done))
