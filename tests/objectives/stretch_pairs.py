"""Pairs of frames of stretches, without a rollout: what the tests of situations are made of."""

from typing import Any

import torch
from torch import Tensor

from crosstraj.objectives.situations import Batch, Situations, SituationsConfig
from tests.helpers import rng

ACTIONS = 3


def objective(features: int = 256, **changes: Any) -> Situations:
    return Situations(SituationsConfig(clusters=8, **changes), features, ACTIONS, rng())


def batch_of(stretch: Tensor, earlier: Tensor, gap: Tensor) -> Batch:
    nothing = torch.zeros(len(stretch), dtype=torch.int64)
    frames = torch.zeros(len(stretch), 1, 1, 3, dtype=torch.uint8)
    return Batch(frames, nothing, stretch, nothing, nothing, nothing, earlier, gap)


def every_pair(count: int, length: int, gap: int = 1) -> Batch:
    """All pairs `gap` apart of `count` stretches of one length."""
    stretch = torch.arange(count).repeat_interleave(length)
    place = torch.arange(count * length) % length
    earlier = (place + gap < length).nonzero().squeeze(1)
    batch = batch_of(stretch, earlier, torch.full_like(earlier, gap))
    action = torch.randint(ACTIONS, (len(stretch),), generator=rng(9))
    return batch._replace(action=action, place=place, level=stretch)


def process(seed: int, *, moves: bool) -> tuple[Tensor, Batch]:
    """A walk on a ring of 8 places, under a level's vector: features and batch.

    moves: actions move the state by -1, 0 or 1; else it is moved by a coin that nobody sees.
    """
    g, count, length = rng(seed), 48, 16
    batch = every_pair(count, length)
    action = torch.randint(3, (count, length), generator=g)
    by = action if moves else torch.randint(3, (count, length), generator=g)
    start = torch.randint(8, (count, 1), generator=g)
    place = (start + torch.cat([torch.zeros_like(start), (by - 1).cumsum(1)[:, :-1]], 1)) % 8
    pictures = torch.randn(8, 256, generator=rng(100))
    level = torch.randn(20, 256, generator=rng(101))
    which = torch.randint(20, (count,), generator=g)
    features = pictures[place.flatten()] + 2 * level[which].repeat_interleave(length, 0)
    return features, batch._replace(action=action.flatten(), level=which.repeat_interleave(length))
