"""What stays inside one episode: the views, windows, stretches and pairs of a minibatch.

Nothing goes across an episode's end, unless `cross` asks for it. `minibatches.py` deals the frames.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from crosstraj.data.episode_borders import fragments
from crosstraj.data.minibatches import deal_blocks, deal_steps, rank_inside

Sampling = Literal["uniform", "consecutive"]


class Views(NamedTuple):
    frame: Tensor  # [F] flat index t * N + n of each frame of this minibatch in the rollout
    keypoints: Tensor  # [B, T] positions in `frame`, ascending in time
    fragment: Tensor  # [B] the fragment each view comes from
    partner: Tensor  # [B] the view whose code this one predicts: itself, unless codes are swapped


class Stretches(NamedTuple):
    frame: Tensor  # [F] flat index t * N + n of each frame, stretch by stretch, in time order
    stretch: Tensor  # [F] the stretch of each frame, counted from 0 and ascending


class Windows(NamedTuple):
    frame: Tensor  # [F] flat index t * N + n of each frame of this minibatch in the rollout
    position: Tensor  # [B, L] positions in `frame` of L consecutive steps
    valid: Tensor  # [B, L] bool: still the episode of the window's first step


def stretches(done: Tensor, count: int, length: int, rng: torch.Generator) -> Iterator[Stretches]:
    """Minibatches of stretches: about `length` consecutive steps of one episode each.

    Each row is cut at a random place into S // length blocks of equal length (what lies before the
    first cut and after the last is one block), and its blocks are dealt in random order, rows one
    after another, round the minibatches like cards: all have nearly as many steps, and where a row
    has a block for each minibatch, each holds every row. Episode ends cut blocks into stretches.
    """
    steps, envs = done.shape
    blocks = max(1, steps // length)
    size = -(-steps // blocks)
    # A row of one block stays whole: cut, it would be two stretches, each too short for a pair.
    first = torch.randint(size if blocks > 1 else 1, (envs,), generator=rng)
    piece = (torch.arange(steps)[:, None] + first) // size  # [S, N], 0 to `blocks`
    place = torch.rand(blocks, envs, generator=rng).argsort(0)
    row = torch.randperm(envs, generator=rng)
    share = (row * blocks + place.gather(0, piece % blocks)) % count
    part = fragments(done) * (blocks + 1) + piece
    for minibatch in range(count):
        column, step = (share == minibatch).T.nonzero(as_tuple=True)  # row by row, in time order
        if len(step):
            owner = part[step, column].unique_consecutive(return_inverse=True)[1]
            yield Stretches(step * envs + column, owner)


def uniform_views(
    done: Tensor, count: int, keypoints: int, *, swap: bool, cross: bool, rng: torch.Generator
) -> Iterator[Views]:
    """Minibatches of views whose keypoints are uniform, distinct and ascending in one fragment.

    Every frame of a share is the anchor of one view, whose other keypoints are drawn from the rest
    of the share; equal views are kept once. With `swap` views come in pairs of disjoint keypoints,
    half as many pairs as frames, each the other's partner. `cross` lets keypoints range over whole
    rows, episode ends or not: the paper's pseudocode taken at its word.
    """
    fragment = fragments(torch.zeros_like(done) if cross else done)
    sets = 2 if swap else 1
    share = deal_steps(fragment, count, sets * keypoints, rng)
    for minibatch in range(count):
        frame = (share.flatten() == minibatch).nonzero().squeeze(1)
        if not len(frame):
            continue
        owner = fragment.flatten()[frame]
        owner, by_owner = owner.sort(stable=True)  # a fragment's frames side by side, in time order
        frame = frame[by_owner]
        chosen = _draw_sets(owner, sets * keypoints, sets, rng)
        # The draw is in random order: its first T and its last T are a random split into two sets.
        ordered = [part.sort(1).values for part in chosen.split(keypoints, dim=1)]
        distinct = torch.cat(ordered, dim=1).unique(dim=0)
        points = torch.cat(distinct.split(keypoints, dim=1))
        yield Views(frame, points, owner[points[:, 0]], _partners(len(distinct), sets))


def consecutive_views(
    done: Tensor, count: int, keypoints: int, *, swap: bool, cross: bool, rng: torch.Generator
) -> Iterator[Views]:
    """Minibatches of all windows of T consecutive steps inside one run and one fragment.

    With `swap` a window's partner is the one that begins where it ends, and the other way round.
    `cross` lets windows lie across episode ends, as in the released code.
    """
    done = torch.zeros_like(done) if cross else done
    span, fragment = keypoints * (2 if swap else 1), fragments(done).flatten()
    for frame, position, valid in windows(done, count, span, 1, rng):
        window = position[valid[:, -1]]
        if not len(window):
            continue
        points = torch.cat(window.split(keypoints, dim=1))
        source = fragment[frame[window[:, 0]]].repeat(span // keypoints)
        yield Views(frame, points, source, _partners(len(window), span // keypoints))


VIEWS = {"uniform": uniform_views, "consecutive": consecutive_views}


def windows(
    done: Tensor, count: int, length: int, stride: int, rng: torch.Generator
) -> Iterator[Windows]:
    """Minibatches of windows of consecutive steps, one at every `stride`-th step of each run.

    A window may hold an episode's end: `valid` says which of its steps come before that.
    """
    steps, envs = done.shape
    fragment = fragments(done).flatten()
    share, run = deal_blocks(steps, envs, count, length, rng)
    for minibatch in range(count):
        column, row = (share == minibatch).T.nonzero(as_tuple=True)  # row by row, in time order
        frame = row * envs + column
        owner = column * (int(run.max()) + 1) + run[row, column]
        place = rank_inside(owner, torch.arange(len(owner)))
        begins = (place % stride == 0) & (place + length <= torch.bincount(owner)[owner])
        position = begins.nonzero() + torch.arange(length)
        if len(position):
            own = fragment[frame][position]
            yield Windows(frame, position, own == own[:, :1])


def _draw_sets(owner: Tensor, size: int, sets: int, rng: torch.Generator) -> Tensor:
    """Random sets [A, size] of distinct positions, each inside one owner's run of positions.

    One set per anchor, which comes first; every position is an anchor, or a random one in `sets`.
    """
    counts = torch.bincount(owner)
    begin = (counts.cumsum(0) - counts)[owner]
    rank = rank_inside(owner, torch.rand(len(owner), generator=rng))
    anchors = (rank < -(-counts[owner] // sets)).nonzero().squeeze(1)
    begin, total = begin[anchors], counts[owner[anchors]]
    taken = (anchors - begin)[:, None]
    for already in range(1, size):
        # The k-th free place: a number below total - already, stepped past the taken ones in order.
        draw = torch.rand(len(anchors), generator=rng, dtype=torch.float64)
        place = (draw * (total - already)).long()
        for used in taken.sort(1).values.unbind(1):
            place = place + (place >= used).long()
        taken = torch.cat([taken, place[:, None]], dim=1)
    return taken + begin[:, None]


def _partners(count: int, sets: int) -> Tensor:
    """For views in `sets` blocks of `count`: i of one block and i of the other are partners."""
    return torch.arange(count * sets).roll(count) if sets == 2 else torch.arange(count)
