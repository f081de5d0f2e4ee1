"""Trajectories cut into views: never across an episode's end, with what came after known."""

import numpy as np
import pytest
import torch

from crosstraj.analysis.play import (
    Views,
    collect,
    columns,
    environments,
    play,
    reorder,
)
from crosstraj.errors import BadInput
from crosstraj.learning.evaluation import Pool
from tests.learning.scripted import NO_SKILLS, SIDE, Scripted, Still


def cut(
    script: list[list[int]], count: int, keypoints: int = 2, span: int = 0, to_end: bool = True
) -> Views:
    """Views of scripted episodes; the other split has one view, of episodes of 50 steps."""
    pools = [Pool(Scripted(rows), 0) for rows in (script, [[50]])]
    film = np.zeros((count + 1, keypoints, SIDE, SIDE, 1), np.uint8)
    both = [
        play(
            pool,
            Still(),
            NO_SKILLS,
            part,
            span=span or keypoints,
            rng=torch.Generator().manual_seed(0),
            draws=np.random.default_rng(0),
            to_end=to_end,
        )
        for pool, part in zip(pools, (film[:count], film[count:]), strict=True)
    ]
    return columns(both, film, count)


def shown(views: Views) -> list[list[tuple[int, int, int]]]:
    """(row, episode, step) that each frame of each view shows, of the first split."""
    seen = views.frames[~views.unseen]
    return [[tuple(frame[0, :3, 0].tolist()) for frame in view] for view in seen]


def test_views_are_windows_of_one_episode_and_the_rest_of_it_is_dropped():
    views = cut([[5, 4]], 4)
    assert shown(views) == [
        [(0, 0, 0), (0, 0, 1)],
        [(0, 0, 2), (0, 0, 3)],
        [(0, 1, 0), (0, 1, 1)],
        [(0, 1, 2), (0, 1, 3)],
    ]
    assert views.window.tolist() == [0, 1, 0, 1, 0]
    assert views.trajectory.tolist() == [0, 0, 1, 1, 2]
    assert views.level[:4].tolist() == [0, 0, 1, 1]
    assert views.unseen.tolist() == [False] * 4 + [True]


def test_the_return_to_go_counts_from_the_first_keypoint_to_the_end_of_its_own_episode():
    views = cut([[5, 4]], 4)  # a step earns 1
    assert views.return_to_go[:4].tolist() == [5, 3, 4, 2]
    assert views.length[:4].tolist() == [5, 5, 4, 4]


def test_open_episodes_are_played_to_their_end_without_further_views():
    views = cut([[9], [7]], 3)
    assert len(shown(views)) == 3
    assert views.return_to_go[:3].tolist() == [9, 7, 7]
    assert views.length[:3].tolist() == [9, 9, 7]


def test_without_their_ends_the_views_are_the_same_and_know_those_ends_alone_that_came():
    script = [[9, 9], [3, 9]]
    whole, early = cut(script, 5), cut(script, 5, to_end=False)
    assert shown(early) == shown(whole)
    assert early.trajectory.tolist() == whole.trajectory.tolist()
    assert whole.length[:5].tolist() == [9, 9, 9, 3, 9]
    assert early.length[:5].tolist() == [-1, -1, -1, 3, -1]


def test_an_episode_without_an_end_has_no_return():
    views = cut([[5000]], 2)
    assert np.isnan(views.return_to_go[:2]).all()
    assert views.length[:2].tolist() == [-1, -1]


def test_keypoints_are_drawn_inside_their_window_distinct_and_ascending():
    views = cut([[43], [31]], 12, keypoints=3, span=8)
    steps = views.step[~views.unseen]
    assert (np.diff(steps, axis=1) > 0).all()
    assert (steps // 8 == views.window[~views.unseen][:, None]).all()
    assert len(np.unique(steps % 8)) == 8  # not always the same places
    frames = [[frame[2] for frame in view] for view in shown(views)]
    assert frames == steps.tolist()


def test_several_environments_are_kept_apart_and_in_order():
    views = cut([[4, 6], [6, 4]], 9)
    for view, trajectory in zip(shown(views), views.trajectory, strict=False):
        assert view[0][:2] == view[1][:2]
        assert view[1][2] == view[0][2] + 1
        assert trajectory == sorted({tuple(v[0][:2]) for v in shown(views)}).index(view[0][:2])
    first = views.step[:-1, 0]
    order = list(zip(views.trajectory[:-1], first, strict=True))
    assert order == sorted(order)


def test_episodes_shorter_than_a_view_give_a_sentence_not_an_endless_loop(monkeypatch):
    monkeypatch.setattr("crosstraj.analysis.play.PATIENCE", 20)

    class Short:
        class config:  # noqa: N801
            env, seed = "short", 0

            class evaluation:  # noqa: N801
                greedy = False

            class machine:  # noqa: N801
                device = "cpu"

        def pool(self, split: str) -> Pool:
            return Pool(Scripted([[3]]), 0)

    with pytest.raises(BadInput, match="as long as a view, 4 steps"):
        collect(Short(), Still(), NO_SKILLS, 10, keypoints=4, span=4)  # type: ignore[arg-type]


def test_reordering_in_place_equals_indexing_with_a_copy():
    rng = np.random.default_rng(0)
    for count, kept in ((1, 1), (7, 7), (50, 50), (50, 30), (20, 0)):
        rows, order = rng.integers(0, 99, (count, 3)), rng.permutation(count)[:kept]
        expected = rows[order].copy()
        reorder(rows, order)
        np.testing.assert_array_equal(rows[:kept], expected)


def test_as_many_environments_play_as_let_each_go_on_for_a_while():
    assert environments(1000, 2) == 8
    assert environments(10, 1) == 1
    assert environments(100_000, 4) == 64
