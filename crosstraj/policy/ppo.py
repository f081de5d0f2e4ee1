"""PPO (Schulman et al., 2017) as practised on Procgen, with the clipped value loss."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from crosstraj.agent import Agent
from crosstraj.errors import BadInput
from crosstraj.rollout import Rollout, gae


@dataclass(frozen=True)
class PPOConfig:
    """Values of train-procgen; those the CTRL paper gives too are the same but for the epochs."""

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
    value_weight: float = 0.5
    """Weight of the value loss."""
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


class Experience(NamedTuple):
    """One rollout, flat: B = S * N steps."""

    action: Tensor  # [B]
    log_prob: Tensor  # [B] when acting
    value: Tensor  # [B] when acting
    advantage: Tensor  # [B]
    target: Tensor  # [B] advantage + value
    context: Tensor  # [B, X]


class Terms(NamedTuple):
    """The parts of PPO's loss on some steps, each a mean over them."""

    surrogate: Tensor
    value_error: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor


def experience(rollout: Rollout, reward: Tensor, config: PPOConfig) -> Experience:
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


def terms(log_probs: Tensor, value: Tensor, old: Experience, clip: float) -> Terms:
    """What PPO weighs, for steps whose advantages are already normalised."""
    log_prob = log_probs.gather(-1, old.action[:, None]).squeeze(-1)
    log_ratio = log_prob - old.log_prob
    ratio = log_ratio.exp()
    surrogate = -torch.min(ratio * old.advantage, ratio.clamp(1 - clip, 1 + clip) * old.advantage)
    near = old.value + (value - old.value).clamp(-clip, clip)
    error = torch.max((value - old.target).square(), (near - old.target).square())
    return Terms(
        surrogate=surrogate.mean(),
        value_error=0.5 * error.mean(),
        entropy=-(log_probs.exp() * log_probs).sum(-1).mean(),
        kl=(ratio - 1 - log_ratio).mean().detach(),
        clipped=((ratio - 1).abs() > clip).float().mean().detach(),
    )


def backward(
    agent: Agent,
    features_of: Callable[[Tensor], Tensor],
    all_steps: Experience,
    index: Tensor,
    piece: int,
    config: PPOConfig,
) -> Terms:
    """Adds the gradient of PPO's loss on one minibatch, piece by piece to stay in the cache."""
    steps = Experience(*(field.index_select(0, index) for field in all_steps))
    spread = steps.advantage.std(correction=0)
    centred = (steps.advantage - steps.advantage.mean()) / (spread + 1e-8)
    steps = steps._replace(advantage=centred)
    total = None
    for part in torch.arange(len(index), device=index.device).split(piece):
        old = Experience(*(field.index_select(0, part) for field in steps))
        log_probs, value = agent.heads(features_of(index.index_select(0, part)), old.context)
        t = terms(log_probs, value, old, config.clip)
        loss = t.surrogate + config.value_weight * t.value_error - config.entropy_weight * t.entropy
        share = len(part) / len(index)
        (loss * share).backward()
        scaled = [x.detach() * share for x in t]
        total = scaled if total is None else [a + b for a, b in zip(total, scaled, strict=True)]
    assert total is not None
    return Terms(*total)
