"""IDAAC: features from which nobody can tell which of two frames came first (Raileanu, 2021).

How far a level has been played tells its value, and what a level is worth at some step says little
about another level. So a classifier D learns the order of two frames of one episode from their
features, and the encoder learns to leave it guessing; the policy is DAAC, whose values have a
network of their own (Raileanu and Fergus, ICML 2021). For o_i before o_j:

    classifier:  -(log D(f_i, f_j) + log(1 - D(f_j, f_i))) / 2     features without a gradient
    encoder:     -(log D + log(1 - D)) / 2, mean of both orders    D without a gradient

Differs: each pair is shown in both orders; pairs are of one episode, and in the release of one
level, whoever played it; both sides step at once, and in the release the classifier goes first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from crosstraj.data.rollout import Played
from crosstraj.data.within_episodes import Stretches, uniform_views
from crosstraj.errors import check_range
from crosstraj.nn.heads import linear, mlp
from crosstraj.nn.memory import Frames
from crosstraj.objectives.base import Metrics, Objective, ObjectiveConfig
from crosstraj.objectives.method import JOINT, Method


class TunedObjective(NamedTuple):
    """What IDAAC's release tunes for a game beside DAAC's values (its `--use_best_hps`)."""

    weight: float = 0.001
    hidden: int = 0


TUNED = {
    "bigfish": TunedObjective(0.01, 4),
    "climber": TunedObjective(0.001, 64),
    "dodgeball": TunedObjective(0.001, 64),
    "miner": TunedObjective(0.1, 64),
    "plunder": TunedObjective(0.1, 0),  # a width of 4, which a linear classifier does not use
}  # every other game has the defaults


@dataclass(frozen=True)
class IDAACConfig(ObjectiveConfig):
    """IDAAC's own values, from the authors' release."""

    weight: float = 0.001
    """Weight of the encoder's loss (release; --policy.per-game takes its value for the game)."""
    hidden: int = 0
    """Width of a hidden layer in the classifier; 0 means a linear one (release; --policy.per-game
    takes its value for the game)."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "weight", "hidden", at_least=0)

    def for_game(self, game: str) -> Self:
        return replace(self, **TUNED.get(game, TunedObjective())._asdict())

    def needs(self) -> tuple[int, str]:
        return 2, "a pair of frames"


class Batch(NamedTuple):
    frames: Frames  # [F, H, W, C] uint8
    earlier: Tensor  # [B] positions in `frames`
    later: Tensor  # [B] positions of frames that came after them in the same episode


class IDAAC(Objective):
    reads_stretches = True

    def __init__(
        self, config: IDAACConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config = config
        pair = 2 * features
        self.classifier: nn.Module = (
            mlp(pair, config.hidden, 1, rng) if config.hidden else linear(pair, 1, 1.0, rng)
        )

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        """Each frame with another one of its episode, drawn from all that the rollout has of it."""
        frames = rollout.frames()
        for views in uniform_views(rollout.done.cpu(), count, 2, swap=False, cross=False, rng=rng):
            earlier, later = views.keypoints.to(frames.device).unbind(1)
            yield Batch(frames.index_select(0, views.frame.to(frames.device)), earlier, later)

    def batch(self, rollout: Played, minibatch: Stretches, rng: torch.Generator) -> Batch | None:
        """Each frame with another one of its stretch."""
        frame, stretch = (field.cpu() for field in minibatch)
        size = stretch.bincount()
        begin, size = (size.cumsum(0) - size)[stretch], size[stretch]
        place = torch.arange(len(frame)) - begin
        further = 1 + (torch.rand(len(frame), generator=rng) * (size - 1)).long()
        other = (place + further) % size
        pairs = (begin[:, None] + torch.stack([place, other], dim=1))[size > 1]
        if not len(pairs):
            return None
        device = rollout.done.device
        earlier, later = pairs.sort(1).values.to(device).unbind(1)
        return Batch(rollout.frames().index_select(0, frame.to(device)), earlier, later)

    def loss_of(
        self, features: Tensor, batch: Batch, rng: torch.Generator
    ) -> tuple[Tensor, Metrics]:
        earlier, later = (features.index_select(0, at) for at in (batch.earlier, batch.later))
        pairs = torch.cat([torch.cat([earlier, later], 1), torch.cat([later, earlier], 1)])

        # The classifier learns from the features as they are: a guess costs log 2.
        yes, no = self.classifier(pairs.detach()).squeeze(-1).chunk(2)
        order = 0.5 * (F.softplus(-yes) + F.softplus(no)).mean()

        # The encoder learns to leave this very classifier at even odds: log 2 is the least.
        as_it_is = {name: p.detach() for name, p in self.classifier.named_parameters()}
        odds = functional_call(self.classifier, as_it_is, pairs)
        confusion = 0.5 * (F.softplus(-odds) + F.softplus(odds)).mean()
        told = 0.5 * ((yes > 0).float() + (no < 0).float()).mean()
        evidence = {"order": order, "confusion": confusion, "order_accuracy": told}
        return order + self.config.weight * confusion, evidence


METHOD = Method("idaac", IDAACConfig, IDAAC, defaults={**JOINT, "policy.kind": "daac"})
