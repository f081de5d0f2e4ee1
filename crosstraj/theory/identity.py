"""What codes are about (docs/theory.md, S1-S7): the swapped loss, learnt where the truth is known.

The earlier view (a frame and its action) predicts the code of its partner in the same stretch. A
`Variant` says who the partner is, whether features are less the mean of their stretch, whether the
code sees the partner's action, and over what codes are balanced. Losses are over all pairs of a
stretch, so that nothing but the walks is drawn at random.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crosstraj.nn import ops
from crosstraj.nn.heads import linear
from crosstraj.nn.sinkhorn import sinkhorn
from crosstraj.theory.walks import BUTTONS, Kind, Walks, draw_looks, draw_walks

CLUSTERS, FEATURES, WIDTH = 6, 16, 16
CODE_TEMPERATURE, TEMPERATURE, ROUNDS = 0.05, 0.1, 3  # as CTRL's default
LOUD = 4.0  # length of an action's part of a view; a place's is .25
STRETCHES, BATCHES, TEST_STRETCHES = 18, 32, 192
RATE = 1e-2
UPDATES = 200  # after which nothing of note changes, but for S6


class Variant(NamedTuple):
    near: bool  # the partner is the next step; else any other of the stretch
    centred: bool = False
    action_in_code: bool = False
    balanced_within: bool = False  # balanced in each stretch; else over the batch


class Setting(NamedTuple):
    kind: Kind
    variant: Variant
    nonlinear: bool = False  # psi also reads the sizes of its features
    steps: int = 24  # of a stretch


class Found(NamedTuple):
    """In nats, but for `share`; what codes tell is the plug-in figure less that of permuted codes.

    `level`, `place` and `action` are those of the frame that the code is of.
    """

    loss: float
    entropy: float  # H(C), of the mean code
    stretch: float  # I(C; F) with F the stretch: exact for the stretches at hand
    acting: float  # how much the loss grows when the predicting views' actions are permuted
    level: float
    place: float
    action: float
    share: float  # of the variance of raw features, between levels

    @property
    def predicted(self) -> float:
        """H(C) - L: nats of the partner's code that the predicting view tells."""
        return self.entropy - self.loss


class Net(nn.Module):
    """A linear encoder, an action's part of a view, psi, theta and prototypes."""

    def __init__(self, inputs: int, nonlinear: bool, rng: torch.Generator) -> None:
        super().__init__()
        read = 2 * FEATURES if nonlinear else FEATURES
        self.nonlinear = nonlinear
        self.encoder = linear(inputs, FEATURES, 1.0, rng)
        self.scale = nn.Parameter(torch.zeros(BUTTONS, read))
        shift = torch.empty(BUTTONS, read)
        self.shift = nn.Parameter(nn.init.orthogonal_(shift, LOUD, generator=rng))
        self.psi = linear(read, WIDTH, 1.0, rng)
        self.theta = linear(WIDTH, WIDTH, 1.0, rng)
        self.prototypes = nn.Parameter(ops.unit(torch.randn(CLUSTERS, WIDTH, generator=rng)))

    def with_action(self, u: Tensor, action: Tensor) -> Tensor:
        """FiLM with one table: (1 + scale(a)) * u + shift(a)."""
        scale, shift = (table.index_select(0, action) for table in (self.scale, self.shift))
        return (1 + scale) * u + shift

    def forward(self, walks: Walks, variant: Variant) -> tuple[Tensor, Tensor]:
        """Codes without a gradient and log predictions of all frames, both [G, L, C]."""
        stretches, steps = shape = walks.place.shape
        u = self.encoder(walks.frame.flatten(0, 1))
        if variant.centred:
            u = ops.centred(u, torch.arange(stretches).repeat_interleave(steps), stretches)
        if self.nonlinear:
            u = torch.cat([u, u.abs()], dim=1)
        acting = self.with_action(u, walks.action.flatten())
        w = ops.unit(self.theta(self.psi(acting)))
        log_prediction = (w @ self.prototypes.T / TEMPERATURE).log_softmax(1)
        with torch.no_grad():
            v = ops.unit(self.psi(acting if variant.action_in_code else u))
            scores = v @ self.prototypes.T / CODE_TEMPERATURE
            balance = partial(sinkhorn, rounds=ROUNDS)
            if variant.balanced_within:
                code = torch.vmap(balance)(scores.unflatten(0, shape))
            else:
                code = balance(scores).unflatten(0, shape)
        return code, log_prediction.unflatten(0, shape)


def pair_loss(code: Tensor, log_prediction: Tensor, near: bool) -> Tensor:
    """- mean of sum_c code_c(partner) log prediction_c, over all pairs of all stretches [G, L, C].

    The partner is the next step, or each other step of the stretch with equal weight.
    """
    if near:
        return -(code[:, 1:] * log_prediction[:, :-1]).sum(2).mean()
    others = (code.sum(1, keepdim=True) - code) / (code.shape[1] - 1)
    return -(others * log_prediction).sum(2).mean()


def told_of_stretch(code: Tensor) -> Tensor:
    """I(C; F) = H(mean code) - mean of H(mean code of a stretch), for stretches of equal weight."""
    return ops.entropy(code.mean((0, 1))) - ops.entropy(code.mean(1)).mean()


def information(a: Tensor, b: Tensor) -> float:
    """Plug-in mutual information of two lists of labels, in nats."""
    columns = int(b.max()) + 1
    joint = torch.bincount(a * columns + b, minlength=(int(a.max()) + 1) * columns).double()
    joint = (joint / len(a)).view(-1, columns)
    parts = ops.entropy(joint.sum(0)) + ops.entropy(joint.sum(1))
    return float(parts - ops.entropy(joint.flatten()))


def share_between(features: Tensor, label: Tensor) -> float:
    """The share of the features' variance that lies between labels."""
    inside = ops.centred(features, label, int(label.max()) + 1).square().sum()
    return 1 - float(inside / (features - features.mean(0)).square().sum())


def learn(setting: Setting, seed: int, updates: int = UPDATES) -> Found:
    """Descend the loss on walks of one set of looks; measure on fresh walks of the same."""
    rng = torch.Generator().manual_seed(seed)
    looks = draw_looks(rng)
    draw = partial(draw_walks, setting.kind, looks, steps=setting.steps, rng=rng)
    walks = draw(stretches=STRETCHES * BATCHES)
    net = Net(walks.frame.shape[2], setting.nonlinear, rng)
    # Where centring leaves rounding alone, Adam must not make a step of it: hence this epsilon.
    adam = torch.optim.Adam(net.parameters(), lr=RATE, eps=1e-5)
    for update in range(updates):
        batch = walks.part(update % BATCHES * STRETCHES, STRETCHES)
        code, log_prediction = net(batch, setting.variant)
        loss = pair_loss(code, log_prediction, setting.variant.near)
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            net.prototypes.copy_(ops.unit(net.prototypes))
    return measure(net, setting, draw(stretches=TEST_STRETCHES), rng)


@torch.no_grad()
def measure(net: Net, setting: Setting, walks: Walks, rng: torch.Generator) -> Found:
    """Hard codes are the argmax of Sinkhorn's over all the walks."""
    code, log_prediction = net(walks, setting.variant)
    hard = code.argmax(2).flatten()
    level = walks.level.repeat_interleave(walks.place.shape[1])
    loss = pair_loss(code, log_prediction, setting.variant.near)
    order = torch.randperm(walks.action.numel(), generator=rng)
    _, misled = net(
        walks._replace(action=walks.action.flatten()[order].view_as(walks.action)), setting.variant
    )

    def told(label: Tensor) -> float:
        order = torch.randperm(len(hard), generator=rng)
        return information(hard, label) - information(hard[order], label)

    return Found(
        loss=float(loss),
        entropy=float(ops.entropy(code.mean((0, 1)))),
        stretch=float(told_of_stretch(code)),
        acting=float(pair_loss(code, misled, setting.variant.near) - loss),
        level=told(level),
        place=told(walks.place.flatten()),
        action=told(walks.action.flatten()),
        share=share_between(net.encoder(walks.frame.flatten(0, 1)), level),
    )
