"""Situations: foretell the cluster of a later frame, from an earlier one and the actions between.

Ours, after CTRL, and not the published method: CTRL's codes tell which episode a view is from, for
that is all that its two views share (docs/theory.md). Here the two sides are frames of one stretch
(consecutive steps of one episode), both less what the stretch has in common, so that what a level
adds to all its frames is in neither. The code is of the later frame alone; the earlier one predicts
it with the actions taken between. That alone asks for nothing that an agent does: what changes
slowly is the cheapest to foretell. So a second head tells each action from what it changed in the
features (inverse dynamics).

Shortcuts that attain a low loss without this, and the figure that sees each:
  repeating the code of the earlier frame  knowing_before: the loss of who knows that code alone
  where in the stretch, when in the game   knowing_time
  what was done, whatever the situation    knowing_action; frame_gain: what the frame is worth
  the situation, whatever was done         action_gain: what the actions are worth
  levels that change how the frames differ codes_about_level, levels_per_cluster, level_variance
  what a centred stretch still shares      the same loss with `--objective.shuffled`
  heads on an encoder that learns nothing  the same loss with `--encoder-grad none`
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj.data.episode_borders import time_of
from crosstraj.data.rollout import Played
from crosstraj.data.within_episodes import Stretches, stretches
from crosstraj.errors import check_range
from crosstraj.health.complaints import of_clusters
from crosstraj.health.instruments import clustering_health, moments, spread_of
from crosstraj.nn import ops
from crosstraj.nn.heads import SequenceFiLM, mlp, projection, without_statistics
from crosstraj.nn.memory import Frames
from crosstraj.objectives.base import Clustering, Metrics, ObjectiveConfig
from crosstraj.objectives.method import JOINT, Method
from crosstraj.objectives.prototypes import Prototypes, unit_rows

LEAST = 8  # steps of a stretch that carries a pair: its mean must not give a frame away


@dataclass(frozen=True)
class SituationsConfig(ObjectiveConfig):
    """All values are ours: docs/learning.md says what for, docs/searches.md what was tried."""

    temperatures = ("code_temperature", "temperature")

    clusters: int = 64
    """Number of prototypes, one per cluster."""
    gap: int = 4
    """Largest number of steps between the two frames of a pair; gaps are powers of two."""
    centred: bool = True
    """Subtract the mean features of the surrounding steps, which removes a constant background."""
    code_temperature: float = 0.05
    """Softmax temperature of the cluster assignments (SwAV)."""
    temperature: float = 0.1
    """Softmax temperature of the predicted assignments (SwAV)."""
    rounds: int = 3
    """Sinkhorn iterations (SwAV, Proto-RL)."""
    inverse_weight: float = 10.0
    """Weight of the inverse-dynamics loss: predict the action from how the features change."""
    predict_weight: float = 0.0
    """Weight of predicting views of near clusters in other levels, as CTRL does."""
    neighbour_count: int = 3
    """Neighbouring clusters per view in that prediction, K (CTRL)."""
    width: int = 256
    """Width of the projection heads (CTRL)."""
    shuffled: bool = False
    """Control experiment: predict the cluster and action of other steps of the same stretch."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "gap", "rounds", "neighbour_count", "width", at_least=1)
        check_range(self, "objective.", "temperature", "code_temperature", above=0)
        check_range(self, "objective.", "inverse_weight", "predict_weight", at_least=0)
        check_range(self, "objective.", "clusters", at_least=2)

    @property
    def gaps(self) -> list[int]:
        return [2**power for power in range(int(math.log2(self.gap)) + 1)]

    def complaints(self, metrics: dict[str, float]) -> dict[str, str | None]:
        return of_clusters(metrics, self.clusters)

    def needs(self) -> tuple[int, str]:
        return max(LEAST, self.gaps[-1] + 1), f"objective.gap={self.gap}"


class Batch(NamedTuple):
    frames: Frames  # [F, H, W, C] uint8, stretch by stretch
    action: Tensor  # [F] int64
    stretch: Tensor  # [F] the stretch of each frame, ascending
    place: Tensor  # [F] its number there, from 0
    time: Tensor  # [F] steps since its episode began, or the rollout
    level: Tensor  # [F] the level, or where there are none a number for the episode
    earlier: Tensor  # [B] positions in `frames`
    gap: Tensor  # [B] how many steps later the other frame of the pair is


class Situations(Prototypes):
    reads_stretches = True

    def __init__(
        self, config: SituationsConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config, self.actions = config, actions
        width, most = config.width, config.gaps[-1]
        self.film = SequenceFiLM(actions, most, features, rng)
        self.psi = projection(features, width, "batch", rng)
        self.theta = projection(width, width, "batch", rng)
        self.prototypes = unit_rows(config.clusters, width, rng)
        if config.predict_weight:
            self.psi_pred = projection(features, width, "batch", rng)
            self.theta_pred = projection(width, width, "batch", rng)
        if config.inverse_weight:
            self.inverse = mlp(features, width, actions, rng, gain=0.01)

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        length = max(len(rollout.done) // count, self.config.needs()[0])
        for minibatch in stretches(rollout.done.cpu(), count, length, rng):
            batch = self.batch(rollout, minibatch, rng)
            if batch is not None:
                yield batch

    def batch(self, rollout: Played, minibatch: Stretches, rng: torch.Generator) -> Batch | None:
        frame, stretch = (field.to(rollout.done.device) for field in minibatch)
        size = torch.bincount(stretch)
        place = torch.arange(len(frame), device=frame.device) - (size.cumsum(0) - size)[stretch]
        gaps = torch.tensor(self.config.gaps)
        gap = gaps[torch.randint(len(gaps), (len(frame),), generator=rng)].to(frame.device)
        inside = (place + gap < size[stretch]) & (size[stretch] >= LEAST)
        if inside.sum() < 2:  # batch norm needs two
            return None
        earlier = inside.nonzero().squeeze(1)
        return Batch(
            rollout.frames().index_select(0, frame),
            rollout.action.flatten().index_select(0, frame),
            stretch,
            place,
            time_of(rollout.done).flatten().index_select(0, frame),
            rollout.group().flatten().index_select(0, frame),
            earlier,
            gap.index_select(0, earlier),
        )

    def loss_of(
        self, features: Tensor, batch: Batch, rng: torch.Generator
    ) -> tuple[Tensor, Metrics]:
        c, earlier = self.config, batch.earlier
        within = self.without_stretch(features, batch.stretch)
        source, action = within.index_select(0, earlier), self.between(batch)

        # The code of the later frame: without a gradient, and what running statistics are of.
        with torch.no_grad():
            v = self.psi(self.subject(within, batch))
            code = self.code(v, c.code_temperature, c.rounds)
        target = code
        if c.shuffled:
            target = code.index_select(0, ops.alike(batch.stretch.index_select(0, earlier), rng))
        log_assignment = self.foretell(source, action)
        losses = ops.cross_entropies(target, log_assignment)
        cluster = losses.mean()

        loss, metrics = cluster, {"cluster": cluster}
        if c.predict_weight:
            metrics |= self.predict(within, batch, target.argmax(1), rng)
            loss = loss + c.predict_weight * metrics["predict"]
        if c.inverse_weight:
            metrics["inverse"] = self.tell_action(features, batch, rng)
            loss = loss + c.inverse_weight * metrics["inverse"]
        with torch.no_grad():
            if not self.measured:  # on the first batch of a rollout, for it costs as much again
                strange = ops.alike(batch.gap, rng)
                metrics |= self.worth(source, action, target, cluster, strange)
                metrics |= clustering_health(v, code, self.prototypes, c.code_temperature, c.rounds)
                self.measured = True
            if not self.play.full:
                self.remember(source, batch, target, losses)
        return loss, metrics

    def without_stretch(self, features: Tensor, stretch: Tensor) -> Tensor:
        """Features less the mean of their stretch."""
        if not self.config.centred:
            return features
        return ops.centred(features, stretch, int(stretch[-1]) + 1)

    def subject(self, within: Tensor, batch: Batch) -> Tensor:
        """The later frame of each pair, less the mean of its stretch without the earlier one.

        With the mean of all l frames on both sides, the two of a pair would have a correlation of
        -1 / (l - 1) whatever they show; without the earlier frame in this one they have none.
        """
        later = within.index_select(0, batch.earlier + batch.gap)
        if not self.config.centred:
            return later
        others = torch.bincount(batch.stretch)[batch.stretch.index_select(0, batch.earlier)] - 1
        return later + within.index_select(0, batch.earlier) / others[:, None]

    def between(self, batch: Batch) -> Tensor:
        """The actions taken from the earlier frame to the later one, [B, K]; -1 after the last."""
        step = torch.arange(self.config.gaps[-1], device=batch.gap.device)
        place = (batch.earlier[:, None] + step).clamp(max=len(batch.action) - 1)
        taken = ops.rows_at(batch.action, place)
        return torch.where(step < batch.gap[:, None], taken, -1)

    def foretell(self, source: Tensor, action: Tensor) -> Tensor:
        """Log-probabilities of clusters [B, C], from the earlier frame and the actions."""
        with without_statistics(self.psi):  # those are the codes'
            w = self.theta(self.psi(self.film(source, action)))
        scores: Tensor = ops.unit(w) @ self.prototypes.T / self.config.temperature
        return scores.log_softmax(1)

    def tell_action(self, features: Tensor, batch: Batch, rng: torch.Generator) -> Tensor:
        """Inverse dynamics: the loss of telling each action from what it changed, one step on."""
        before = (batch.stretch[1:] == batch.stretch[:-1]).nonzero().squeeze(1)
        change = features.index_select(0, before + 1) - features.index_select(0, before)
        taken = batch.action.index_select(0, before)
        if self.config.shuffled:
            taken = taken[ops.alike(batch.stretch.index_select(0, before), rng)]
        return F.cross_entropy(self.inverse(change), taken)

    def predict(
        self, within: Tensor, batch: Batch, cluster: Tensor, rng: torch.Generator
    ) -> Metrics:
        """CTRL's second loss: a frame against those of near clusters, mined from other levels."""
        v = self.psi_pred(self.subject(within, batch))
        anchor = torch.arange(len(v), device=v.device)
        level = torch.unique(batch.level, return_inverse=True)[1].index_select(0, batch.earlier)
        mined, valid = ops.mine(
            self.prototypes, cluster, level, anchor, self.config.neighbour_count, "nearest", rng
        )
        with torch.no_grad():
            target = ops.rows_at(v, mined)
        distance = ops.squared_distance(ops.unit(self.theta_pred(v))[:, None], ops.unit(target))
        predict = ops.mean_where(distance, valid)
        return {"predict": predict, "mined": valid.float().mean(), **spread_of("predict", v)}

    def worth(
        self, source: Tensor, action: Tensor, target: Tensor, loss: Tensor, other: Tensor
    ) -> Metrics:
        """How much worse the prediction is with the actions, or the frames, of other pairs.

        other: [B] a pair for each that is as far apart, or the gap alone would be worth something.
        """
        with without_statistics(self.theta):
            actions = self.foretell(source, action.index_select(0, other))
            frames = self.foretell(source.index_select(0, other), action)
        return {
            "action_gain": ops.cross_entropies(target, actions).mean() - loss,
            "frame_gain": ops.cross_entropies(target, frames).mean() - loss,
        }

    def remember(self, source: Tensor, batch: Batch, code: Tensor, loss: Tensor) -> None:
        """Keeps the codes with what might predict them: the earlier code, time, the action."""
        with without_statistics(self.psi):
            v = self.psi(source)
        place, time = (x.index_select(0, batch.earlier) for x in (batch.place, batch.time))
        self.play.add(
            code=code,
            loss=loss,
            level=batch.level.index_select(0, batch.earlier),
            nothing=torch.zeros_like(place),
            before=self.code(v, self.config.code_temperature, self.config.rounds),
            gap=batch.gap,
            time=moments(place, time, batch.gap, self.config.gaps[-1]),
            action=batch.action.index_select(0, batch.earlier),
        )

    def clustering(self) -> Clustering:
        """A view is one frame, less the mean of its episode."""
        c = self.config

        def embed(features: Tensor, action: Tensor) -> Tensor:
            v: Tensor = self.psi(features.squeeze(1))
            return v

        return Clustering(
            1, self.prototypes, c.code_temperature, c.rounds, embed, centred=c.centred
        )


METHOD = Method(  # shares the policy's pass, and is kept below its gradient: docs/methods.md
    "situations",
    SituationsConfig,
    Situations,
    defaults={
        **JOINT,
        "policy.stretch": 32,
        "policy.advantages": "rollout",
        "representation.learning_rate": 2e-3,
        "representation.max_ratio": 0.3,
    },
)
