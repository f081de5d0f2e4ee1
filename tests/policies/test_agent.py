"""Agents: their actions, and heads on encoders of any width and kind."""

import math

import pytest
import torch

from crosstraj.nn.encoders import Impala
from crosstraj.policies.daac import DAACAgent
from crosstraj.policies.ppo import PPOAgent
from tests.helpers import rng
from tests.nn.frames import frames


def test_actions_follow_the_policy_and_its_own_generator():
    agent = PPOAgent((16, 16, 3), 4, encoder="laptop", feature_norm="none", context=0, rng=rng())
    with torch.no_grad():
        agent.policy.weight.zero_()
        agent.policy.bias.copy_(torch.log(torch.tensor([0.1, 0.2, 0.3, 0.4])))
    many = frames(1, 16).expand(4000, -1, -1, -1)
    before = torch.get_rng_state()
    decision = agent.act(many, torch.zeros(4000, 0), rng())
    assert torch.equal(torch.get_rng_state(), before)
    shares = torch.bincount(decision.action, minlength=4) / 4000
    expected = torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert (shares - expected).abs().max() < 5 * math.sqrt(0.25 / 4000)
    torch.testing.assert_close(decision.log_prob, expected.log()[decision.action])
    again = agent.act(many, torch.zeros(4000, 0), rng())
    assert torch.equal(again.action, decision.action)
    greedy = agent.act(many, torch.zeros(4000, 0), rng(), greedy=True)
    assert (greedy.action == 3).all()


def test_cut_at_the_map_an_agent_reads_it_unpooled():
    agent = PPOAgent(
        (64, 64, 3),
        15,
        encoder="slim",
        feature_norm="none",
        context=0,
        rng=rng(),
        split_at="conv",
        pooling="mean",
    )
    read = agent.read(agent.encoder, frames(2))
    assert torch.equal(read, agent.encoder.map(frames(2)).flatten(1))
    assert agent.top[0].weight.shape == (256, 2048)
    assert agent.encoder.last.weight.shape == (256, 32)


@pytest.mark.parametrize("kind", [PPOAgent, DAACAgent])
@pytest.mark.parametrize("encoder", ["laptop", "lattice"])
def test_heads_stand_on_an_encoder_of_any_width_and_kind(kind, encoder):
    agent = kind(
        (16, 16, 3), 5, encoder=encoder, feature_norm="layer", context=3, rng=rng(), features=24
    )
    decision = agent.act(frames(4, 16), torch.eye(3)[[0, 1, 2, 0]], rng())
    assert decision.features.shape == (4, 24)
    assert decision.value.shape == (4,)
    assert isinstance(agent.encoder, Impala) == (encoder == "laptop")
