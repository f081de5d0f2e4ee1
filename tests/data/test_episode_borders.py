"""Fragments end where episodes end, and time begins anew with each."""

import pytest
import torch

from crosstraj.data.episode_borders import fragments, time_of
from tests.helpers import ragged_done, slow_fragments


def test_fragments_end_where_episodes_end():
    done = torch.tensor([[0, 1], [1, 0], [0, 0], [0, 1]], dtype=torch.bool)
    # Row 0: steps 0-1 and 2-3. Row 1: step 0, and steps 1-3.
    assert fragments(done).tolist() == [[0, 2], [0, 3], [1, 3], [1, 3]]


@pytest.mark.parametrize("seed", range(4))
def test_fragments_equal_the_slow_loop(seed):
    done = ragged_done(seed)
    number = fragments(done).flatten()
    expected = slow_fragments(done)
    assert int(number.max()) + 1 == len(expected)
    for index, frames in enumerate(expected):
        assert (number == index).nonzero().flatten().tolist() == sorted(frames)


def test_the_time_of_a_step_counts_from_its_episodes_first():
    done = torch.tensor([[0, 1], [1, 0], [0, 0], [0, 1], [0, 0]], dtype=torch.bool)
    assert time_of(done).tolist() == [[0, 0], [1, 0], [0, 1], [1, 2], [2, 0]]
