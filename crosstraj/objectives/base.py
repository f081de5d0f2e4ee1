"""The contract of an objective: what a representation-learning method adds to the loop.

The base class is itself an objective: it learns nothing and asks for nothing (PPO alone).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from crosstraj.rollout import Rollout

Metrics = dict[str, Tensor]  # named 0-d tensors; numbers only when they are recorded


class Encoder(Protocol):
    """Frames [B, H, W, C] uint8 -> features [B, D]; live or gradient-free: the trainer decides."""

    def __call__(self, frames: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class NoObjective:
    """Nothing beside the policy."""


class Objective(nn.Module):
    """Owns its heads, targets, prototypes and queues: all of it is in `state_dict`.

    An objective does not log, print, move devices, count steps, detach `encode` or touch a global
    generator; it returns its loss and the evidence for it.
    """

    context: int = 0  # extra input width of the policy and value heads: skills

    def minibatches(self, rollout: Rollout, count: int, rng: torch.Generator) -> Iterator[Any]:
        """The batches of one epoch over this rollout; each is what `loss` understands."""
        return iter(())

    def loss(self, encode: Encoder, batch: Any, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        raise NotImplementedError

    def reward(self, rollout: Rollout) -> Tensor:
        """The rewards [S, N] to learn from: the environment's, unless the method has its own."""
        return rollout.reward

    def after_step(self, encoder: nn.Module) -> None:
        """Called after each optimiser step: moving averages, norms of prototypes."""

    def draw_context(self, previous: Tensor, began: Tensor, rng: torch.Generator) -> Tensor:
        """[N, context]: kept within an episode, drawn anew where one began."""
        return previous
