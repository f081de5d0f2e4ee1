"""PSE: steps at which good policies will act alike are embedded alike (Agarwal et al., ICLR 2021).

The policy similarity metric between the steps of two levels is how differently the policies of the
two levels act now and, discounted, from there on. A contrastive loss pulls each step to the nearest
one of the other level, and away from the rest. The data are stretches of two levels
(`paired_play.py`), played by random policies or by experts; the policy's own rollout is not used.

Differs from the paper: PPO takes the place of SAC.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, assert_never

import torch
from torch import Tensor

from crosstraj.data.rollout import Played
from crosstraj.errors import BadInput, check_range
from crosstraj.nn import ops
from crosstraj.nn.heads import projection
from crosstraj.objectives.base import (
    Encoder,
    Metrics,
    Objective,
    ObjectiveConfig,
    RunValues,
    Stage,
)
from crosstraj.objectives.method import JOINT, Method
from crosstraj.objectives.paired_play import PairedPlay, Uniform


@dataclass(frozen=True)
class PSEConfig(ObjectiveConfig):
    """PSE's own values; the CTRL paper gives the extra play and a grid, the rest is PSE's code."""

    policies: Literal["random", "pretrained"] = "random"
    """Policy that plays the pairs of levels: uniformly random, or those of `crosstraj experts`."""
    experts: str = "experts"
    """Directory of the experts, where `crosstraj experts` makes one directory per game."""
    accept_weak_experts: bool = False
    """Train even if some experts are not clearly better than random play on their level."""
    levels: int = 40
    """Number of training levels played for pairs, counted from the first (paper)."""
    pairs: int = 4
    """Pairs of levels played in parallel."""
    steps: int = 128
    """Steps per level and rollout; 8 x 128 per 8192 frames is the paper's 1M per 8M."""
    same_actions: bool = True
    """Random policies: play the same actions in both levels of a pair, as PSE's code does."""
    distance: Literal["auto", "actions", "variation"] = "auto"
    """Distance of two policies: actions differ (0 or 1), or total variation; auto fits
    `policies`."""
    discount: float = 0.99
    """Discount factor of the policy-similarity metric (PSE's code)."""
    metric: Literal["sum", "scaled"] = "sum"
    """Discounted sum of distances (PSE's code), or that sum scaled by 1 - discount."""
    kernel_width: float = 0.1
    """Width beta of the kernel exp(-metric / beta) (PSE's code, for metric=sum)."""
    soft_coupling: bool = True
    """Weight positives and negatives by the metric; off is plain InfoNCE with the nearest step."""
    temperature: float = 0.1
    """Softmax temperature of the similarities (PSE's code .1; the CTRL paper's grid .1, .3, .7)."""
    weight: float = 1.0
    """Weight of the loss beside PPO's (PSE's code 1; the CTRL paper's grid .1, 1, 2)."""
    shift: int = 4
    """Largest random shift of a frame, in pixels; all frames of a trajectory are shifted alike."""
    width: int = 256
    """Width of the embedding (PSE's Procgen code)."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "pairs", "width", at_least=1)
        check_range(self, "objective.", "steps", at_least=2)
        check_range(self, "objective.", "shift", "weight", at_least=0)
        if self.levels < 2 * self.pairs:
            raise BadInput(
                f"objective.levels={self.levels} cannot fill objective.pairs={self.pairs}: no "
                "level is played twice at once; give two levels or more for each pair"
            )
        check_range(self, "objective.", "temperature", "kernel_width", above=0)
        check_range(self, "objective.", "discount", at_least=0, below=1)
        if self.policies == "random" and self.distance == "variation":
            raise BadInput(
                "objective.distance=variation with objective.policies=random: uniform policies "
                "never differ, so every distance is 0 and there is nothing to tell apart; use "
                "distance=actions, or policies=pretrained"
            )

    def needs(self) -> tuple[int, str]:
        return 0, ""  # the rollout is not used

    def check(self, run: RunValues) -> None:
        from crosstraj.envs import GAMES  # the loss needs no environments

        if run.env not in GAMES:
            raise BadInput(f"method={run.method} plays chosen levels: {run.env} has none")
        if self.levels > run.procgen.train_levels:
            raise BadInput(
                f"objective.levels={self.levels} are more than procgen.train_levels="
                f"{run.procgen.train_levels}: only training levels may be played; lower it"
            )
        if run.procgen.use_generated_assets:
            raise BadInput(
                f"method={run.method} puts levels back to their first frame, which the engine "
                "cannot do with procgen.use_generated_assets=True; leave it off"
            )

    def complaints(self, metrics: dict[str, float]) -> dict[str, str | None]:
        return {"policies alike": policies_alike(metrics)}

    def source(self, stage: Stage) -> PairedPlay:
        levels, random = stage.levels(self.levels), self.policies == "random"
        weak = self.accept_weak_experts
        return PairedPlay(
            stage.make_level,
            levels,
            Uniform(stage.actions)
            if random
            else stage.experts(levels, self.experts, accept_weak=weak),
            pairs=self.pairs,
            steps=self.steps,
            same_actions=random and self.same_actions,
        )

    @property
    def by_actions(self) -> bool:
        return self.distance == "actions" or (self.distance == "auto" and self.policies == "random")


def policies_alike(metrics: dict[str, float]) -> str | None:
    """Uniform policies, or experts that have learnt nothing, leave the metric at zero."""
    distance = metrics.get("policy_distance", 1.0)
    if distance >= 0.01:
        return None
    return (
        f"the policies that play the levels act alike: their mean distance is {distance:.4f} of 1, "
        "so that every step matches every other and PSE learns nothing; train the experts longer "
        "(`crosstraj experts` says whether they beat random play), or use distance=actions"
    )


def policy_similarity(cost: Tensor, discount: float) -> Tensor:
    """The policy similarity metric [n, m] from the distance [n, m] of the policies at each step.

    d[i, j] = cost[i, j] + discount * d[i + 1, j + 1], where a level that is over waits at its last
    step for the other, and nothing comes after both. One pass from the last corner is exact.
    """
    distance = cost.double().clone()
    for j in reversed(range(cost.shape[1] - 1)):
        distance[-1, j] += discount * distance[-1, j + 1]
    for i in reversed(range(cost.shape[0] - 1)):
        following = torch.cat([distance[i + 1, 1:], distance[i + 1, -1:]])
        distance[i] += discount * following
    return distance


def contrast(similarity: Tensor, distance: Tensor, kernel_width: float, *, soft: bool) -> Tensor:
    """The contrastive metric loss of each row [n], given [n, m] similarities and distances.

    With p the nearest column and G = exp(-distance / kernel_width):
    -log( G_p e^S_p / (G_p e^S_p + sum_{j != p} (1 - G_j) e^S_j) ); G_p = 1 - G_j = 1 unless `soft`.
    """
    nearest = distance.argmin(1, keepdim=True)
    log_coupling = -distance / kernel_width if soft else torch.zeros_like(distance)
    # 1e-9 as in PSE's code: a step that is no farther than the nearest is nobody's negative.
    log_apart = (-torch.expm1(log_coupling) + 1e-9).log() if soft else torch.zeros_like(distance)
    positive = (similarity + log_coupling).gather(1, nearest)
    scores = (similarity + log_apart).scatter(1, nearest, positive)
    return scores.logsumexp(1) - positive.squeeze(1)


def negative_weight(distances: list[Tensor], kernel_width: float) -> Tensor:
    """Mean 1 - G over all steps but the nearest of each row: 1 where every other step repels."""
    if not kernel_width:
        return torch.ones(())
    # Sorted rows have the nearest first.
    others = torch.cat([distance.sort(1).values[:, 1:].flatten() for distance in distances])
    return -torch.expm1(-others / kernel_width).mean()


class Matched(NamedTuple):
    """A stretch of two levels, and how far the steps of one are from those of the other."""

    frames: Tensor  # [2 L, H, W, C] uint8, the first level's before the second's
    distance: Tensor  # [L, L]; rows: the first level


class Batch(NamedTuple):
    frames: Tensor  # [F, H, W, C] uint8, stretch after stretch
    distances: list[Tensor]  # of each stretch


class PSE(Objective):
    why_no_memory = "its pairs of levels are played by others, whose frames have no memory of ours"
    source: PairedPlay | None

    def __init__(
        self, config: PSEConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config = config
        self.head = projection(features, config.width, "none", rng)
        self.matched: list[Matched] = []  # the latest play; anew before every update

    def gather(self, rng: torch.Generator) -> None:
        if self.source is None:
            return
        self.matched = [
            Matched(stretch.frames.flatten(0, 1), self.distances(stretch.action, stretch.policy))
            for stretch in self.source.play(rng)
        ]

    def distances(self, action: Tensor, policy: Tensor) -> Tensor:
        """The metric between the steps of two levels, from actions [2, L] and policies [2, L, A].

        Two policies that differ in their first action alone are 1 apart, in a stretch of any
        length; scaled, it is those that would never agree.
        """
        if self.config.by_actions:
            cost = (action[0, :, None] != action[1, None, :]).float()
        else:
            cost = 0.5 * (policy[0, :, None] - policy[1, None, :]).abs().sum(-1)
        distance = policy_similarity(cost, self.config.discount)
        match self.config.metric:
            case "sum":
                return distance.float()
            case "scaled":
                return (distance * (1 - self.config.discount)).float()
            case other:
                assert_never(other)

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        """Each stretch in one minibatch; where they are too few, some serve again, moved anew."""
        device = rollout.done.device
        order = torch.randperm(len(self.matched), generator=rng).tolist()
        for index in range(count if order else 0):
            chosen = order[index::count] or [order[index % len(order)]]
            mine = [self.matched[i] for i in chosen]
            frames = torch.cat([self.moved(pair.frames, rng) for pair in mine])
            yield Batch(frames.to(device), [pair.distance.to(device) for pair in mine])

    def moved(self, frames: Tensor, rng: torch.Generator) -> Tensor:
        """As one picture with the channels of all: every frame of a stretch goes the same way."""
        count, height, width, channels = frames.shape
        picture = frames.permute(1, 2, 0, 3).reshape(1, height, width, count * channels)
        picture = ops.random_shift(picture, self.config.shift, rng)
        moved = picture.view(height, width, count, channels).permute(2, 0, 1, 3)
        return moved.contiguous()

    def loss(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        c = self.config
        embedding = ops.unit(self.head(encode(batch.frames)))
        similarities = []
        for stretch in embedding.split([2 * len(distance) for distance in batch.distances]):
            first, second = stretch.chunk(2)
            similarities.append(first @ second.T / c.temperature)
        both_ways = [
            contrast(s, d, c.kernel_width, soft=c.soft_coupling)
            for similarity, distance in zip(similarities, batch.distances, strict=True)
            for s, d in ((similarity, distance), (similarity.T, distance.T))
        ]
        contrasts = 2 * torch.cat(both_ways).mean()  # mean over rows + mean over columns
        # The positives' own distance is a part of the loss that no feature changes.
        given = torch.cat([d.amin(axis) for d in batch.distances for axis in (0, 1)]).mean()
        given = given / c.kernel_width if c.soft_coupling else torch.zeros_like(given)
        return c.weight * contrasts, {
            "contrast": contrasts,
            "contrast_of_features": contrasts - 2 * given,
            **self.evidence(similarities, batch.distances),
        }

    @torch.no_grad()
    def evidence(self, similarities: list[Tensor], distances: list[Tensor]) -> Metrics:
        """Is there something to tell apart, and is it told apart?"""
        nearest = torch.cat([distance.argmin(1) for distance in distances])
        found = torch.cat([similarity.argmax(1) for similarity in similarities])
        played = self.source.frames if self.source is not None else 0
        c = self.config
        every = torch.cat([distance.flatten() for distance in distances])
        positives = torch.cat([distance.amin(1) for distance in distances])
        # In parts of the distance of policies that would never agree: figures of any metric's.
        part = 1.0 if c.metric == "scaled" else 1 - c.discount
        width = c.kernel_width if c.soft_coupling else 0.0  # plain InfoNCE: every weight is 1
        return {
            "policy_distance": part * every.mean(),
            "nearest_distance": part * positives.mean(),
            "negative_weight": negative_weight(distances, width),
            "nearest_found": (found == nearest).float().mean(),
            "extra_frames": torch.tensor(float(played), dtype=torch.float64),  # counts stay exact
        }


# Adam would undo the loss coefficient in steps of its own.
METHOD = Method("pse", PSEConfig, PSE, defaults=JOINT)
