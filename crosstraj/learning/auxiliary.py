"""PPG's auxiliary phase: passes over all rollouts since the last one; the policy stays in place."""

from functools import partial
from typing import cast

import torch
from torch import Tensor

from crosstraj.data.rollout import Rollout
from crosstraj.learning.gradient_routing import Parts
from crosstraj.learning.optimiser import Averages
from crosstraj.nn.memory import pixels
from crosstraj.policies.experience import Experience, backward_in_pieces
from crosstraj.policies.ppg import PPG, AuxiliaryTerms, Kept


def update_auxiliary(parts: Parts, rollout: Rollout, steps: Experience) -> dict[str, float]:
    """The phase, where this rollout was the last that it waited for; its figures."""
    if not parts.policy.phasic:
        return {}
    policy = cast(PPG, parts.policy)
    if not policy.keep(pixels(rollout.frames()), steps):
        return {}
    averages, before = Averages(), opinions(parts, policy)
    count = parts.config.policy.minibatches * len(policy.rollouts)
    for _ in range(policy.config.auxiliary_epochs):
        order = torch.randperm(len(before), generator=parts.streams.policy)
        for index in order.tensor_split(count):
            parts.auxiliary_optimiser.zero()
            terms = backward(parts, policy, index, before)
            averages.add(auxiliary_grad_norm=parts.auxiliary_optimiser.step(), **terms._asdict())
    policy.rollouts.clear()
    return averages.numbers()


@torch.no_grad()
def opinions(parts: Parts, policy: PPG) -> Tensor:
    """Log-probabilities of all actions in all kept frames, as they are now: [R * B, actions]."""
    read = partial(policy.agent.read, parts.stepwise_encode(policy.agent.encoder, live=False))
    known = (policy.agent.log_probs(read(kept.frames), kept.context) for kept in policy.rollouts)
    return torch.cat(list(known))


def backward(parts: Parts, policy: PPG, index: Tensor, before: Tensor) -> AuxiliaryTerms:
    """Adds the gradient of the phase's loss on some of the kept steps; returns its parts."""
    agent, index = policy.agent, index.sort().values
    read = partial(agent.read, parts.stepwise_encode(agent.encoder, live=parts.by_policy))
    read_values = parts.stepwise_encode(agent.value_encoder, live=True)

    def loss_of(part: Tensor) -> tuple[Tensor, AuxiliaryTerms]:
        place = index.index_select(0, part)
        steps, old = at(policy.rollouts, place), before.index_select(0, place.to(before.device))
        return policy.auxiliary_loss(read(steps.frames), read_values(steps.frames), old, steps)

    here = torch.device("cpu")
    means = backward_in_pieces(len(index), parts.steps_at_a_time, here, loss_of)
    return AuxiliaryTerms(*means)


def at(rollouts: list[Kept], index: Tensor) -> Kept:
    """Steps by their places [B], ascending, in all rollouts one after another, of equal size."""
    size, device = len(rollouts[0].target), rollouts[0].target.device
    chosen = [
        (kept, (index[index // size == number] % size).to(device))
        for number, kept in enumerate(rollouts)
    ]
    parts = ([field.index_select(0, own) for field in kept] for kept, own in chosen)
    return Kept(*(torch.cat(field) for field in zip(*parts, strict=True)))
