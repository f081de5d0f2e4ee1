"""PPO (Schulman et al., 2017) as practised on Procgen, with the clipped value loss."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from crosstraj.agent import Agent
from crosstraj.errors import BadInput
from crosstraj.rollout import Rollout, gae


@dataclass(frozen=True)
class PolicyConfig:
    """What every policy has: the values of train-procgen, and of the CTRL paper where it has any.

    The paper has one epoch.
    """

    epochs: int = 1
    """Passes over a rollout (paper 1; the Procgen community 3)."""
    minibatches: int = 8
    """Optimiser steps per pass."""
    learning_rate: float = 5e-4
    """Adam's step size."""
    adam_epsilon: float = 1e-5
    """Adam's epsilon."""
    max_grad_norm: float = 0.5
    """Bound on the norm of the gradient."""
    clip: float = 0.2
    """How far the probability ratio, and the value, may move from the rollout's."""
    entropy_weight: float = 0.01
    """Weight of the entropy bonus."""
    discount: float = 0.999
    """Gamma of the return."""
    trace: float = 0.95
    """Lambda of GAE."""

    def __post_init__(self) -> None:
        for name in ("epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise BadInput(f"policy.{name}={getattr(self, name)}: must be at least 1")
        for name in ("discount", "trace"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadInput(f"policy.{name}={getattr(self, name)}: must lie in [0, 1]")


@dataclass(frozen=True)
class PPOConfig(PolicyConfig):
    """One network for the policy and its values."""

    kind: Literal["ppo"] = "ppo"
    """ppo, or daac: the same objective under another policy."""
    value_weight: float = 0.5
    """Weight of the value loss."""


class Experience(NamedTuple):
    """One rollout, flat: B = S * N steps."""

    action: Tensor  # [B]
    log_prob: Tensor  # [B] when acting
    value: Tensor  # [B] when acting
    advantage: Tensor  # [B]
    target: Tensor  # [B] advantage + value
    context: Tensor  # [B, X]

    def at(self, index: Tensor) -> "Experience":
        return Experience(*(field.index_select(0, index) for field in self))


class PolicyTerms(NamedTuple):
    """What clipping the probability ratio gives on some steps, each a mean over them."""

    surrogate: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor


class Terms(NamedTuple):
    """The parts of PPO's loss on some steps, each a mean over them."""

    surrogate: Tensor
    value_error: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor


def experience(rollout: Rollout, reward: Tensor, config: PolicyConfig) -> Experience:
    """Advantages and value targets from the normalised rewards of a rollout."""
    advantage = gae(
        reward,
        rollout.value,
        rollout.done,
        rollout.final_value,
        discount=config.discount,
        trace=config.trace,
    )
    value = rollout.value[:-1]
    return Experience(
        action=rollout.action.flatten(),
        log_prob=rollout.log_prob.flatten(),
        value=value.flatten(),
        advantage=advantage.flatten(),
        target=(advantage + value).flatten(),
        context=rollout.context[:-1].flatten(0, 1),
    )


def minibatches(size: int, count: int, rng: torch.Generator) -> Iterator[Tensor]:
    """A random order of `size` steps in `count` parts."""
    return iter(torch.randperm(size, generator=rng).tensor_split(count))


def policy_terms(log_probs: Tensor, old: Experience, clip: float) -> PolicyTerms:
    """The clipped surrogate, for steps whose advantages are already normalised."""
    log_prob = log_probs.gather(-1, old.action[:, None]).squeeze(-1)
    log_ratio = log_prob - old.log_prob
    ratio = log_ratio.exp()
    surrogate = -torch.min(ratio * old.advantage, ratio.clamp(1 - clip, 1 + clip) * old.advantage)
    return PolicyTerms(
        surrogate=surrogate.mean(),
        entropy=-(log_probs.exp() * log_probs).sum(-1).mean(),
        kl=(ratio - 1 - log_ratio).mean().detach(),
        clipped=((ratio - 1).abs() > clip).float().mean().detach(),
    )


def value_error(value: Tensor, old: Experience, clip: float) -> Tensor:
    """Half the squared error, or that of the value kept near the rollout's if that is larger."""
    near = old.value + (value - old.value).clamp(-clip, clip)
    return 0.5 * torch.max((value - old.target).square(), (near - old.target).square()).mean()


def terms(log_probs: Tensor, value: Tensor, old: Experience, clip: float) -> Terms:
    """What PPO weighs, for steps whose advantages are already normalised."""
    surrogate, entropy, kl, clipped = policy_terms(log_probs, old, clip)
    return Terms(surrogate, value_error(value, old, clip), entropy, kl, clipped)


def backward(
    agent: Agent,
    features_of: Callable[[Tensor], Tensor],
    all_steps: Experience,
    index: Tensor,
    piece: int,
    config: PPOConfig,
) -> Terms:
    """Adds the gradient of PPO's loss on one minibatch."""
    steps = all_steps.at(index)
    spread = steps.advantage.std(correction=0)
    centred = (steps.advantage - steps.advantage.mean()) / (spread + 1e-8)
    steps = steps._replace(advantage=centred)

    def loss_of(part: Tensor) -> tuple[Tensor, Terms]:
        old = steps.at(part)
        log_probs, value = agent.heads(features_of(index.index_select(0, part)), old.context)
        t = terms(log_probs, value, old, config.clip)
        loss = t.surrogate + config.value_weight * t.value_error - config.entropy_weight * t.entropy
        return loss, t

    return Terms(*backward_in_pieces(len(index), piece, index.device, loss_of))


def backward_in_pieces(
    size: int,
    piece: int,
    device: torch.device,
    loss_of: Callable[[Tensor], tuple[Tensor, tuple[Tensor, ...]]],
) -> list[Tensor]:
    """Adds the gradient of a mean over `size` steps, piece by piece to stay in the cache.

    `loss_of` some positions is their loss and its terms; the means of the terms are returned.
    """
    totals: list[Tensor] = []
    for part in torch.arange(size, device=device).split(piece):
        loss, means = loss_of(part)
        share = len(part) / size
        (loss * share).backward()
        scaled = [mean.detach() * share for mean in means]
        totals = [a + b for a, b in zip(totals, scaled, strict=True)] if totals else scaled
    return totals
