"""Do CTRL's clusters find the Ising models? One run measured on play whose truth is known.

A game in which one model is chosen throughout is a trajectory of that model. Views are taken from
the second halves of such games, when every lattice shows its temperature, equally many per model.
The action then names the model, and views hold actions: clusters can read it off there instead of
looking. So the same frames are clustered once more as if the action had been the same everywhere.

    python -m crosstraj.analysis.ising_models runs/ctrl-ising-*
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from crosstraj.analysis.embed import Clusters, kmeans_clusters, prototype_clusters
from crosstraj.analysis.measures import silhouette
from crosstraj.config.values import Config
from crosstraj.envs import make_envs
from crosstraj.envs.frame_stack import AnyEnvs
from crosstraj.errors import BadInput
from crosstraj.learning.load import Trained, load, read_config, refuse_memory
from crosstraj.nn.encoders import Encode
from crosstraj.objectives.base import Clustering
from crosstraj.randomness import ANALYSES, derived_seed

GAMES_PER_MODEL = 20


class Games(NamedTuple):
    frames: NDArray[np.uint8]  # [B, T, H, W, C] views
    model: NDArray[np.int64]  # [B] the one that all frames of a view show
    reward: NDArray[np.float64]  # [models] per step, from whole episodes


class Measured(NamedTuple):
    clusters: int  # E, prototypes to choose from
    arms: list[float]  # reward per step of choosing each model throughout
    silhouette: float  # of v under the clusters of the codes, by cosine; NaN for one cluster
    silhouette_raw: float  # the same under the nearest prototypes
    rand: float  # adjusted Rand index of clusters and models
    rand_alike: float  # the same where all views hold one action; mean over the actions
    rand_means: float  # and with k-means on v, told how many models there are, for the prototypes


def measure(run: Path) -> Measured:
    """From the newest checkpoint of a run of CTRL on `ising`; the same numbers each time."""
    config = read_config(run)
    if config.env != "ising" or config.method != "ctrl":
        raise BadInput(f"{run} is {config.method} on {config.env}: CTRL on ising is needed")
    envs = environments(config)
    trained = load(run)
    refuse_memory(trained.agent, run, "views are taken of games that it has not played")
    clustering = trained.objective.clustering()
    assert clustering is not None
    games = fixed_choices(config, envs, clustering)
    features = encoded(trained, games.frames)
    return Measured(
        clustering.prototypes.shape[0],
        games.reward.tolist(),
        *clustered(clustering, features, games.model, config.ising.models),
    )


def environments(config: Config) -> AnyEnvs:
    """Equally many games for every model; new lattices, the run's own goal."""
    return make_envs(
        config.env,
        config.ising.models * GAMES_PER_MODEL,
        levels="test",
        procgen=config.procgen,
        ising=config.ising,
        seed=derived_seed(config.seed, ANALYSES),
        frame_stack=config.frame_stack,
    )


def fixed_choices(config: Config, envs: AnyEnvs, clustering: Clustering) -> Games:
    """Every model chosen throughout in as many games."""
    models, horizon = config.ising.models, config.ising.horizon
    envs.reset()
    arm = np.arange(envs.num_envs) % models
    steps = [envs.step(arm) for _ in range(horizon)]
    reward = np.stack([step[1] for step in steps]).mean(axis=0)
    # The last step returns the next episode's frames; those before it show the chosen model.
    late = np.stack([step[0] for step in steps[horizon // 2 : -1]])
    keypoints = _windows(len(late), clustering, derived_seed(config.seed, ANALYSES, 1))
    views = late[keypoints].swapaxes(1, 2)  # [windows, games, T, H, W, C]
    return Games(
        views.reshape(-1, *views.shape[2:]),
        np.tile(arm, len(keypoints)),
        reward.reshape(GAMES_PER_MODEL, models).mean(axis=0),
    )


def _windows(steps: int, clustering: Clustering, seed: int) -> NDArray[np.int64]:
    """[windows, T] ascending steps, drawn as in training."""
    order = np.arange(steps)
    if clustering.sampling == "uniform":
        order = np.random.default_rng(seed).permutation(steps)
    points = clustering.keypoints
    count = steps // points
    if not count:
        raise BadInput(f"half an episode has no room for keypoints={points}")
    return np.sort(order[: count * points].reshape(count, points), axis=1)


@torch.inference_mode()
def encoded(trained: Trained, views: NDArray[np.uint8]) -> Tensor:
    """[B, T, H, W, C] -> features [B, T, D]."""
    machine = trained.configuration.machine
    encode = Encode(trained.agent.encoder, live=False, piece=machine.piece)
    frames = torch.from_numpy(views).flatten(0, 1)
    features = torch.cat([encode(part.to(machine.device)) for part in frames.split(1024)])
    return features.unflatten(0, views.shape[:2])


@torch.inference_mode()
def clustered(
    clustering: Clustering, features: Tensor, model: NDArray[np.int64], models: int
) -> tuple[float, float, float, float, float]:
    """The views under the run's prototypes: hard clusters against geometry and against truth."""

    def embed(action: Tensor) -> Tensor:
        return clustering.embed(features, action.to(features.device)).cpu()

    def rand(clusters: Clusters | None) -> float:
        assert clusters is not None
        return float(adjusted_rand_score(model, clusters.cluster))

    shape, views = features.shape[:2], len(features)  # one Sinkhorn over all views
    v = embed(torch.from_numpy(model)[:, None].expand(shape).contiguous())
    clusters = prototype_clusters(v, clustering, share=views)
    alike = [embed(torch.full(shape, action)) for action in range(models)]
    return (
        silhouette(v.numpy(), clusters.cluster),
        silhouette(v.numpy(), clusters.raw),
        rand(clusters),
        float(np.mean([rand(prototype_clusters(v, clustering, share=views)) for v in alike])),
        float(np.mean([rand(kmeans_clusters(v.numpy(), models)) for v in alike])),
    )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, measure(Path(name)), flush=True)
