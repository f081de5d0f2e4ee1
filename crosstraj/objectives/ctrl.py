"""CTRL: cluster views of trajectories, predict across near clusters (Mazoure et al., ICLR 2022).

Read it next to the paper's Algorithm 1; the letters are the paper's. Where the paper is silent or
contradicts itself we follow docs/methods.md. Three things are ours, and off in `--preset paper`:
normalisation inside the projection heads, codes swapped between two views of one fragment, a loss
where features fold. The released code's alone are `code_gradient`, `target_decay`, `predictors`.

What it asks for: two sets of keypoints of one fragment share a code. Given the fragment they are as
good as independent, so that *which episode this is* attains the optimum (docs/theory.md), and
`codes_about_level` says how far a run has gone there. `situations` asks for something else.
"""

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from crosstraj.data.episode_borders import time_of
from crosstraj.data.rollout import Played
from crosstraj.data.within_episodes import VIEWS, Sampling, Views
from crosstraj.errors import BadInput, check_range
from crosstraj.health.complaints import of_clusters
from crosstraj.health.instruments import clustering_health, spread_of, worth_of_view
from crosstraj.nn import heads, ops
from crosstraj.nn.memory import Frames
from crosstraj.nn.sinkhorn import sinkhorn
from crosstraj.objectives.base import Clustering, Encoder, Metrics, ObjectiveConfig, RunValues
from crosstraj.objectives.method import Method
from crosstraj.objectives.prototypes import Prototypes, unit_rows


@dataclass(frozen=True)
class CTRLConfig(ObjectiveConfig):
    """CTRL's own values; the defaults are ours, presets give the paper's."""

    temperatures = ("code_temperature", "temperature")

    clusters: int = 200
    """Number of prototypes C, one per cluster (paper, table of parameters)."""
    keypoints: int = 2
    """Frames per view, T (paper, table of parameters)."""
    sampling: Sampling = "uniform"
    """Draw a view's frames anywhere in an episode fragment, or consecutively (paper's ablation)."""
    whole_rows: bool = False
    """Let a view cross episode ends, as the pseudocode read literally and the released code do."""
    action_conditioning: bool = True
    """Condition features on the action taken, by FiLM; off is the ablation "no action"."""
    code_temperature: float = 0.05
    """Softmax temperature of the cluster assignments (SwAV .05; paper .3, its only one)."""
    temperature: float = 0.1
    """Softmax temperature of the predicted assignments (SwAV .1; paper .3)."""
    rounds: int = 3
    """Sinkhorn iterations (SwAV, Proto-RL; the paper gives no number)."""
    swap_codes: bool = True
    """Predict one view's cluster assignment from another view of the same fragment (SwAV)."""
    code_gradient: bool = False
    """Backpropagate through the assignments, too (released code; SwAV and Proto-RL do not)."""
    target_decay: float = 0.0
    """EMA decay of the target network; 0 means no target network."""
    predictors: bool = True
    """Use the projection w = theta(v); off, as released, predicts from v and trains no theta."""
    unit_projection: bool = True
    """Normalise w to length one; off is the paper's equation as printed."""
    neighbour_count: int = 3
    """Neighbouring clusters per anchor view, K (paper, table of parameters)."""
    neighbours: Literal["nearest", "farthest"] = "nearest"
    """Which clusters are neighbours: nearest (paper's text), farthest (its formula; released)."""
    anchors: int = 0
    """Anchor views per minibatch, N; 0 takes every view."""
    mine_own_fragment: bool = False
    """Allow neighbour views from the anchor's own episode fragment."""
    raw_distance: bool = False
    """Sum squared distances of raw vectors, as printed; off takes the mean over unit vectors."""
    cluster_weight: float = 1.0
    """Weight of the clustering loss; 0 is the ablation "no cluster"."""
    predict_weight: float = 1.0
    """Weight of the neighbour-prediction loss; 0 is the ablation "no pred"."""
    least_rank: float = 32.0
    """Penalise an effective feature rank below this value; 0 turns it off (paper)."""
    head_norm: heads.HeadNorm = "batch"
    """Normalisation layers of the four projection heads (paper none, which collapses)."""
    view_encoder: heads.ViewEncoder = "mlp"
    """Network that reads a view: an MLP on all frames, or an RNN (paper: "e.g. an RNN")."""
    width: int = 256
    """Width of the projections v and w (the paper gives no number; released code 256)."""

    def __post_init__(self) -> None:
        counts = ("keypoints", "rounds", "neighbour_count", "width")
        check_range(self, "objective.", *counts, at_least=1)
        check_range(self, "objective.", "clusters", at_least=2)
        check_range(self, "objective.", "temperature", "code_temperature", above=0)
        check_range(self, "objective.", "target_decay", at_least=0, below=1)
        check_range(self, "objective.", "least_rank", "anchors", at_least=0)

    def check(self, run: RunValues) -> None:
        if self.least_rank > run.features:
            most = f"{run.features} (features)"
            raise BadInput(f"objective.least_rank={self.least_rank}: must be 0 (none) to {most}")

    def complaints(self, metrics: dict[str, float]) -> dict[str, str | None]:
        return of_clusters(metrics, self.clusters)

    def needs(self) -> tuple[int, str]:
        sets = 2 if self.swap_codes else 1
        return sets * self.keypoints, f"objective.keypoints={self.keypoints}"


class Batch(NamedTuple):
    frames: Frames  # [F, H, W, C] uint8
    action: Tensor  # [F] int64
    views: Views
    level: Tensor  # [F] the level, or where there are none a number for the fragment
    time: Tensor  # [F] steps since the episode began, or the rollout
    probe: bool  # measure the health of the representation on this minibatch


class CTRL(Prototypes):
    def __init__(
        self, config: CTRLConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config = config
        kind, points = config.view_encoder, config.keypoints
        width, norm = config.width, config.head_norm
        self.film = heads.FiLM(actions, features, rng)
        self.psi_clust = heads.view_encoder(kind, points, features, width, norm, rng)
        self.theta_clust = heads.projection(width, width, norm, rng)
        self.psi_pred = heads.view_encoder(kind, points, features, width, norm, rng)
        self.theta_pred = heads.projection(width, width, norm, rng)
        self.prototypes = unit_rows(config.clusters, width, rng)  # E, one row per cluster
        self.slow = nn.ModuleDict()  # encoder, FiLM and psi as they were; empty without a decay
        self.follows = config.target_decay > 0

    def attach(self, encoder: nn.Module) -> None:
        if self.config.target_decay:
            slow = deepcopy(self)  # as far as v and v'
            del slow.theta_clust, slow.theta_pred, slow.prototypes, slow.slow
            parts = {"encoder": deepcopy(encoder), "heads": slow}
            self.slow = nn.ModuleDict(parts).requires_grad_(False)

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        c, done = self.config, rollout.done.cpu()
        drawn = VIEWS[c.sampling](
            done, count, c.keypoints, swap=c.swap_codes, cross=c.whole_rows, rng=rng
        )
        frames, steps = rollout.frames(), (rollout.action, rollout.group(), time_of(rollout.done))
        for index, views in enumerate(drawn):
            views = Views(*(field.to(rollout.done.device) for field in views))
            action, level, time = (part.flatten().index_select(0, views.frame) for part in steps)
            own = frames.index_select(0, views.frame)
            yield Batch(own, action, views, level, time, probe=index == 0)

    def loss(self, encode: Encoder, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        c, views = self.config, batch.views
        # Each frame is encoded once, however many views it is in.
        features = encode(batch.frames)
        u = self.dynamics(features, batch.action, views.keypoints)

        # Cluster the views: code Q~ of v against assignment P of w.
        v, v_pred = self.psi_clust(u), self.psi_pred(u)
        v_slow, v_pred_slow = self.targets(encode, batch, v, v_pred)
        centres = self.prototypes if c.code_gradient else self.prototypes.detach()
        code = sinkhorn(ops.unit(v_slow) @ centres.T / c.code_temperature, c.rounds)
        log_assignment = self.assign(v)
        partner = code.index_select(0, views.partner)
        losses = ops.cross_entropies(partner, log_assignment)
        cluster = losses.mean()

        # Predict neighbours: w'_n against v' of views mined from the clusters near c_n.
        anchor, mined, valid = self.mine(code.argmax(1), views.fragment, rng)
        w_pred = v_pred.index_select(0, anchor)
        w_pred = self.theta_pred(w_pred) if c.predictors else w_pred
        with torch.no_grad():
            target = v_pred_slow if c.predictors else self.theta_pred(v_pred_slow)
            target = ops.rows_at(target, mined)
        predict = self.prediction_loss(w_pred, target, valid)

        loss = c.cluster_weight * cluster + c.predict_weight * predict
        metrics = {"cluster": cluster, "predict": predict, "mined": valid.float().mean()}
        if c.least_rank:  # two views agree most easily on features that hold little
            rank = ops.effective_rank(features)
            metrics["fold"] = (math.log(c.least_rank) - rank.log()).clamp(min=0)
            loss = loss + metrics["fold"]
        if batch.probe:
            metrics |= clustering_health(v, code, self.prototypes, c.code_temperature, c.rounds)
            metrics |= spread_of("predict", v_pred)
            metrics["action_gain"] = self.worth_of_actions(features, batch, code, cluster)
            metrics["frame_gain"] = worth_of_view(partner, log_assignment)
        if not self.play.full:
            self.remember(batch, code, losses)
        return loss, metrics

    @torch.no_grad()
    def worth_of_actions(
        self, features: Tensor, batch: Batch, code: Tensor, cluster: Tensor
    ) -> Tensor:
        """How much worse the prediction of codes is with the actions of other steps."""
        generator = torch.Generator().manual_seed(0)  # not a draw of training's
        other = torch.randperm(len(batch.action), generator=generator).to(features.device)
        u = self.dynamics(features, batch.action[other], batch.views.keypoints)
        with heads.without_statistics(self):
            log_assignment = self.assign(self.psi_clust(u))
        target = code.index_select(0, batch.views.partner)
        return ops.cross_entropies(target, log_assignment).mean() - cluster

    @torch.no_grad()
    def remember(self, batch: Batch, code: Tensor, losses: Tensor) -> None:
        """Keeps the codes that are predicted, with what might predict them without learning."""
        views = batch.views
        first = views.keypoints[:, 0]
        # Not swapped, a view predicts its own code, and there is none before it.
        before = {"before": code, "gap": torch.zeros_like(first)} if self.config.swap_codes else {}
        self.play.add(
            code=code.index_select(0, views.partner),
            loss=losses,
            level=batch.level.index_select(0, first),
            nothing=torch.zeros_like(first),
            time=(batch.time.index_select(0, first) + 1).float().log2().long(),
            **before,
        )

    def assign(self, v: Tensor) -> Tensor:
        """log P: log-probabilities of clusters [B, C]."""
        c = self.config
        w = self.theta_clust(v) if c.predictors else v
        w = ops.unit(w) if c.unit_projection else w
        scores: Tensor = w @ self.prototypes.T / c.temperature
        return scores.log_softmax(1)

    def dynamics(self, features: Tensor, action: Tensor, keypoints: Tensor) -> Tensor:
        """u_i = [FiLM(phi(o_t1), a_t1), ..., FiLM(phi(o_tT), a_tT)]: [F, D] -> [B, T D]."""
        c = self.config
        conditioned = self.film(features, action) if c.action_conditioning else features
        return ops.rows_at(conditioned, keypoints).flatten(1)

    def clustering(self) -> Clustering:
        c = self.config

        def embed(features: Tensor, action: Tensor) -> Tensor:
            keypoints = torch.arange(action.numel(), device=action.device).view_as(action)
            u = self.dynamics(features.flatten(0, 1), action.flatten(), keypoints)
            return self.psi_clust(u)

        return Clustering(
            c.keypoints, self.prototypes, c.code_temperature, c.rounds, embed, c.sampling
        )

    @torch.no_grad()
    def targets(
        self, encode: Encoder, batch: Batch, v: Tensor, v_pred: Tensor
    ) -> tuple[Tensor, Tensor]:
        """v and v' without a gradient, as codes and mined views have them: now, or slow."""
        if not self.slow:
            return v.detach(), v_pred.detach()
        slow = self.slow["heads"]
        assert isinstance(slow, CTRL)
        features = encode.on(self.slow["encoder"])(batch.frames)
        u = slow.dynamics(features, batch.action, batch.views.keypoints)
        return slow.psi_clust(u), slow.psi_pred(u)

    @torch.no_grad()
    def mine(
        self, cluster: Tensor, fragment: Tensor, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors [N], a mined view from each of their K neighbour clusters, and which exist."""
        c = self.config
        anchor = torch.arange(len(cluster), device=cluster.device)
        if 0 < c.anchors < len(cluster):
            chosen = torch.randperm(len(cluster), generator=rng)[: c.anchors]
            anchor = chosen.sort().values.to(cluster.device)
        own, count, order = c.mine_own_fragment, c.neighbour_count, c.neighbours
        e = self.prototypes
        near = ops.mine(e, cluster, fragment, anchor, count, order, rng, own_group=own)
        return anchor, *near

    def prediction_loss(self, predicted: Tensor, target: Tensor, valid: Tensor) -> Tensor:
        """L_pred from w' [N, D] and v' of mined views [N, K, D]; nothing to mine gives 0."""
        if self.config.raw_distance:
            distance = ops.squared_distance(predicted[:, None], target)
            return (distance * valid).sum()
        distance = ops.squared_distance(ops.unit(predicted)[:, None], ops.unit(target))
        return ops.mean_where(distance, valid)

    @torch.no_grad()
    def after_step(self, encoder: nn.Module) -> None:
        super().after_step(encoder)
        if self.slow:
            decay = self.config.target_decay
            ops.follow(self.slow["encoder"], encoder, decay)
            for name, part in self.slow["heads"].named_children():
                ops.follow(part, self.get_submodule(name), decay)


METHOD = Method("ctrl", CTRLConfig, CTRL)  # its defaults are those of `Config` itself
