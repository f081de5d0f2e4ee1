"""Features less their group's mean, and clusters of views by prototypes and by k-means."""

import math

import numpy as np
import pytest
import torch

from crosstraj.analysis import measures
from crosstraj.analysis.embed import centred, kmeans_clusters, prototype_clusters
from crosstraj.nn import ops
from crosstraj.nn.sinkhorn import sinkhorn
from crosstraj.objectives.base import Clustering
from tests.analysis.points import blobs, ints, on_circle

# --- Centring


def test_features_are_less_the_mean_of_all_frames_of_their_group():
    features = torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(0))
    found = centred(features, ints(4, 0, 4, 0, 4, 0))
    for rows in ([0, 2, 4], [1, 3, 5]):
        torch.testing.assert_close(
            found[rows], features[rows] - features[rows].flatten(0, 1).mean(0)
        )


def test_a_view_alone_in_its_group_takes_the_mean_of_the_next_and_at_last_of_all():
    features = torch.tensor([1.0, 5, 2, 4, 8]).reshape(5, 1, 1)
    trajectory, level = ints(0, 0, 1, 2, 3), ints(6, 6, 6, 7, 8)
    found = centred(features, trajectory, level)
    # 0 and 1 share a trajectory (3), 2 a level with them (8 / 3), 3 and 4 nothing (all: 4).
    np.testing.assert_allclose(found.flatten(), [-2, 2, 2 - 8 / 3, 0, 4], rtol=1e-6)


# --- Clusters


def clustering(prototypes: np.ndarray, temperature: float = 0.1, rounds: int = 3) -> Clustering:
    rows = torch.from_numpy(prototypes).float()
    return Clustering(1, rows, temperature, rounds, lambda features, action: features)


def test_sinkhorn_shares_out_what_the_raw_argmax_puts_into_one_cluster():
    # All views are nearer to the first prototype; those nearest to the second must go there.
    v = torch.from_numpy(on_circle(0, 5, 10, 15, 20, 25, 30, 35)).float()
    found = prototype_clusters(v, clustering(on_circle(0, 90), 0.02, 50))
    assert found.raw.tolist() == [0] * 8
    assert found.cluster.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert measures.agreement(found.cluster, found.raw) == 0.5


def test_shares_are_fixed_and_each_is_a_sinkhorn_of_its_own():
    v = torch.randn(10, 6, generator=torch.Generator().manual_seed(1))
    found = prototype_clusters(v, clustering(np.eye(6)[:4]), share=4)  # 10 / 4: two shares
    scores = ops.unit(v) @ torch.eye(6)[:4].T / 0.1
    for rows in ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9]):
        code = sinkhorn(scores[rows], 3)
        assert found.cluster[rows].tolist() == code.argmax(1).tolist()
        np.testing.assert_allclose(found.entropy[rows], ops.entropy(code), rtol=1e-5)
    assert found.raw.tolist() == scores.argmax(1).tolist()


def test_a_view_that_is_not_finite_has_no_cluster_and_disturbs_nobody():
    v = torch.randn(9, 6, generator=torch.Generator().manual_seed(1))
    whole = prototype_clusters(v[1:], clustering(np.eye(6)[:4]))
    v[0, 3] = torch.nan
    found = prototype_clusters(v, clustering(np.eye(6)[:4]))
    assert found.cluster[0] == found.raw[0] == -1
    assert math.isnan(found.entropy[0])
    assert found.cluster[1:].tolist() == whole.cluster.tolist()
    nothing = prototype_clusters(torch.full((3, 6), torch.nan), clustering(np.eye(6)[:4]))
    assert nothing.cluster.tolist() == [-1, -1, -1]
    assert math.isnan(measures.agreement(nothing.cluster, nothing.raw))


def test_kmeans_finds_planted_clouds_whatever_their_length_and_only_if_asked():
    vectors, label = blobs()
    vectors = (vectors * np.linspace(1, 9, len(vectors))[:, None]).astype(np.float32)
    vectors[-1] = np.nan
    found = kmeans_clusters(vectors, 3)
    assert found is not None
    assert found.cluster[-1] == -1
    assert measures.information(found.cluster[:-1], label[:-1]) == pytest.approx(1)
    assert kmeans_clusters(vectors, 0) is None
