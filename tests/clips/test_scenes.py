"""What a clip records: the frame before the action, with its own level, and what the action did."""

import numpy as np
import pytest
import torch
from torch import Tensor

from crosstraj.clips.scenes import Moment, held, play, record, value_range, values_until
from crosstraj.data.rollout import Decision
from crosstraj.learning.evaluation import Pool
from tests.helpers import rng
from tests.learning.scripted import NO_SKILLS, Scripted


class Counting:
    """Takes action 1, and values a frame by its step."""

    memory = 0

    def act(
        self, frames: Tensor, context: Tensor, rng: torch.Generator, *, greedy: bool = False
    ) -> Decision:
        nothing = torch.zeros(len(frames))
        action = torch.ones(len(frames), dtype=torch.int64)
        return Decision(action, nothing, frames[:, 0, 2, 0].float(), nothing[:, None])


@pytest.fixture
def tiles() -> list[list[Moment]]:
    """Two rows: episodes of 3 and 2 steps in turn, and of 4, which time out; each step earns 2."""
    pool = Pool(Scripted([[3, 2], [4]], timeout=4), seed=0)
    return record(play(pool, "unseen", Counting(), NO_SKILLS, rng()), 7)


def test_a_frame_stands_with_its_own_level_episode_and_step(tiles: list[list[Moment]]):
    for row, tile in enumerate(tiles):
        for moment in tile:
            shown = tuple(int(pixel) for pixel in moment.observation[0, :3, 0])
            assert shown == (row, moment.episode, moment.step)
            assert moment.level == 100 * row + moment.episode
            assert moment.value == moment.step


def test_returns_begin_anew_with_each_episode_and_the_last_action_counts(tiles):
    first, second = tiles
    assert [moment.before for moment in first] == [0, 2, 4, 0, 2, 0, 2]
    assert [moment.after for moment in first] == [2, 4, 6, 2, 4, 2, 4]
    assert [moment.ending for moment in first] == ["", "", "ended", "", "solved", "", ""]
    assert [moment.ending for moment in second] == ["", "", "", "timeout", "", "", ""]


def test_an_ending_is_held_and_the_clip_keeps_its_length(tiles):
    assert held(tiles[0], 2) == [0, 1, 2, 2, 2, 3, 4]
    assert held(tiles[1], 0) == [0, 1, 2, 3, 4, 5, 6]


def test_values_are_those_of_the_episode_until_now(tiles):
    assert values_until(tiles[0], 2, 84) == [0, 1, 2]
    assert values_until(tiles[0], 3, 84) == [0]  # another episode
    assert values_until(tiles[1], 3, 2) == [2, 3]
    assert value_range(tiles) == (0, 3)
    flat = [[moment._replace(value=2.0) for moment in tiles[0]]]
    assert value_range(flat) == (1.5, 2.5)


def test_a_frame_is_a_copy_that_the_environment_does_not_write_into():
    class Reusing(Scripted):
        def frames(self):
            whole = super().frames()
            if not hasattr(self, "place"):
                self.place = np.empty_like(whole)
            self.place[:] = whole
            return self.place

    pool = Pool(Reusing([[9]]), seed=0)
    (tile,) = record(play(pool, "seen", Counting(), NO_SKILLS, rng()), 4)
    assert [int(moment.observation[0, 2, 0]) for moment in tile] == [0, 1, 2, 3]
