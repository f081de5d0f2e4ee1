"""Measures of clusters: silhouette, transitions, distance of splits, against values by hand."""

import math

import numpy as np
import pytest
from scipy.stats import entropy

from crosstraj.analysis import measures
from tests.analysis.points import blobs, ints, on_circle

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


def test_agreement_by_chance_is_that_of_all_pairs_of_views():
    first, second = ints(0, 0, 1, 2, -1), ints(0, 1, 1, 1, 2)
    slow = np.mean([a == b for a in first[:4] for b in second[:4]])
    assert measures.agreement_chance(first, second) == pytest.approx(slow)
    assert math.isnan(measures.agreement_chance(ints(-1), ints(-1)))


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
