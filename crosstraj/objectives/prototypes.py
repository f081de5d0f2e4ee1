"""What methods that cluster by prototypes share (CTRL, Situations, Proto-RL)."""

import torch
from torch import Tensor, nn

from crosstraj.health.instruments import Play
from crosstraj.nn import ops
from crosstraj.nn.sinkhorn import sinkhorn
from crosstraj.objectives.base import Metrics, Objective


def unit_rows(count: int, width: int, rng: torch.Generator) -> nn.Parameter:
    """Prototypes [C, D], each of length one."""
    return nn.Parameter(ops.unit(torch.randn(count, width, generator=rng)))


class Prototypes(Objective):
    """Keeps its prototypes at length one, and the codes of a rollout until figures are asked."""

    prototypes: nn.Parameter

    def __init__(self) -> None:
        super().__init__()
        self.play, self.measured = Play(), False  # measured: the health, in this rollout

    def gather(self, rng: torch.Generator) -> None:
        self.play, self.measured = Play(), False

    def code(self, v: Tensor, temperature: float, rounds: int) -> Tensor:
        """Q~: to which clusters views [B, D] belong [B, C], balanced over the minibatch."""
        return sinkhorn(ops.unit(v) @ self.prototypes.T / temperature, rounds)

    def figures(self) -> Metrics:
        return self.play.figures()

    @torch.no_grad()
    def after_step(self, encoder: nn.Module) -> None:
        self.prototypes.copy_(ops.unit(self.prototypes))
