"""Frames of the same cluster: of other levels, and no view across an episode's end."""

from pathlib import Path

import numpy as np

from crosstraj.analysis.company import company, others, views_of
from crosstraj.analysis.embed import Lens, distinct
from crosstraj.clips.scenes import Moment
from crosstraj.learning.load import load

NOTHING = np.zeros(0, np.float32)  # is remembered


def moment(level: int, episode: int, step: int, number: int) -> Moment:
    frame = np.full((64, 64, 3), number, np.uint8)
    return Moment(frame, NOTHING, "seen", level, episode, step, number % 15, 0.0, 0.0, 0.0, "")


def test_views_are_the_last_steps_of_their_own_episode():
    tile = [moment(5, 0, 0, 0), moment(5, 0, 1, 1), moment(6, 1, 0, 2), moment(6, 1, 1, 3)]
    places, views = views_of([tile, tile], 2)
    assert places == [(0, 1), (0, 3), (1, 1), (1, 3)]
    assert views.frames[:, :, 0, 0, 0].tolist() == [[0, 1], [2, 3]] * 2
    assert views.action.tolist() == [[0, 1], [2, 3]] * 2
    assert views.level.tolist() == [5, 6, 5, 6]
    assert views.trajectory.tolist() == [0, 1, 2, 3]


def test_a_frame_that_is_in_several_views_is_encoded_once():
    """Tiles play the same steps of their own episodes: those are other frames."""
    tiles = [[moment(5, 0, step, 10 * tile + step) for step in range(4)] for tile in range(2)]
    views = views_of(tiles, 3)[1]
    first, place = distinct(views)
    frames = views.frames[..., 0, 0, 0].ravel()
    assert frames[first.numpy()].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    assert frames[first.numpy()][place.numpy()].tolist() == frames.tolist()


def test_company_is_of_the_same_cluster_and_of_other_levels_one_of_each():
    cluster = np.array([1, 1, 1, 2, 1, 1, 1, -1])
    level = np.array([7, 8, 8, 9, 9, 4, 3, 2])
    assert others(cluster, level, 1, mine=7).tolist() == [1, 4, 5]
    assert others(cluster, level, 1, mine=8).tolist() == [0, 4, 5]
    assert others(cluster, level, 2, mine=9).tolist() == []
    assert others(cluster, level, -1, mine=0).tolist() == []
    nowhere = np.full(8, -1)
    assert others(cluster, nowhere, 1, mine=-1).tolist() == [0, 1, 2]


def test_a_run_with_prototypes_has_company_and_one_without_has_none(clustered: Path, trained):
    tile = [moment(3, 0, step, step) for step in range(12)]
    lens = Lens(clustered, load(clustered), 0)
    (found,) = company(lens, [tile])
    assert len(found) == 12
    keypoints = lens.keypoints
    assert [one.cluster for one in found[: keypoints - 1]] == [-1] * (keypoints - 1)
    assert all(0 <= one.cluster < 8 for one in found[keypoints - 1 :])
    assert any(one.frames for one in found)
    assert company(Lens(trained.directory, load(trained.directory), 0), [tile]) is None
