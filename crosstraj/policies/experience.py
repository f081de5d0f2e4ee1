"""What every policy learns from: the steps of a rollout with their advantages, in minibatches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from crosstraj.data.advantages import gae
from crosstraj.data.rollout import Rollout
from crosstraj.data.within_episodes import Stretches, stretches
from crosstraj.errors import check_range


@dataclass(frozen=True)
class PolicyConfig:
    """What every policy has: the values of train-procgen, and of the CTRL paper where it has any.

    The paper has one epoch.
    """

    epochs: int = 1
    """Passes over a rollout (paper 1; the Procgen community 3)."""
    minibatches: int = 8
    """Minibatches, and so optimiser steps, per pass."""
    stretch: int = 0
    """Build minibatches of this many consecutive steps of an episode; 0 shuffles single steps."""
    learning_rate: float = 5e-4
    """Adam's learning rate."""
    head_rate: float = 1.0
    """Learning-rate multiplier for the policy and value heads (DAAC's value network is not
    affected)."""
    adam_epsilon: float = 1e-5
    """Adam's epsilon."""
    max_grad_norm: float = 0.5
    """Clip the norm of the gradient to this value."""
    clip: float = 0.2
    """PPO's clip range, for the probability ratio and for the value."""
    target_kl: float = 0.0
    """Stop learning from a rollout after the first minibatch on which the policy is further than
    this from the one that played it; 0 never stops."""
    entropy_weight: float = 0.01
    """Weight of the entropy bonus."""
    discount: float = 0.999
    """Discount factor gamma."""
    trace: float = 0.95
    """Lambda of generalised advantage estimation (GAE)."""

    why_no_anchor: ClassVar[str] = ""
    """Why the heads cannot be held in place in a pass of the objective's, where they cannot."""
    why_no_memory: ClassVar[str] = ""
    """Why the policy cannot learn on the beliefs of an agent with a memory, where it cannot."""

    def __post_init__(self) -> None:
        check_range(self, "policy.", "epochs", "minibatches", at_least=1)
        check_range(self, "policy.", "stretch", "target_kl", at_least=0)
        rates = ("learning_rate", "head_rate", "adam_epsilon")
        check_range(self, "policy.", *rates, at_least=0)
        check_range(self, "policy.", "max_grad_norm", "clip", above=0)
        check_range(self, "policy.", "discount", "trace", at_least=0, at_most=1)

    def for_game(self, game: str, *, per_game: bool = False) -> Self:
        """The values to play this game with, where a table of games is asked for, now or before."""
        return self

    def in_stretches(self, length: int) -> Self:
        """These values, in stretches of about this length where they are not in any."""
        return replace(self, stretch=self.stretch or length)

    def instead_of(self, other: "PolicyConfig") -> Self:
        """These values, with minibatches as another policy has them, whose place they take."""
        same = replace(self, minibatches=other.minibatches, target_kl=other.target_kl)
        return same.in_stretches(other.stretch) if other.stretch else same


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


def minibatches(
    done: Tensor, count: int, stretch: int, rng: torch.Generator
) -> Iterator[Stretches]:
    """All steps of a rollout in `count` parts: shuffled, or in stretches where it says how long."""
    if stretch:
        yield from stretches(done, count, stretch, rng)
        return
    for index in torch.randperm(done.numel(), generator=rng).tensor_split(count):
        yield Stretches(index, torch.arange(len(index)))


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
