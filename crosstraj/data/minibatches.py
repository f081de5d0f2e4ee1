"""Which minibatch each frame is dealt to.

Each frame is dealt to at most one minibatch, its *share*, so that each is encoded once per epoch
whatever a view is made of. `within_episodes.py` makes views, windows and stretches of a share.
"""

from collections.abc import Iterator

import torch
from torch import Tensor


def deal_steps(fragment: Tensor, count: int, least: int, rng: torch.Generator) -> Tensor:
    """The minibatch of each step [S, N], or -1: fragments are cut at random, never lost.

    A fragment of l >= `least` steps is cut into min(count, l // least) random subsets of nearly
    equal size, dealt to different minibatches; each subset has at least `least` steps.
    """
    flat = fragment.flatten()
    length = torch.bincount(flat)
    parts = (length // least).clamp(max=count)
    # Fragments are dealt one after another in random order, round the minibatches like cards.
    order = torch.randperm(len(length), generator=rng)
    first = torch.empty_like(parts)
    first[order] = parts[order].cumsum(0) - parts[order]
    rank = rank_inside(flat, torch.rand(len(flat), generator=rng))
    part = rank % parts[flat].clamp(min=1)
    share = (first[flat] + part) % count
    return torch.where(parts[flat] > 0, share, -1).view_as(fragment)


def deal_blocks(
    steps: int, envs: int, count: int, least: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The minibatch of each step and its run, both [S, N]: rows cut into runs of S / count steps.

    Each row is cut at a random place and dealt in whole runs; the partial runs at both ends of a
    row go to the same minibatch, so that every minibatch has the same number of steps. Where
    S / count is below `least`, runs are that long and a row has none for some minibatches.
    """
    length = max(-(-steps // count), least)
    # The first cut leaves room for a whole run after it.
    first = torch.randint(max(1, min(length, steps - length + 1)), (envs,), generator=rng)
    shift = torch.randint(count, (envs,), generator=rng)
    run = (torch.arange(steps)[:, None] + (length - first) % length) // length
    return (run + shift) % count, run


def scattered(steps: int, envs: int, count: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Minibatches of frames [F] that lie apart: one of every `count` successive frames of a row."""
    blocks = -(-steps // count)
    share = torch.rand(blocks, count, envs, generator=rng).argsort(1).flatten(0, 1)[:steps]
    for minibatch in range(count):
        frame = (share.flatten() == minibatch).nonzero().squeeze(1)
        if len(frame):
            yield frame


def rank_inside(group: Tensor, key: Tensor) -> Tensor:
    """The rank of each element's key among the elements of its group."""
    order = key.argsort(stable=True)
    order = order[group[order].argsort(stable=True)]
    size = torch.bincount(group)
    begin = size.cumsum(0) - size
    rank = torch.empty_like(group)
    rank[order] = torch.arange(len(group)) - begin[group[order]]
    return rank
