"""The networks of a run, policy and objective: how they are made, and how they take on weights."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.learning.kernels import settled
from crosstraj.nn.encoders import ImageEncoder, Impala
from crosstraj.objectives import Objective
from crosstraj.policies import Agent, Policy, make_policy
from crosstraj.policies.ppo import PPOAgent
from crosstraj.randomness import OBJECTIVES, generator, own_global_generator

Weights = dict[str, dict[str, Tensor]]  # by part ("agent", "objective") and name


def make_networks(
    config: Config, image: tuple[int, int, int], actions: int, rng: torch.Generator
) -> tuple[Policy[Agent], Objective]:
    """The policy, with its agent, and the objective before the first update, on their device.

    The agent's weights have a stream of their own: with equal seeds every method begins with the
    same encoder and heads.
    """
    config, _ = settled(config, image)
    device = torch.device(config.machine.device)
    heads = generator(config.seed, OBJECTIVES)
    with own_global_generator(heads):
        objective = config.objective_kind(config.objective, config.features, actions, heads)
        objective.to(device)
    policy = make_policy(
        config.policy,
        image,
        actions,
        encoder=config.encoder,
        feature_norm=config.feature_norm,
        context=objective.context,
        rng=rng,
        split_at=config.split_at,
        pooling=config.pooling,
        memory=0 if config.memory == "none" else config.memory_width,
        burn_in=config.memory_burn_in,
    )
    policy.agent.to(device)
    for encoder in encoders_of(policy.agent):
        encoder.autocast = config.machine.precision == "bf16"
        if isinstance(encoder, Impala) and config.machine.kernels == "native":
            encoder.use_native()
    with own_global_generator(heads):
        objective.attach(policy.agent.encoder)
    if objective.reads_heads:
        assert isinstance(policy.agent, PPOAgent)  # the configuration has seen to it
        objective.opinions = policy.agent.opinions
    return policy, objective


class Start(NamedTuple):
    """Weights of another run that training starts from."""

    place: Path
    method: str
    weights: Weights

    def put_on(self, agent: Agent, objective: Objective, method: str) -> None:
        """The agent's weights; the objective's, too, where the method is the same.

        Another objective begins as ever, and a target network of its own as a copy of the encoder.
        """
        try:
            agent.load_state_dict(self.weights["agent"])
            objective.attach(agent.encoder)
            if method == self.method:
                objective.load_state_dict(self.weights.get("objective", {}))
        except (RuntimeError, KeyError) as error:
            first = str(error).strip().splitlines()[0]
            raise BadInput(
                f"the weights of {self.place} do not fit this run ({first}); give it the same "
                "encoder, pooling, memory, policy and environment"
            ) from error


def encoders_of(agent: Agent) -> list[ImageEncoder]:
    """One, or two where the values have a network of their own."""
    return [part for part in agent.modules() if isinstance(part, ImageEncoder)]


def put_on(weights: Weights, agent: Agent, objective: Objective) -> None:
    """Copy stored weights into networks, which must be those that they were taken from."""
    try:
        agent.load_state_dict(weights["agent"])
        objective.load_state_dict(weights.get("objective", {}))
    except (RuntimeError, KeyError) as error:
        first = str(error).strip().splitlines()[0]
        raise BadInput(f"the weights do not fit the run's config.json: {first}") from error
