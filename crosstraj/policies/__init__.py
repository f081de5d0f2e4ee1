"""How an agent acts, and the losses that teach it to act better. One file each, and one line here.

Start with `agent.py` (encoder and heads) and `policy.py` (the contract), then `ppo.py`, `daac.py`
and `ppg.py` (an agent and its loss each; the last two share `two_networks.py`). `experience.py`
holds a rollout's steps as these losses read them. May import: nn, envs, data.
"""

from typing import Any, NamedTuple

from crosstraj.policies.agent import Agent
from crosstraj.policies.daac import DAAC, DAACAgent, DAACConfig
from crosstraj.policies.experience import PolicyConfig
from crosstraj.policies.policy import Policy
from crosstraj.policies.ppg import PPG, PPGAgent, PPGConfig
from crosstraj.policies.ppo import PPO, PPOAgent, PPOConfig

__all__ = ["POLICIES", "Agent", "Policy", "PolicyConfig", "make_policy"]


class Kind(NamedTuple):
    agent: type[Agent]
    policy: type[Policy[Agent]]


POLICIES: dict[type[PolicyConfig], Kind] = {
    PPOConfig: Kind(PPOAgent, PPO),
    DAACConfig: Kind(DAACAgent, DAAC),
    PPGConfig: Kind(PPGAgent, PPG),
}


def make_policy(
    config: PolicyConfig, image: tuple[int, int, int], actions: int, **values: Any
) -> Policy[Agent]:
    """The policy of these values with a new agent; `values` are those of `Agent`."""
    kind: Any = POLICIES[type(config)]
    made: Policy[Agent] = kind.policy(kind.agent(image, actions, **values), config)
    return made
