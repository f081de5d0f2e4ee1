"""Features are what the policy head of any agent reads."""

from dataclasses import replace

import pytest
import torch

from crosstraj.analysis.probes.agents import Judged, features_of
from crosstraj.analysis.probes.record import opinion
from crosstraj.config.presets import plain
from crosstraj.envs import make_envs
from crosstraj.learning.load import untrained


@pytest.mark.parametrize(
    ("method", "kind", "split_at"),
    [("ppo", "impala", "fc"), ("ppo", "laptop", "conv"), ("daac", "laptop", "fc")],
)
def test_features_are_what_the_policy_head_of_any_agent_reads(method, kind, split_at):
    config = replace(
        plain(method),
        env="starpilot",
        encoder=kind,
        encoder_grad="none",  # the only one that goes with every cut
        split_at=split_at,
    )
    envs = make_envs("starpilot", 4, levels="train", procgen=config.procgen, seed=0)
    agent = untrained(config).agent
    frames, _ = envs.reset()
    features = features_of(Judged("any", untrained(config)), frames)
    read = torch.from_numpy(features).float()
    policy = agent.policy(read).log_softmax(-1)
    torch.testing.assert_close(policy, opinion(agent, torch.from_numpy(frames)))
