"""The fixed set of views as some weights see it: vectors, clusters and codes.

The cluster of a view, defined: networks in evaluation mode; Sinkhorn over the analysed set in fixed
shares of about a training minibatch (view i is in share i mod M, so that every share spans both
splits and all trajectories); the cluster is the argmax of the code. The raw argmax, without
Sinkhorn, is kept beside it, because the two can differ on most rows. Methods without prototypes
are analysed on the features of single frames, which k-means clusters if asked to.

A method whose views are centred takes from features the mean of their stretch, a piece of an
episode in a minibatch. There are no minibatches here: the mean is that of the whole trajectory, and
the clusters that pieces as long as training's would give are kept beside the others.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from crosstraj.analysis.play import Views
from crosstraj.health.instruments import group_means, labels
from crosstraj.learning.load import Trained, load
from crosstraj.nn import ops
from crosstraj.nn.encoders import Encode
from crosstraj.nn.memory import remembering
from crosstraj.nn.sinkhorn import sinkhorn
from crosstraj.objectives.base import Clustering

SHARE = 1024  # views per Sinkhorn: a minibatch of 32 x 256 steps in 8 parts has about as many


class Clusters(NamedTuple):
    cluster: NDArray[np.int64]  # [B]; -1 where the vector is not finite
    raw: NDArray[np.int64]  # [B] argmax without Sinkhorn; the cluster itself for k-means
    entropy: NDArray[np.float32]  # [B] of the code, in nats; NaN for k-means
    centres: NDArray[np.float32]  # [C, D] prototypes, or the centres of k-means


class Embedding(NamedTuple):
    vectors: NDArray[np.float32]  # [B, D]: v, or features
    clusters: Clusters | None  # None: no prototypes, and no k-means asked for
    health: dict[str, float]  # of the features, as in metrics.jsonl
    by_stretch: NDArray[np.int64] | None  # [B] clusters if centred by stretch; None: not centred


class Lens:
    """A run's networks, to look through with the weights of any checkpoint or snapshot."""

    def __init__(self, run: Path, trained: Trained, kmeans: int) -> None:
        self.run, self.kmeans = run, kmeans
        self.put_on(trained)

    @property
    def keypoints(self) -> int:
        return self.clustering.keypoints if self.clustering else 1

    def load(self, step: int | None) -> int:
        """Put on the weights of a snapshot, or of the newest checkpoint; their frame count."""
        self.put_on(load(self.run, step))
        return self.trained.frames

    def put_on(self, trained: Trained) -> None:
        self.trained = trained
        self.clustering = None if self.kmeans else trained.objective.clustering()

    @property
    def stretch(self) -> int:
        """How many steps a whole stretch of training has."""
        config = self.trained.configuration
        own = config.rollout_steps // config.representation.minibatches
        return config.policy.stretch or max(1, own)

    @torch.inference_mode()
    def embed(self, views: Views, shown: Callable[[int], None] = lambda count: None) -> Embedding:
        features, seen = self.features(views, shown)
        health = feature_figures(seen)
        if self.clustering is None:
            vectors = seen.numpy()
            return Embedding(vectors, kmeans_clusters(vectors, self.kmeans), health, None)
        if not self.clustering.centred:
            v = self.project(features, views, self.clustering)
            return Embedding(v.numpy(), prototype_clusters(v, self.clustering), health, None)
        v, other = (
            self.project(centred(features, *groups), views, self.clustering)
            for groups in (episodes(views), (stretches(views, self.stretch), *episodes(views)))
        )
        by_stretch = prototype_clusters(other, self.clustering).cluster
        return Embedding(v.numpy(), prototype_clusters(v, self.clustering), health, by_stretch)

    def features(self, views: Views, shown: Callable[[int], None]) -> tuple[Tensor, Tensor]:
        """Of all frames: what the objective reads [B, T, F], and what the heads read [B T, D].

        A frame that is in several views of its trajectory is encoded once.
        """
        machine, agent = self.trained.configuration.machine, self.trained.agent
        encode = Encode(agent.encoder, live=False, piece=machine.piece)
        played = [torch.from_numpy(array).flatten(0, 1) for array in (views.frames, views.memory)]
        first, place = distinct(views)
        parts, read = list[Tensor](), list[Tensor]()
        for rows in first.split(1024):
            part, memory = (array.index_select(0, rows).to(machine.device) for array in played)
            frames = remembering(part, memory)
            parts.append(encode(frames).cpu())
            # Cut at the map, the heads have a last layer of their own.
            own = agent.split_at == "conv"
            read.append(agent.top(agent.read(encode, frames)).cpu() if own else parts[-1])
            shown(len(rows))
        features, seen = (torch.cat(found).index_select(0, place) for found in (parts, read))
        return features.unflatten(0, views.action.shape), seen

    def project(self, features: Tensor, views: Views, clustering: Clustering) -> Tensor:
        """v [B, D] of features [B, T, F]."""
        device = self.trained.configuration.machine.device
        action = torch.from_numpy(views.action).to(device)
        return clustering.embed(features.to(device), action).cpu()


def distinct(views: Views) -> tuple[Tensor, Tensor]:
    """Of the B T frames: one place of each, by trajectory and step; and which of these each is."""
    frame = views.trajectory[:, None] * (views.step.max() + 1) + views.step
    _, first, place = np.unique(frame.ravel(), return_index=True, return_inverse=True)
    return torch.from_numpy(first), torch.from_numpy(place)


def episodes(views: Views) -> tuple[NDArray[np.int64], ...]:
    """The groups whose mean a view may be centred by: its trajectory, else its level."""
    return views.trajectory, views.level


def stretches(views: Views, length: int) -> NDArray[np.int64]:
    """[B] a number for the piece of `length` steps of its trajectory that a view begins in."""
    piece = views.step[:, 0] // length
    return views.trajectory * (piece.max() + 1) + piece


def centred(features: Tensor, *groups: NDArray[np.int64]) -> Tensor:
    """Features [B, T, F] less the mean over all views of the same group.

    groups: labels [B], the one to use first. A view that is alone in its group would become 0,
    whatever it shows: it takes the mean of the next group, and after the last that of all views.
    """
    own = features.mean(1)
    mean = own.mean(0).expand_as(own)
    for group in reversed(groups):
        label = labels(torch.from_numpy(group))
        size, means = group_means(own, label)
        alone = size.index_select(0, label)[:, None] == 1
        mean = torch.where(alone, mean, means.index_select(0, label))
    return features - mean[:, None]


def feature_figures(features: Tensor) -> dict[str, float]:
    """As in metrics.jsonl; NaN if any feature is, for no singular values can then be had."""
    if not features.isfinite().all():
        return dict.fromkeys(("feature_std", "feature_rank", "dead_features"), float("nan"))
    return {name: float(figure) for name, figure in ops.feature_health(features).items()}


@torch.inference_mode()
def prototype_clusters(v: Tensor, clustering: Clustering, share: int = SHARE) -> Clusters:
    """Codes by Sinkhorn over fixed shares; a view that is not finite has no cluster."""
    prototypes = clustering.prototypes.detach().cpu()
    scores = ops.unit(v) @ prototypes.T / clustering.temperature
    good = scores.isfinite().all(1)
    kept = scores[good]
    shares = max(1, round(len(kept) / share))
    code = torch.full_like(kept, torch.nan)
    for number in range(shares):
        code[number::shares] = sinkhorn(kept[number::shares], clustering.rounds)
    cluster, raw = torch.full((2, len(v)), -1, dtype=torch.int64)
    entropy = torch.full((len(v),), torch.nan)
    if len(kept):
        cluster[good], raw[good] = code.argmax(1), kept.argmax(1)
        entropy[good] = ops.entropy(code)
    return Clusters(cluster.numpy(), raw.numpy(), entropy.numpy(), prototypes.numpy())


def kmeans_clusters(vectors: NDArray[np.float32], count: int) -> Clusters | None:
    """k-means on vectors of length one; 0 asks for none."""
    if not count:
        return None
    good = np.isfinite(vectors).all(1)
    cluster = np.full(len(vectors), -1)
    centres = np.full((count, vectors.shape[1]), np.nan, np.float32)
    if good.sum() >= count:
        unit = vectors[good] / np.linalg.norm(vectors[good], axis=1, keepdims=True).clip(1e-12)
        with threadpool_limits(1):  # several threads would add in no fixed order
            from sklearn.cluster import KMeans  # takes a second, and a clip needs none of it

            fitted = KMeans(count, n_init=3, random_state=0).fit(unit)
        cluster[good], centres = fitted.labels_, fitted.cluster_centers_
    nothing = np.full(len(vectors), np.nan, np.float32)
    return Clusters(cluster, cluster, nothing, centres.astype(np.float32))
