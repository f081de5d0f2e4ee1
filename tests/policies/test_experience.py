"""What a policy learns from: minibatches of steps."""

import pytest
import torch

from crosstraj.policies import ppo
from crosstraj.policies.experience import Experience, minibatches
from crosstraj.policies.ppo import PPOConfig
from tests.helpers import rng


def test_minibatches_cover_every_step_once_in_random_order():
    parts = [part.frame for part in minibatches(torch.zeros(10, 5).bool(), 8, 0, rng())]
    assert len(parts) == 8
    assert {len(p) for p in parts} == {6, 7}
    together = torch.cat(parts)
    assert sorted(together.tolist()) == list(range(50))
    assert together.tolist() != list(range(50))


def test_advantages_are_normalised_within_the_minibatch_or_over_the_rollout():
    data = Experience(*(torch.zeros(4) for _ in range(5)), context=torch.zeros(4, 0))
    data = data._replace(advantage=torch.tensor([1.0, 3.0, 5.0, 7.0]))
    index = torch.tensor([0, 1])
    within = ppo.chosen(data, index, PPOConfig()).advantage
    assert within.tolist() == pytest.approx([-1.0, 1.0])
    over = ppo.chosen(data, index, PPOConfig(advantages="rollout")).advantage
    assert over.tolist() == pytest.approx([-3 / 5**0.5, -1 / 5**0.5])  # variance (9+1+1+9)/4
