"""A memory above the encoder: features -> GRU -> belief, which heads and objectives then read.

The belief of a step depends on every frame of its episode so far. `Histories` are steps of a
rollout with what the agent remembered before each of them when it acted. Where the step before is
among those that are encoded, its belief is carried on, and the gradient flows back through it;
where it is not, the belief starts from the stored memory (truncated backpropagation).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from crosstraj.errors import BadInput
from crosstraj.nn.heads import gru

MemoryKind = Literal["none", "gru"]


class Runs(NamedTuple):
    """Distinct steps, cut into runs: steps of one episode that follow each other."""

    step: Tensor  # [U] run by run, in time order
    run: Tensor  # [U] the run of each, counted from 0 and ascending
    place: Tensor  # [U] its number there, from 0
    first: Tensor  # [R] the first step of each run
    row: Tensor  # [B] where in `step` each step is that was asked for


@dataclass(frozen=True)
class Histories:
    """Steps of a rollout, each standing for all that was seen of its episode until then."""

    frames: Tensor  # [A, H, W, C] uint8: all there are, that of step t of row n at t * envs + n
    memory: Tensor  # [A, K] what the agent remembered before each; 0 where an episode begins
    age: Tensor  # [A] how many steps of the same episode are here before it
    envs: int  # so many places later is the next step of the same row
    step: Tensor  # [B] the places of the chosen steps

    def __len__(self) -> int:
        return len(self.step)

    @property
    def device(self) -> torch.device:
        return self.frames.device

    def index_select(self, dim: int, index: Tensor) -> "Histories":
        """Some of the chosen steps, as of a tensor of frames."""
        return replace(self, step=self.step.index_select(dim, index))

    def runs(self) -> Runs:
        total = len(self.age)
        column, time = self.step % self.envs, self.step // self.envs
        key, row = (column * total + time).unique(return_inverse=True)  # row by row, in time order
        step = key % total * self.envs + key // total
        begins = torch.ones_like(step, dtype=torch.bool)
        begins[1:] = (step.diff() != self.envs) | (self.age.index_select(0, step[1:]) == 0)
        start, run = begins.nonzero().squeeze(1), begins.long().cumsum(0) - 1
        place = torch.arange(len(step), device=step.device) - start[run]
        return Runs(step, run, place, step[start], row)


Frames = Tensor | Histories  # [B, H, W, C] uint8, or with what was seen before each


def pixels(frames: Frames) -> Tensor:
    """Frames that come without histories, for who changes what they show."""
    assert isinstance(frames, Tensor)  # the configuration has seen to it
    return frames


def remembering(frames: Tensor, memory: Tensor) -> Frames:
    """Frames [B, ...], each after what is remembered [B, K]; as they are without a memory."""
    if not memory.shape[1]:
        return frames
    place = torch.arange(len(frames), device=frames.device)
    return Histories(frames, memory, torch.zeros_like(place), len(frames), place)


class RecurrentEncoder(nn.Module):
    """An encoder of histories: `below` makes features of frames, a GRU a belief of features.

    position: which part of the agent's memory is its own, for agents with two of them (DAAC).
    burn_in: so many steps before each run are seen again, without a gradient, by the weights as
    they are now; the stored memory then counts from further back.
    """

    def __init__(
        self,
        below: nn.Module,
        features: int,
        width: int,
        burn_in: int,
        rng: torch.Generator,
        position: int = 0,
    ) -> None:
        super().__init__()
        self.below, self.width, self.burn_in = below, width, burn_in
        self.cell = gru(features, width, rng)
        self.own = slice(position * width, (position + 1) * width)

    def forward(self, seen: Frames) -> Tensor:
        return self.believe(seen, self.below)

    def believe(self, seen: Frames, features_of: Callable[[Tensor], Tensor]) -> Tensor:
        """Beliefs [B, width]; features_of: `below`, live and in pieces as the trainer decides."""
        if not isinstance(seen, Histories):
            raise BadInput(
                "this agent has a memory, and these frames come without one; tell it what came "
                "before them: agent.act(remembered.before(frames)) with crosstraj.Remembered"
            )
        runs = seen.runs()
        start = self.at_start(seen, runs.first, features_of)
        features = features_of(seen.frames.index_select(0, runs.step))
        return self.carried(features, start, runs).index_select(0, runs.row)

    @torch.no_grad()
    def at_start(
        self, seen: Histories, first: Tensor, features_of: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """What is remembered before each of these steps [R, width]: stored, then burnt in."""
        before = seen.age.index_select(0, first).clamp(max=self.burn_in)
        stored = seen.memory.index_select(0, first - before * seen.envs)
        state = stored[:, self.own].clone()
        for back in range(self.burn_in, 0, -1):
            due = (before >= back).nonzero().squeeze(1)
            if len(due):
                frames = seen.frames.index_select(0, first[due] - back * seen.envs)
                state[due] = self.cell(features_of(frames)[None], state[due][None])[1][0]
        return state

    def carried(self, features: Tensor, start: Tensor, runs: Runs) -> Tensor:
        """The GRU along all runs at once: features [U, D] and starts [R, width] -> [U, width]."""
        length = runs.run.bincount()
        longest = length.argsort(descending=True, stable=True)
        rank = longest.argsort()
        # As torch packs sequences: the first step of every run, then the second of those that have
        # one, and so on, longer runs first.
        order = (runs.place * len(length) + rank[runs.run]).argsort()
        packed = PackedSequence(features.index_select(0, order), runs.place.bincount().cpu())
        belief, _ = self.cell(packed, start.index_select(0, longest)[None])
        carried: Tensor = belief.data.index_select(0, order.argsort())
        return carried
