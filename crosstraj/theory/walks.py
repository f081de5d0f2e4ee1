"""Walks round a ring, seen in several levels: processes whose place and level are known.

An action is one of eight buttons that move by -1, 0 or 1; every fourth one slips, and moves at
random. A frame is a vector that shows the place, a point of a circle, and the level: beside it
(`additive`), or by where the place is shown (`interacting`: 1[level = j] times the place).
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

PLACES, LEVELS, BUTTONS = 6, 6, 8
RADIUS = 0.25  # of the circle of places
LOOKS = 6  # numbers that show the level where it is additive
SLIP = 0.25

Kind = Literal["additive", "interacting", "independent"]


class Walks(NamedTuple):
    frame: Tensor  # [G, L, inputs]
    place: Tensor  # [G, L] int64
    level: Tensor  # [G] int64
    action: Tensor  # [G, L] int64: the button pressed at this frame

    def part(self, first: int, count: int) -> "Walks":
        """`count` stretches from the first one on."""
        return Walks(*(field.narrow(0, first, count) for field in self))


def draw_looks(rng: torch.Generator) -> Tensor:
    """[levels, LOOKS]: around 0, and with three times the variance of the place."""
    looks = torch.randn(LEVELS, LOOKS, generator=rng)
    looks = looks - looks.mean(0)
    return looks * (math.sqrt(3) * RADIUS / looks.square().sum(1).mean().sqrt())


def draw_walks(
    kind: Kind, looks: Tensor, stretches: int, steps: int, rng: torch.Generator
) -> Walks:
    """Stretches of one length, as many of each level; `independent` has no walk and no level."""
    shape = stretches, steps
    action = torch.randint(BUTTONS, shape, generator=rng)
    slipped = torch.rand(shape, generator=rng) < SLIP
    move = torch.where(slipped, torch.randint(BUTTONS, shape, generator=rng), action) % 3 - 1
    place = torch.randint(PLACES, shape, generator=rng)
    if kind != "independent":
        place = (place[:, :1] + move.cumsum(1) - move) % PLACES
    level = torch.arange(stretches) % LEVELS
    angle = place * (2 * math.pi / PLACES)
    point = RADIUS * torch.stack([angle.cos(), angle.sin()], dim=2)
    match kind:
        case "additive":
            frame = torch.cat([point, looks[level][:, None].expand(-1, steps, -1)], dim=2)
        case "interacting":
            shown = torch.eye(LEVELS)[level]
            frame = torch.einsum("g j, g t d -> g t j d", shown, point).flatten(2)
        case "independent":
            frame = point
    return Walks(frame, place, level, action)
