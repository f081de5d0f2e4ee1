"""What the codes of a clustering are about, and what could predict them without having learnt them.

Pure functions of codes [B, C] (rows sum to one) and of labels [B]. They are estimates on the play
of one rollout; each is beside the value that it has when there is nothing to be found.
"""

import torch
from torch import Tensor

from crosstraj.nn import ops
from crosstraj.nn.sinkhorn import sinkhorn

SHARES = [step / 20 for step in range(20)]  # of the code before in a guess; never all of it
SMOOTHING = 20.0  # imagined steps with the mean code, added to each row of a table of codes


def labels(values: Tensor) -> Tensor:
    """The same labels, numbered from 0."""
    return values.unique(return_inverse=True)[1]


def group_means(rows: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Sizes [G] and mean rows [G, D] of groups numbered from 0."""
    size, total = ops.group_sums(rows, group, int(group.max()) + 1)
    return size, total / size[:, None]


def variance_between(features: Tensor, group: Tensor) -> Tensor:
    """The share of the features' variance that lies between groups, e.g. levels.

    1 - (within / (n - G)) / (total / (n - 1)): corrected for the groups' number, so that it is 0 on
    average where groups mean nothing, and 1 where features are constant in each. NaN if every row
    is a group of its own.
    """
    group, count = labels(group), len(features)
    size, mean = group_means(features, group)
    within = (features - mean.index_select(0, group)).square().sum() / (count - len(size))
    total = (features - features.mean(0)).square().sum() / (count - 1)
    return 1 - within / total


def told(code: Tensor, group: Tensor) -> Tensor:
    """I(C; group) in nats of soft codes: H(mean code) less the mean entropy of a group's mean."""
    size, mean = group_means(code, labels(group))
    share = size / size.sum()
    return ops.entropy(code.mean(0)) - (share * ops.entropy(mean)).sum()


def share_about(code: Tensor, group: Tensor, rng: torch.Generator) -> Tensor:
    """Which share of what codes say about their views is the group (level or episode) alone.

    An estimate: I(C; group) / I(C; view), both less what permuted codes seem to say about the group
    (few views per group make any code look telling). 1: the code is a function of the group; 0: it
    says nothing about it.
    """
    shuffled = code.index_select(0, torch.randperm(len(code), generator=rng).to(code.device))
    chance = told(shuffled, group)
    everything = ops.entropy(code.mean(0)) - ops.entropy(code).mean()
    return (told(code, group) - chance) / (everything - chance)


def groups_per_cluster(code: Tensor, group: Tensor, rng: torch.Generator) -> Tensor:
    """The effective number of groups in a cluster, over its value under permuted codes.

    exp of the entropy of p(group | cluster), weighted by the clusters' sizes: 1 where clusters span
    groups as if these meant nothing, small where each cluster is of few groups.
    """
    members = torch.nn.functional.one_hot(labels(group)).to(code)

    def spanned(codes: Tensor) -> Tensor:
        table = codes.T @ members  # [C, G]
        size = table.sum(1)
        inside = ops.entropy(table / size.clamp(min=torch.finfo(code.dtype).tiny)[:, None]).exp()
        return (size * inside).sum() / size.sum()

    permuted = torch.randperm(len(code), generator=rng).to(code.device)
    return spanned(code) / spanned(code.index_select(0, permuted))


def known_alone(key: Tensor, code: Tensor, rng: torch.Generator) -> Tensor:
    """The cross-entropy of codes for a predictor that knows nothing but a label, in nats.

    A table of mean codes by label, fitted on one half of the steps (each row smoothed towards the
    mean of all) and tested on the other, both ways: an upper bound on H(C | label).
    """
    key, count = labels(key), len(code)
    halves = torch.randperm(count, generator=rng).to(code.device).tensor_split(2)
    losses = []
    for fitted, tested in (halves, halves[::-1]):
        rows = code.index_select(0, fitted)
        size, total = ops.group_sums(rows, key[fitted], int(key.max()) + 1)
        mean = rows.mean(0)
        table = (total + SMOOTHING * mean) / (size[:, None] + SMOOTHING)
        guess = table.index_select(0, key[tested]).log()
        losses.append(-(code.index_select(0, tested) * guess).sum(1).mean())
    return (losses[0] + losses[1]) / 2


def repeated(before: Tensor, code: Tensor, rng: torch.Generator) -> Tensor:
    """The cross-entropy of codes for who expects the code before again, or else any.

    before, code: [B, C]; the guess is a * before + (1 - a) * mean. How much, a, is chosen on one
    half of the steps and tested on the other, both ways. A table by label is blind to this where a
    label has few steps: it is pulled towards the mean.
    """
    halves = torch.randperm(len(code), generator=rng).to(code.device).tensor_split(2)
    losses = []
    for fitted, tested in (halves, halves[::-1]):
        mean = code.index_select(0, fitted).mean(0)
        by_share = {_mixed(before, code, mean, fitted, share).item(): share for share in SHARES}
        losses.append(_mixed(before, code, mean, tested, by_share[min(by_share)]))
    return (losses[0] + losses[1]) / 2


def _mixed(before: Tensor, code: Tensor, mean: Tensor, rows: Tensor, share: float) -> Tensor:
    guess = share * before.index_select(0, rows) + (1 - share) * mean
    return -torch.special.xlogy(code.index_select(0, rows), guess).sum(1).mean()


@torch.no_grad()
def spread_of(name: str, v: Tensor) -> dict[str, Tensor]:
    """In how many directions vectors [B, D] point, as figures of this name."""
    return {f"{name}_cosine": ops.mean_cosine(v), f"{name}_rank": ops.effective_rank(v)}


@torch.no_grad()
def clustering_health(
    v: Tensor, code: Tensor, centres: Tensor, temperature: float, rounds: int
) -> dict[str, Tensor]:
    """Is a clustering alive? Each figure beside its value for random unit vectors."""
    generator = torch.Generator().manual_seed(0)  # the comparison is the same in every run
    random = ops.unit(torch.randn(v.shape, generator=generator)).to(v)
    others = ops.unit(torch.randn(centres.shape, generator=generator)).to(v)
    blind = sinkhorn(random @ others.T / temperature, rounds)
    return spread_of("view", v) | {
        "code_entropy": ops.entropy(code).mean(),
        "code_entropy_random": ops.entropy(blind).mean(),
        "mean_code_entropy": ops.entropy(code.mean(0)),
        "clusters_used": torch.tensor(float(code.argmax(1).unique().numel())),
        "views": torch.tensor(float(len(v))),
    }


class Play:
    """Codes of one rollout with what is known of their steps, until figures are asked of them."""

    def __init__(self, most: int = 4096) -> None:
        """most: how many steps are kept; the rest of a rollout would say the same."""
        self.most, self.parts = most, list[dict[str, Tensor]]()

    @property
    def full(self) -> bool:
        return sum(len(part["code"]) for part in self.parts) >= self.most

    def add(self, **columns: Tensor) -> None:
        """`code` [B, C], `level` and `loss` [B], and what a code might be guessed by: labels [B],
        or another code [B, C]."""
        self.parts.append({name: column.detach() for name, column in columns.items()})

    def figures(self) -> dict[str, Tensor]:
        """What the codes are about, and how well each label alone would predict them; once."""
        if not self.parts:
            return {}
        rows = {name: torch.cat([part[name] for part in self.parts]) for name in self.parts[0]}
        self.parts.clear()
        code, level, loss = rows.pop("code"), rows.pop("level"), rows.pop("loss")
        rng = torch.Generator().manual_seed(0)  # the same permutations in every run
        figures = {
            "codes_about_level": share_about(code, level, rng),
            "levels_per_cluster": groups_per_cluster(code, level, rng),
            "knowing_all": loss.mean(),  # the method's own, on the same steps
        }
        for name, key in rows.items():
            label = key.argmax(1) if key.ndim == 2 else key
            figures[f"knowing_{name}"] = known_alone(label, code, rng)
            if key.ndim == 2:
                by_table = figures[f"knowing_{name}"]
                figures[f"knowing_{name}"] = torch.minimum(by_table, repeated(key, code, rng))
        return figures
