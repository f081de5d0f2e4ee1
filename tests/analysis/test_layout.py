"""Maps of views: planted clouds stay apart, and points stay where they were."""

import numpy as np

from crosstraj.analysis.layout import tsne
from tests.analysis.points import blobs


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
