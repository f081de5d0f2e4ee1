"""Two losses on one encoder: gradients measured apart, the objective's bounded, then summed.

Also the anchor, which holds the policy in place while an objective has a pass of its own.
"""

import copy
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crosstraj.nn.encoders import Encode
from crosstraj.nn.memory import Frames
from crosstraj.policies.ppo import PPOAgent

Gradients = dict[str, Tensor]  # by the name of their parameter
Metrics = dict[str, Tensor]
Evidence = TypeVar("Evidence")


def take(parameters: Mapping[str, nn.Parameter]) -> Gradients:
    """The gradients that there are, taken away from their parameters."""
    taken = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    for parameter in parameters.values():
        parameter.grad = None
    return taken


def give(parameters: Mapping[str, nn.Parameter], *parts: Gradients) -> None:
    """The sum of gradients for each parameter; one that has none in any part gets none."""
    for name, parameter in parameters.items():
        for part in parts:
            if name in part:  # copied: what is bounded later must not change what was measured
                grad = parameter.grad
                parameter.grad = part[name].clone() if grad is None else grad + part[name]


def norm(gradients: Gradients) -> Tensor:
    """Of all together."""
    return nn.utils.get_total_norm(list(gradients.values()))


def scale_within(own: Tensor, policy: Tensor, most: float) -> Tensor:
    """By how much a gradient of norm `own` is scaled to be at most `most` times `policy`'s.

    1 where nothing is bounded: `most` is 0, or there is no other gradient to be held against.
    """
    one = torch.ones_like(own)
    if not most:
        return one
    # Not an `if`, which would wait for the device.
    return torch.where((own > 0) & (policy > 0), (most * policy / own).clamp(max=1), one)


def summed(
    encoder: Mapping[str, nn.Parameter], policy: Gradients, own: Gradients, most: float
) -> tuple[Gradients, Metrics]:
    """Gives the encoder both gradients; returns the objective's part, bounded, and their ratio
    before it was: NaN where one of the two is zero, since then there is none."""
    figures = {}
    if policy and own:
        norms = norm(own), norm(policy)
        scale = scale_within(*norms, most)
        own = {name: scale * gradient for name, gradient in own.items()}
        both = torch.minimum(*norms) > 0
        measured = {"gradient_ratio": norms[0] / norms[1], "gradient_scale": scale}
        figures = {name: torch.where(both, f, math.nan) for name, f in measured.items()}
    give(encoder, policy, own)
    return own, figures


def at_features(
    features: Tensor, loss_of: Callable[[Tensor], tuple[Tensor, Evidence]]
) -> tuple[Tensor | None, Evidence]:
    """The gradient of a loss where it enters the encoder; its own heads have theirs afterwards."""
    read = features.detach().requires_grad_()
    loss, evidence = loss_of(read)
    loss.backward()
    return read.grad, evidence


class Shared(NamedTuple):
    """What came of two gradients sent through one encoding of the frames."""

    own: Gradients  # the objective's part on the weights; empty where it was not measured apart
    gain: float | None  # by how much the encoder favours the objective's gradient, once measured
    figures: Metrics


def through_encoder(
    encoder: Mapping[str, nn.Parameter],
    features: Tensor,
    policy: Tensor | None,
    own: Tensor | None,
    most: float,
    gain: float | None = None,
) -> Shared:
    """Sends two gradients at the features [F, D] through one encoding of the frames.

    Without a `gain` they pass one by one, so that both norms on the weights are known, and with
    them the gain: their ratio there over their ratio at the features. With it they pass as one, and
    the ratio on the weights, to which the bound applies, is taken to be the one at the features
    times the gain. Another minibatch has another gain: `benchmarks.gradient_bound` says how far off
    that is.
    """
    if policy is None or own is None:
        alone = policy if own is None else own
        if alone is not None:
            features.backward(alone)
        mine = take(encoder) if own is not None and gain is None else {}
        give(encoder, mine)
        return Shared(mine, gain, {})
    ratio = own.norm() / policy.norm()
    if gain is not None:
        scale = scale_within(gain * own.norm(), policy.norm(), most)
        features.backward(policy + scale * own)
        return Shared({}, gain, {"gradient_scale": scale})
    features.backward(own, retain_graph=True)
    mine = take(encoder)
    features.backward(policy)
    mine, figures = summed(encoder, take(encoder), mine, most)
    measured = float(figures["gradient_ratio"] / ratio) if figures else math.nan
    return Shared(mine, None if math.isnan(measured) else measured, figures)


class Anchor(Encode):
    """An encoder that remembers what an objective read, and a policy that must not change there.

    The loss is KL(before || now) + (V_before - V)^2 / 2 on the frames that the objective encoded,
    with live heads: they may follow the encoder, but together the two may not move the policy
    (PPG's auxiliary phase does the same; Cobbe et al., 2021).
    """

    def __init__(self, agent: PPOAgent, encode: Encode) -> None:
        super().__init__(
            encode.encoder, live=encode.live, piece=encode.piece, low_memory=encode.low_memory
        )
        self.agent, self.before = agent, copy.deepcopy(agent).requires_grad_(False)
        self.read: list[tuple[Tensor, Tensor]] = []  # features before, and now

    def __call__(self, frames: Frames) -> Tensor:
        features = super().__call__(frames)
        self.read.append((self.on(self.before.encoder)(frames), features))
        return features

    def loss(self) -> Tensor:
        """Of all that was read since this was last asked."""
        before, features = (torch.cat(parts) for parts in zip(*self.read, strict=True))
        self.read.clear()
        nothing = features.new_zeros(len(features), 0)
        with torch.no_grad():
            log_probs, value = self.before.heads(before, nothing)
        log_probs_now, value_now = self.agent.heads(features, nothing)
        kl = F.kl_div(log_probs_now, log_probs, log_target=True, reduction="batchmean")
        return kl + 0.5 * (value - value_now).square().mean()
