"""The networks of a run, agent and objective: how they are made, and how they take on weights."""

import torch
from torch import Tensor

from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.nn.encoders import Impala
from crosstraj.objectives import Objective, make_objective
from crosstraj.policies.agent import Agent
from crosstraj.policies.daac import DAACAgent, DAACConfig
from crosstraj.randomness import OBJECTIVES, generator

Weights = dict[str, dict[str, Tensor]]  # by part ("agent", "objective") and name


def make_networks(
    config: Config, image: tuple[int, int, int], actions: int, rng: torch.Generator
) -> tuple[Agent, Objective]:
    """Agent and objective as they are before the first update, on the configuration's device.

    The agent's weights have a stream of their own: with equal seeds every method begins with the
    same encoder and heads.
    """
    device = torch.device(config.machine.device)
    heads = generator(config.seed, OBJECTIVES)
    objective = make_objective(config.objective, actions, heads).to(device)
    kind = DAACAgent if isinstance(config.policy, DAACConfig) else Agent
    agent = kind(
        image,
        actions,
        encoder=config.encoder,
        feature_norm=config.feature_norm,
        context=objective.context,
        rng=rng,
        split_at=config.split_at,
        pooling=config.pooling,
    ).to(device)
    for encoder in encoders_of(agent):
        encoder.autocast = config.machine.bfloat16
        if config.machine.kernels == "native":
            encoder.use_native()
    objective.attach(agent.encoder)
    return agent, objective


def encoders_of(agent: Agent) -> list[Impala]:
    """One, or two where the values have a network of their own."""
    return [part for part in agent.modules() if isinstance(part, Impala)]


def put_on(weights: Weights, agent: Agent, objective: Objective) -> None:
    """Copy stored weights into networks, which must be those that they were taken from."""
    try:
        agent.load_state_dict(weights["agent"])
        objective.load_state_dict(weights.get("objective", {}))
    except (RuntimeError, KeyError) as error:
        first = str(error).strip().splitlines()[0]
        raise BadInput(f"the weights do not fit the run's config.json: {first}") from error
