"""The fixed set of views as some weights see it: vectors, clusters and codes.

The cluster of a view, defined: networks in evaluation mode; Sinkhorn over the analysed set in fixed
shares of about a training minibatch (view i is in share i mod M, so that every share spans both
splits and all trajectories); the cluster is the argmax of the code. The raw argmax, without
Sinkhorn, is kept beside it, because the two can differ on most rows. Methods without prototypes
are analysed on the features of single frames, which k-means clusters if asked to.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor

from crosstraj import ops
from crosstraj.analysis.play import Views
from crosstraj.learner import Learner
from crosstraj.networks import Encode
from crosstraj.objectives.base import Clustering
from crosstraj.trained import read_weights

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


class Lens:
    """A run's networks, to look through with the weights of any checkpoint or snapshot."""

    def __init__(self, run: Path, learner: Learner, kmeans: int) -> None:
        self.run, self.learner, self.kmeans = run, learner, kmeans
        learner.agent.eval()
        learner.objective.eval()
        self.clustering = None if kmeans else learner.objective.clustering()

    @property
    def keypoints(self) -> int:
        return self.clustering.keypoints if self.clustering else 1

    def load(self, step: int | None) -> int:
        """Put on the weights of a snapshot, or of the newest checkpoint; their frame count."""
        weights, frames = read_weights(self.run, step)
        self.learner.load_weights(weights)
        return frames

    @torch.inference_mode()
    def embed(self, views: Views, shown: Callable[[int], None] = lambda count: None) -> Embedding:
        machine = self.learner.config.machine
        agent = self.learner.agent
        encode = Encode(agent.encoder, live=False, piece=machine.piece)
        flat = torch.from_numpy(views.frames).flatten(0, 1)
        parts, read = list[Tensor](), list[Tensor]()
        for part in flat.split(1024):
            frames = part.to(machine.device)
            parts.append(encode(frames).cpu())
            # Cut at the map, the heads have a last layer of their own.
            own = agent.split_at == "conv"
            read.append(agent.top(agent.read(encode, frames)).cpu() if own else parts[-1])
            shown(len(part))
        features, seen = torch.cat(parts), torch.cat(read)
        health = feature_figures(seen)
        if self.clustering is None:
            vectors = seen.numpy()
            return Embedding(vectors, kmeans_clusters(vectors, self.kmeans), health)
        pairs = features.unflatten(0, views.action.shape).to(machine.device)
        action = torch.from_numpy(views.action).to(machine.device)
        v = self.clustering.embed(pairs, action).cpu()
        return Embedding(v.numpy(), prototype_clusters(v, self.clustering), health)


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
        code[number::shares] = ops.sinkhorn(kept[number::shares], clustering.rounds)
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
            fitted = KMeans(count, n_init=3, random_state=0).fit(unit)
        cluster[good], centres = fitted.labels_, fitted.cluster_centers_
    nothing = np.full(len(vectors), np.nan, np.float32)
    return Clusters(cluster, cluster, nothing, centres.astype(np.float32))
