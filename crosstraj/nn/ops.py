"""Pure maths shared by the methods: clustering, contrast, targets, frames, health."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def neighbour_clusters(
    prototypes: Tensor, occupied: Tensor, count: int, order: Literal["nearest", "farthest"]
) -> tuple[Tensor, Tensor]:
    """The occupied clusters closest in angle to each cluster, never itself.

    Returns indices [C, K] in order of closeness and a mask [C, K] that is false where fewer than
    `count` other clusters are occupied. The paper's D is a squared distance whose "K largest" would
    be the farthest; its words, its title and MYOW say nearest (core reference A1).
    """
    similarity = prototypes @ prototypes.T
    if order == "farthest":
        similarity = -similarity
    similarity = similarity.masked_fill(~occupied, -math.inf)
    similarity.fill_diagonal_(-math.inf)
    top = similarity.topk(min(count, len(prototypes) - 1), dim=1)
    return top.indices, top.values.isfinite()


def draw_members(
    cluster: Tensor, fragment: Tensor, wanted: Tensor, own: Tensor | None, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """One uniform member of each wanted cluster, never from the asker's own fragment.

    cluster, fragment: [B], of every view. wanted: [N, K] clusters asked for. own: [N], the asker's
    fragment, or None to allow members of it. Returns members [N, K] and a mask that is false where
    the wanted cluster has nobody to offer. No loop: views sorted by (cluster, fragment) put a
    cluster into one run, and the asker's fragment into one run inside it; the draw jumps over it.
    """
    stride = 2**32  # above any fragment's number, so that the host need not wait for their maximum
    key, order = (cluster * stride + fragment).sort(stable=True)
    begin = torch.searchsorted(key, wanted * stride)
    size = torch.searchsorted(key, (wanted + 1) * stride) - begin
    if own is None:
        skip_from, skip = begin, torch.zeros_like(begin)
    else:
        mine = wanted * stride + own[:, None]
        skip_from = torch.searchsorted(key, mine)
        skip = torch.searchsorted(key, mine + 1) - skip_from
    offered = size - skip
    draw = torch.rand(wanted.shape, generator=rng, dtype=torch.float64).to(wanted.device)
    place = begin + (draw * offered).long()
    place = torch.where(place >= skip_from, place + skip, place)
    valid = offered > 0
    return order[torch.where(valid, place, 0)], valid


@torch.no_grad()
def mine(
    prototypes: Tensor,
    cluster: Tensor,
    group: Tensor,
    anchor: Tensor,
    count: int,
    order: Literal["nearest", "farthest"],
    rng: torch.Generator,
    *,
    own_group: bool = False,
) -> tuple[Tensor, Tensor]:
    """A view from each of the `count` clusters next to each anchor's, and which exist: [N, K].

    cluster, group: [B], of every view; a mined view is never of the anchor's own group, unless
    `own_group` allows it. anchor: [N].
    """
    occupied = torch.zeros(len(prototypes), dtype=torch.bool, device=cluster.device)
    occupied.index_fill_(0, cluster, True)
    near, exists = neighbour_clusters(prototypes, occupied, count, order)
    home = cluster[anchor]
    own = None if own_group else group[anchor]
    mined, offered = draw_members(cluster, group, near[home], own, rng)
    return mined, offered & exists[home]


def group_sums(rows: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Sizes [G] and sums [G, D] of rows [F, D] by group; group: [F] in 0 .. groups - 1.

    Adds in a fixed order on any number of threads, forward and backward.
    """
    size = torch.bincount(group, minlength=groups)
    together = rows.index_select(0, group.argsort(stable=True))  # a group's rows side by side
    return size, torch.segment_reduce(together, "sum", lengths=size)


def centred(features: Tensor, group: Tensor, groups: int) -> Tensor:
    """Each row of features [F, D] less the mean of its group; group: [F] in 0 .. groups - 1.

    Gradient flows through the mean, too. Both directions add in a fixed order on any number of
    threads, as the backward pass of `mean[group]` would not.
    """
    size, total = group_sums(features, group, groups)
    mean = total / size.clamp(min=1)[:, None]  # a group that has no rows is never asked for
    return features - mean.index_select(0, group)


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """||a - b||^2 along the last axis; for unit vectors this is 2 - 2 cos(a, b)."""
    return (a - b).square().sum(-1)


def rows_at(rows: Tensor, index: Tensor) -> Tensor:
    """rows [F, ...] at an index of any shape; its gradient adds in a fixed order on any threads."""
    return rows.index_select(0, index.flatten()).unflatten(0, index.shape)


def mean_where(values: Tensor, valid: Tensor) -> Tensor:
    """The mean of the values that are valid; 0 if none is."""
    return (values * valid).sum() / valid.sum().clamp(min=1)


def cross_entropies(code: Tensor, log_assignment: Tensor) -> Tensor:
    """[B] of assignments [B, C] against codes [B, C], in nats."""
    return -(code * log_assignment).sum(1)


def info_nce(scores: Tensor) -> Tensor:
    """Each row's own column against all others, [B, B] -> mean cross-entropy; log B if blind."""
    return F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


def top_one(scores: Tensor) -> Tensor:
    """The share of rows whose own column has the highest score, [B, B] -> 0-d."""
    own = torch.arange(len(scores), device=scores.device)
    return (scores.argmax(1) == own).float().mean()


@torch.no_grad()
def follow(target: nn.Module, online: nn.Module, decay: float) -> None:
    """Exponential moving average: target <- decay * target + (1 - decay) * online."""
    pairs = zip(target.state_dict().values(), online.state_dict().values(), strict=True)
    for mine, theirs in pairs:
        if mine.is_floating_point():
            mine.mul_(decay).add_(theirs, alpha=1 - decay)
        else:
            mine.copy_(theirs)  # counters


def random_shift(frames: Tensor, pad: int, rng: torch.Generator) -> Tensor:
    """Each frame [B, H, W, C] moved by up to `pad` pixels, its border repeated: pad, then crop."""
    count, height, width, _ = frames.shape
    by = torch.randint(-pad, pad + 1, (2, count, 1), generator=rng)
    row = (torch.arange(height) + by[0]).clamp(0, height - 1).to(frames.device)
    column = (torch.arange(width) + by[1]).clamp(0, width - 1).to(frames.device)
    image = torch.arange(count, device=frames.device)
    return frames[image[:, None, None], row[:, :, None], column[:, None, :]]


def random_intensity(frames: Tensor, spread: float, rng: torch.Generator) -> Tensor:
    """Each uint8 frame made brighter or darker by a factor 1 + spread * N(0, 1), cut at 2 sd."""
    noise = torch.randn(len(frames), 1, 1, 1, generator=rng).clamp(-2, 2).to(frames.device)
    return (frames * (1 + spread * noise)).round().clamp(0, 255).to(torch.uint8)


def min_max(x: Tensor) -> Tensor:
    """Each sample of x [B, ...] scaled to [0, 1]; a constant one becomes 0."""
    axes = tuple(range(1, x.ndim))
    low = x.amin(axes, keepdim=True)
    return (x - low) / (x.amax(axes, keepdim=True) - low).clamp(min=1e-5)


def unit(x: Tensor) -> Tensor:
    """Each row scaled to length one."""
    return F.normalize(x, dim=-1)


def mean_cosine(vectors: Tensor) -> Tensor:
    """Mean cosine over all pairs of different rows: 1 when all views point one way (collapse)."""
    count = len(vectors)
    total = unit(vectors).sum(0).square().sum()
    return (total - count) / max(1, count * (count - 1))


def entropy(probabilities: Tensor) -> Tensor:
    """Entropy in nats along the last axis; 0 log 0 is 0."""
    return -torch.special.xlogy(probabilities, probabilities).sum(-1)


def effective_rank(matrix: Tensor) -> Tensor:
    """exp of the entropy of the normalised singular values (Roy and Vetterli, 2007).

    1 for a matrix of zeros, as for any that has no second direction; NaN if anything in it is not
    finite, for no singular values can then be had.
    """
    if not matrix.isfinite().all():
        return matrix.sum() * math.nan
    singular, tiny = torch.linalg.svdvals(matrix), torch.finfo(matrix.dtype).tiny
    share = singular / singular.sum().clamp(min=tiny)
    return entropy(share.clamp(min=tiny)).exp()  # at 0 the entropy's gradient is infinite


def divergence(before: Tensor, after: Tensor) -> Tensor:
    """KL(before || after) of two policies' log-probabilities [B, actions], mean over frames."""
    return F.kl_div(after, before, log_target=True, reduction="batchmean")


def sample(steps: Tensor, count: int) -> Tensor:
    """Some steps of a flat rollout [S N, ...]: from everywhere, the same ones in every run."""
    chosen = torch.randperm(len(steps), generator=torch.Generator().manual_seed(0))[:count]
    return steps.index_select(0, chosen.to(steps.device))


def feature_health(features: Tensor) -> dict[str, Tensor]:
    """Can linear heads read these features? Scale, rank and dead ones, as the heads see them."""
    spread = features.std(0)
    return {
        "feature_std": spread.mean(),
        "feature_rank": effective_rank(sample(features, 1024)),
        "dead_features": (spread <= 0.01 * spread.mean()).float().mean(),
    }


def alike(label: Tensor, rng: torch.Generator) -> Tensor:
    """A random permutation [B] in which each has the place of one with the same label."""
    drawn = torch.randperm(len(label), generator=rng).to(label.device)
    other = torch.empty_like(drawn)
    other[label.argsort(stable=True)] = drawn[label[drawn].argsort(stable=True)]
    return other
