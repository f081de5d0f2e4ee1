"""What stands on an encoder's features: linear layers, FiLM by actions, projections."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HeadNorm = Literal["none", "batch", "layer"]
ViewEncoder = Literal["mlp", "rnn"]


@contextmanager
def undrawn() -> Iterator[None]:
    """Layers made in the block leave torch's global generator as it was; give them values after.

    `nn.utils.skip_init` would draw nothing at all, but it imports sympy, for half a second.
    """
    with torch.random.fork_rng(devices=[]):
        yield


def linear(inputs: int, outputs: int, gain: float, rng: torch.Generator) -> nn.Linear:
    """A linear layer with orthogonal weights and zero bias, drawn from `rng` alone."""
    with undrawn():
        layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain, generator=rng)
    nn.init.zeros_(layer.bias)
    return layer


def mlp(
    inputs: int, hidden: int, outputs: int, rng: torch.Generator, gain: float = 1.0
) -> nn.Sequential:
    """Linear - ReLU - Linear; gain: of the last layer."""
    first, last = linear(inputs, hidden, math.sqrt(2), rng), linear(hidden, outputs, gain, rng)
    return nn.Sequential(first, nn.ReLU(), last)


class FiLM(nn.Module):
    """(1 + scale(a)) * h + shift(a): features under an action, or a skill (Perez et al., 2018)."""

    def __init__(self, actions: int, features: int, rng: torch.Generator) -> None:
        super().__init__()
        self.actions = actions
        self.net = mlp(actions, features, 2 * features, rng)

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        # One row per action, then a gather: the cost does not grow with the number of frames.
        table = self.net(torch.eye(self.actions, device=features.device, dtype=features.dtype))
        scale, shift = table.index_select(0, action).chunk(2, dim=-1)
        return (1 + scale) * features + shift


class SequenceFiLM(nn.Module):
    """FiLM by up to K actions in a row: features conditioned on what was done meanwhile."""

    def __init__(self, actions: int, most: int, features: int, rng: torch.Generator) -> None:
        super().__init__()
        self.actions = actions
        self.net = mlp(most * actions, features, 2 * features, rng)

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        """features [B, D]; action [B, K], -1 where the sequence has ended."""
        taken = F.one_hot(action + 1, self.actions + 1)[..., 1:].to(features)
        scale, shift = self.net(taken.flatten(1)).chunk(2, dim=-1)
        return (1 + scale) * features + shift


@contextmanager
def without_statistics(network: nn.Module) -> Iterator[None]:
    """Batch norm in the block normalises as in training, but its running statistics stay."""
    norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm1d)]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True


class ResidualMLP(nn.Module):
    """Linear(x) + Linear(ReLU(Linear(x))), along the last axis (the heads of DRIML)."""

    def __init__(self, inputs: int, outputs: int, rng: torch.Generator) -> None:
        super().__init__()
        self.skip = linear(inputs, outputs, 1.0, rng)
        self.hidden = linear(inputs, outputs, math.sqrt(2), rng)
        self.out = linear(outputs, outputs, 1.0, rng)

    def forward(self, x: Tensor) -> Tensor:
        return self.skip(x) + self.out(F.relu(self.hidden(x)))


def projection(inputs: int, width: int, norm: HeadNorm, rng: torch.Generator) -> nn.Sequential:
    """Linear - (norm) - ReLU - Linear, both of `width`: every helper map of CTRL has this shape."""
    between: dict[HeadNorm, type[nn.Module]] = {
        "none": nn.Identity,
        "batch": nn.BatchNorm1d,
        "layer": nn.LayerNorm,
    }
    return nn.Sequential(
        linear(inputs, width, math.sqrt(2), rng),
        between[norm](width),
        nn.ReLU(),
        linear(width, width, 1.0, rng),
    )


def gru(inputs: int, width: int, rng: torch.Generator, *, batch_first: bool = False) -> nn.GRU:
    """A GRU with orthogonal matrices, one per gate, and zero biases, drawn from `rng` alone."""
    with undrawn():
        cell = nn.GRU(inputs, width, batch_first=batch_first)
    for name, weight in cell.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(weight)
        else:
            for gate in weight.chunk(3):  # reset, update, new: each a matrix of its own
                nn.init.orthogonal_(gate, generator=rng)
    return cell


class Recurrent(nn.Module):
    """A GRU over the T keypoints of a view in time order: [B, T D] -> its last state [B, width]."""

    def __init__(self, keypoints: int, features: int, width: int, rng: torch.Generator) -> None:
        super().__init__()
        self.shape = (keypoints, features)
        self.cell = gru(features, width, rng, batch_first=True)

    def forward(self, u: Tensor) -> Tensor:
        _, last = self.cell(u.unflatten(1, self.shape))
        return last.squeeze(0)


def view_encoder(
    kind: ViewEncoder,
    keypoints: int,
    features: int,
    width: int,
    norm: HeadNorm,
    rng: torch.Generator,
) -> nn.Sequential:
    """psi: the keypoints of a view, side by side [B, T D] -> [B, width].

    A projection; with `rnn` its first layer reads them one after another.
    """
    head = projection(keypoints * features, width, norm, rng)
    if kind == "rnn":
        head[0] = Recurrent(keypoints, features, width, rng)
    return head
