"""Every statistic of an analysis against a value known by construction."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import svdvals
from scipy.stats import entropy

from crosstraj.analysis import cluster_levels, measures
from crosstraj.analysis.embed import centred, kmeans_clusters, prototype_clusters
from crosstraj.analysis.layout import tsne
from crosstraj.nn import ops
from crosstraj.nn.sinkhorn import sinkhorn
from crosstraj.objectives.base import Clustering


def on_circle(*degrees: float) -> np.ndarray:
    angle = np.radians(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def ints(*values: int) -> np.ndarray:
    return np.array(values)


def blobs(count: int = 40, spread: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Three tight clouds around the axes of a space."""
    rng = np.random.default_rng(3)
    label = np.arange(count * 3) % 3
    return np.eye(8)[label] + spread * rng.standard_normal((count * 3, 8)), label


# --- Silhouette


def test_the_silhouette_of_four_vectors_is_that_of_the_hand_calculation():
    # Cosine distances: .5 inside the first cluster; 2 and 1.5 from it to the second; 0 inside it.
    vectors, cluster = on_circle(0, 60, 180, 180), ints(0, 0, 1, 1)
    expected = ((2 - 0.5) / 2 + (1.5 - 0.5) / 1.5 + 1 + 1) / 4
    assert measures.silhouette(vectors, cluster) == pytest.approx(expected)


def test_only_angles_count_for_the_silhouette():
    vectors, cluster = blobs()
    longer = vectors * np.linspace(1, 50, len(vectors))[:, None]
    score = measures.silhouette(vectors, cluster)
    assert score > 0.95
    assert measures.silhouette(longer, cluster) == pytest.approx(score)
    shuffled = np.random.default_rng(0).permutation(cluster)
    assert abs(measures.silhouette(vectors, shuffled)) < 0.1


@pytest.mark.parametrize("cluster", [(0, 0, 0, 0), (0, 1, 2, 3), (-1, -1, -1, 2)])
def test_where_a_silhouette_is_not_defined_it_is_nan(cluster):
    assert math.isnan(measures.silhouette(on_circle(0, 60, 120, 180), ints(*cluster)))


def test_views_in_no_cluster_are_left_out_of_the_silhouette():
    vectors, cluster = on_circle(0, 60, 180, 180, 7), ints(0, 0, 1, 1, -1)
    vectors[-1] = np.nan
    assert measures.silhouette(vectors, cluster) == pytest.approx(0.8541666666)


def test_a_sample_of_many_views_has_about_the_same_silhouette():
    vectors, cluster = blobs(400, 0.3)
    whole = measures.silhouette(vectors, cluster)
    assert measures.silhouette(vectors, cluster, most=500) == pytest.approx(whole, abs=0.03)


# --- Time


def test_pairs_never_cross_trajectories_or_gaps():
    trajectory, window = ints(0, 0, 0, 1, 1, 1), ints(0, 1, 2, 3, 5, 6)
    first, second = measures.consecutive(trajectory, window)
    assert first.tolist() == [0, 1, 4]
    assert second.tolist() == [1, 2, 5]


def test_connectivity_is_the_cosine_between_centres_of_consecutive_views():
    centres = 3 * on_circle(0, 60, 90)  # their length does not count
    cluster, trajectory = ints(0, 0, 1, 2, 0), ints(0, 0, 0, 1, 1)
    found = measures.connectivity(centres, cluster, trajectory, ints(0, 1, 2, 0, 1))
    np.testing.assert_allclose(found.cosine, [1, 0.5, 0], atol=1e-12)
    assert found.mean == pytest.approx(0.5)
    unit = on_circle(0, 60, 90)[cluster]
    slow = np.mean([a @ b for a in unit for b in unit])
    assert found.chance == pytest.approx(slow)


def test_connectivity_without_pairs_is_nan():
    found = measures.connectivity(on_circle(0, 90), ints(0, 1), ints(0, 1), ints(0, 0))
    assert math.isnan(found.mean)


def test_a_planted_cycle_is_found_in_the_transitions():
    cluster = np.tile([0, 1, 2], 10)
    counts = measures.transitions(cluster, np.zeros(30, int), np.arange(30), 4)
    assert counts.toarray()[:3, :3].tolist() == [[0, 10, 0], [0, 0, 10], [9, 0, 0]]
    figures = measures.transition_figures(counts)
    assert figures["transitions"] == 29
    assert figures["stay"] == 0
    assert figures["next_entropy"] == pytest.approx(0)
    assert figures["next_entropy_unordered"] == pytest.approx(entropy([9, 10, 10]))


def test_the_entropy_of_the_next_cluster_is_weighted_by_how_often_one_is_left():
    # 0 is left four times, to 0 and 1 alike: ln 2; 1 is left twice, always to 0: nothing.
    cluster, trajectory = ints(0, 0, 1, 0, 0, 1, 0), np.zeros(7, int)
    figures = measures.transition_figures(
        measures.transitions(cluster, trajectory, np.arange(7), 2)
    )
    assert figures["next_entropy"] == pytest.approx(4 / 6 * math.log(2))
    assert figures["stay"] == pytest.approx(2 / 6)


def test_without_transitions_their_figures_are_nan():
    figures = measures.transition_figures(measures.transitions(ints(0), ints(0), ints(0), 2))
    assert figures["transitions"] == 0
    assert math.isnan(figures["stay"])


# --- Seen and unseen


def test_disjoint_clusters_are_at_distance_one_and_equal_ones_at_zero():
    unseen, trajectory = np.repeat([False, True], 20), np.arange(40)
    apart = measures.usage_figures(np.repeat([0, 1], 20), unseen, trajectory, 3)
    assert apart["usage_distance"] == pytest.approx(1)
    assert apart["used_both"] == 0
    assert apart["unseen_views_in_seen_clusters"] == 0
    assert apart["usage_p"] == pytest.approx(1 / 201)
    alike = measures.usage_figures(np.tile([0, 1], 20), unseen, trajectory, 3)
    assert alike["usage_distance"] == pytest.approx(0, abs=1e-7)
    assert (alike["used_seen"], alike["used_unseen"], alike["used_both"]) == (2, 2, 2)
    assert alike["unseen_views_in_seen_clusters"] == 1
    assert alike["usage_p"] == 1


def test_chance_deals_whole_trajectories_not_views():
    # Each trajectory has a cluster of its own, so the two sides are always disjoint: by chance too.
    trajectory = np.repeat(np.arange(10), 50)
    figures = measures.usage_figures(trajectory, trajectory >= 5, trajectory, 10)
    assert figures["usage_distance"] == pytest.approx(1)
    assert figures["usage_distance_chance"] == pytest.approx(1)
    assert figures["usage_p"] == 1


def test_one_side_without_views_has_no_distance():
    figures = measures.usage_figures(ints(0, 1), np.array([True, True]), ints(0, 1), 2)
    assert math.isnan(figures["usage_distance"])
    assert figures["used_seen"] == 0


def test_a_cluster_that_is_the_label_says_all_of_it_and_a_random_one_nothing():
    label = np.repeat(np.arange(5), 100)
    assert measures.information(4 - label, label) == pytest.approx(1)
    shuffled = np.random.default_rng(0).permutation(label)
    assert abs(measures.information(shuffled, label)) < 0.02
    assert math.isnan(measures.information(label, np.full(500, -1)))


# --- Situations or levels


def test_the_levels_that_permuted_clusters_span_are_those_of_the_hand_calculation():
    # Two of four views miss a level of two views in 1 of 6 cases; one view is of one level.
    found = cluster_levels.span(ints(2, 2, 1, 0), ints(7, 7, 9, 9), 4)
    assert found.levels.tolist() == [1, 1, 1, 0]
    np.testing.assert_allclose(found.permuted, [1, 1, 2 * 5 / 6, 0])


def test_the_levels_that_permuted_clusters_span_are_those_of_many_permutations():
    rng = np.random.default_rng(0)
    group, cluster = rng.integers(0, 6, 60) ** 2, rng.integers(0, 5, 60) // 2
    drawn = [cluster_levels.span(rng.permutation(cluster), group, 3).levels for _ in range(3000)]
    found = cluster_levels.span(cluster, group, 3)
    np.testing.assert_allclose(found.permuted, np.mean(drawn, axis=0), atol=0.05)


def test_views_in_no_cluster_count_for_no_level():
    whole = cluster_levels.span(ints(0, 0, 1, 1), ints(5, 6, 6, 6), 2)
    found = cluster_levels.span(ints(-1, 0, 0, 1, 1, -1), ints(8, 5, 6, 6, 6, 9), 2)
    assert found.levels.tolist() == whole.levels.tolist() == [2, 1]
    np.testing.assert_array_equal(found.permuted, whole.permuted)
    nothing = cluster_levels.span(ints(-1, -1), ints(5, 6), 2)
    assert nothing.levels.tolist() == [0, 0]
    figures = cluster_levels.figures(ints(-1, -1), ints(5, 6), nothing)
    assert all(math.isnan(figure) for figure in figures.values())


def test_clusters_that_are_levels_are_told_from_clusters_that_levels_share():
    group = np.repeat(np.arange(10), 60)
    own, shared = group, np.tile(np.arange(10), 60)
    of_levels = cluster_levels.figures(own, group, cluster_levels.span(own, group, 10))
    assert of_levels["levels_spanned"] == 1
    assert of_levels["levels_spanned_permuted"] > 9.9
    assert of_levels["levels_per_cluster"] == pytest.approx(0.1, abs=0.02)
    assert of_levels["codes_about_level"] == pytest.approx(1)
    of_situations = cluster_levels.figures(shared, group, cluster_levels.span(shared, group, 10))
    assert of_situations["levels_spanned"] == 10
    assert of_situations["levels_per_cluster"] > 1
    assert of_situations["codes_about_level"] < 0.02


def test_one_view_is_shown_of_each_level_spread_over_those_of_the_cluster():
    group = ints(3, 3, 3, 1, 1, 1, 9, 4, 4)
    members = ints(0, 1, 2, 3, 5, 6, 7)
    assert cluster_levels.one_per_level(members, group, 8).tolist() == [5, 1, 7, 6]
    assert cluster_levels.one_per_level(members, group, 2).tolist() == [5, 6]


def test_agreement_by_chance_is_that_of_all_pairs_of_views():
    first, second = ints(0, 0, 1, 2, -1), ints(0, 1, 1, 1, 2)
    slow = np.mean([a == b for a in first[:4] for b in second[:4]])
    assert measures.agreement_chance(first, second) == pytest.approx(slow)
    assert math.isnan(measures.agreement_chance(ints(-1), ints(-1)))


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


def test_rank_correlation_of_known_orders():
    assert measures.rank_correlation(np.array([1, 2, 3.0]), np.array([9, 99, 100]))[0] == 1
    assert measures.rank_correlation(np.array([1, 2, 3.0]), np.array([9, 8, 7]))[0] == -1
    rho, pairs = measures.rank_correlation(np.array([1, np.nan, 3]), np.array([1, 2, 3]))
    assert math.isnan(rho)
    assert pairs == 2
    assert math.isnan(measures.rank_correlation(np.ones(4), np.arange(4))[0])


def test_samples_are_spread_over_the_list_and_repeat_nothing():
    assert measures.spread(np.arange(100, 110), 4).tolist() == [100, 103, 106, 109]
    assert measures.spread(np.arange(3), 4).tolist() == [0, 1, 2]


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


def test_effective_rank_is_that_of_scipys_singular_values():
    matrix = torch.randn(50, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = math.exp(entropy(svdvals(matrix.numpy())))
    assert float(ops.effective_rank(matrix)) == pytest.approx(expected)


# --- The map


def test_the_map_keeps_planted_clouds_apart_and_is_the_same_each_time():
    vectors, label = blobs()
    place = tsne(vectors)
    from sklearn.metrics import silhouette_score

    assert silhouette_score(place, label) > 0.6
    np.testing.assert_array_equal(place, tsne(vectors))


def test_a_map_started_from_the_one_before_leaves_points_where_they_were():
    vectors, _ = blobs(60)
    place = tsne(vectors)
    again = tsne(vectors, place)
    moved = np.linalg.norm(again - place, axis=1)
    assert np.median(moved) < 0.2 * place.std()


def test_a_map_of_one_vector_repeated_or_of_nan_is_no_accident():
    vectors = np.ones((30, 8), np.float32)
    vectors[4] = np.nan
    place = tsne(vectors)
    assert np.isnan(place[4]).all()
    assert np.isfinite(np.delete(place, 4, axis=0)).all()
    later = vectors.copy()
    later[4], later[5] = 1, np.nan
    assert np.isnan(tsne(later, place)[5]).all()
    assert np.isfinite(np.delete(tsne(later, place), 5, axis=0)).all()
    nowhere = tsne(np.full((30, 8), np.nan))
    assert np.isnan(nowhere).all()
    spread = blobs(30)[0][:30]
    assert tsne(spread, nowhere).std(0).min() > 0.1  # not one dot, from which nothing would move
