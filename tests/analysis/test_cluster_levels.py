"""The levels that clusters span: by hand, by many permutations, and which views show them."""

import math

import numpy as np
import pytest

from crosstraj.analysis import cluster_levels
from tests.analysis.points import ints


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
