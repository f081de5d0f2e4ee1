"""What the codes of a clustering are about, and what could predict them without having learnt them.

Pure functions of codes [B, C] (rows sum to one) and of labels [B]. They are estimates on the play
of one rollout; each is beside the value that it has when there is nothing to be found.
"""

import torch
from torch import Tensor

from crosstraj.nn import ops
from crosstraj.nn.sinkhorn import sinkhorn

SHARES = [step / 20 for step in range(20)]  # of the code before in a guess; never all of it
SMOOTHINGS = (2, 20, 200, 2000)  # imagined steps with the mean code in each row of a table


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


def moments(place: Tensor, time: Tensor, gap: Tensor, longest: int) -> Tensor:
    """Where in its stretch and when in its episode each frame of a pair is, as labels [B, K].

    No gap is above the longest, which is told, because asking the device would be waiting for it.
    The later frame's own place and time are here, too: who is told the actions between can count
    them, and a table by the earlier frame's place alone would not find a code of the later one's.
    """
    ways = [gap, place * (longest + 1) + gap]
    for steps in (torch.zeros_like(gap), gap):
        where, when = place + steps, (time + steps + 1).float().log2().long()  # in powers of two
        ways += [where, where // 4, where // 8, when, where * 32 + when]
    return torch.stack(ways, 1)


def known_alone(keys: Tensor, code: Tensor, rng: torch.Generator) -> Tensor:
    """The cross-entropy of codes for a predictor that knows nothing but labels, in nats.

    keys: [B] or [B, K], K ways to label the same steps, some coarser than others. For each there is
    a table of mean codes by label, fitted on one half of the steps (each row smoothed towards the
    mean of all) and tested on the other, both ways: an upper bound on H(C | labels). Fine labels
    have few steps each and coarse ones know less, so the best of the tables counts. Every loss is
    of steps that its table has not seen: the least of so few, over thousands of steps, is lower
    than its expectation by less than the bound is too high.
    """
    halves = torch.randperm(len(code), generator=rng).to(code.device).tensor_split(2)
    losses = []
    for key in (labels(column) for column in keys.view(len(code), -1).unbind(1)):
        count = int(key.max()) + 1
        first, second = (ops.group_sums(code[half], key[half], count) for half in halves)
        losses += [
            (_by_table(first, second, smoothing) + _by_table(second, first, smoothing)) / len(code)
            for smoothing in SMOOTHINGS
        ]
    return torch.stack(losses).min()


def _by_table(
    fitted: tuple[Tensor, Tensor], tested: tuple[Tensor, Tensor], smoothing: float
) -> Tensor:
    """The summed loss on one half's codes of a table of the other's; sizes and sums by label."""
    size, total = fitted
    prior = smoothing * _mean_code(total)
    return -torch.special.xlogy(tested[1], (total + prior) / (size[:, None] + smoothing)).sum()


def _mean_code(rows: Tensor) -> Tensor:
    """Of codes or of their sums by label [L, C], and of one imagined step that may be anything.

    So no cluster is held for impossible because one half of the steps is without it.
    """
    total = rows.sum(0)
    return (total + 1 / len(total)) / (total.sum() + 1)


def known_by_code(before: Tensor, gap: Tensor, code: Tensor, rng: torch.Generator) -> Tensor:
    """The cross-entropy of codes for who knows the code before, and how many steps ago it was.

    The better of two: who repeats it is right where codes stay as they are, and a table of what
    comes after which cluster where they move on in an order.
    """
    cluster = before.argmax(1)
    table = torch.stack([cluster, cluster * (int(gap.max()) + 1) + gap], 1)
    return torch.minimum(known_alone(table, code, rng), repeated(before, gap, code, rng))


def repeated(before: Tensor, gap: Tensor, code: Tensor, rng: torch.Generator) -> Tensor:
    """The cross-entropy of codes for who expects the code before again, or else any.

    before, code: [B, C]; the guess is a * before + (1 - a) * mean. How much, a, is chosen for each
    gap [B] on one half of the steps and tested on the other, both ways. A table by label is blind
    to this where a label has few steps: it is pulled towards the mean.
    """
    halves = torch.randperm(len(code), generator=rng).to(code.device).tensor_split(2)
    losses = []
    for fitted, tested in (halves, halves[::-1]):
        mean = _mean_code(code[fitted])
        for steps in gap.unique():
            known, asked = (half[gap[half] == steps] for half in (fitted, tested))
            tried = [_mixed(before[known], code[known], mean, share) for share in SHARES]
            share = SHARES[int(torch.stack(tried).argmin())]
            losses.append(_mixed(before[asked], code[asked], mean, share))
    return torch.stack(losses).sum() / len(code)


def _mixed(before: Tensor, code: Tensor, mean: Tensor, share: float) -> Tensor:
    """The summed loss of who expects so much of the code before, and else the mean."""
    return -torch.special.xlogy(code, share * before + (1 - share) * mean).sum()


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


@torch.no_grad()
def worth_of_view(code: Tensor, log_assignment: Tensor) -> Tensor:
    """How much worse codes [B, C] are predicted from the views of other pairs of the minibatch."""
    rng = torch.Generator().manual_seed(0)  # not a draw of training's
    other = torch.randperm(len(code), generator=rng).to(code.device)
    strange = ops.cross_entropies(code, log_assignment.index_select(0, other))
    return (strange - ops.cross_entropies(code, log_assignment)).mean()


class Play:
    """Codes of one rollout with what is known of their steps, until figures are asked of them."""

    def __init__(self, most: int = 4096) -> None:
        """most: how many steps are kept; the rest of a rollout would say the same."""
        self.most, self.parts = most, list[dict[str, Tensor]]()

    @property
    def full(self) -> bool:
        return sum(len(part["code"]) for part in self.parts) >= self.most

    def add(self, **columns: Tensor) -> None:
        """`code` [B, C], `level` and `loss` [B]; `before` [B, C], another code, and the `gap` [B]
        to it; and by any other name labels [B] that a code might be guessed by, or several ways of
        labelling [B, K]."""
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
        if "before" in rows:
            before, gap = rows.pop("before"), rows.pop("gap")
            figures["knowing_before"] = known_by_code(before, gap, code, rng)
        for name, keys in rows.items():
            figures[f"knowing_{name}"] = known_alone(keys, code, rng)
        return figures
