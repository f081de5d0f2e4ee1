"""Dealing frames to minibatches: every one of them once, and all minibatches alike."""

from collections import Counter

import pytest
import torch

from crosstraj.data.episode_borders import fragments
from crosstraj.data.minibatches import deal_blocks, deal_steps, scattered
from tests.helpers import even_done, rng


def test_a_fragments_parts_go_to_different_minibatches_of_nearly_equal_size():
    number = fragments(even_done(32))
    share = deal_steps(number, 8, 4, rng())
    for fragment in range(int(number.max()) + 1):
        counts = torch.bincount(share[number == fragment], minlength=8)
        assert counts.tolist() == [4] * 8
    short = fragments(even_done(10))
    share = deal_steps(short, 8, 4, rng())
    for fragment in range(int(short.max())):  # the last ones are cut by the rollout's end
        counts = torch.bincount(share[short == fragment])
        assert sorted(counts[counts > 0].tolist()) in ([5, 5], [6])


@pytest.mark.parametrize(("steps", "count"), [(64, 4), (60, 8), (32, 5)])
def test_blocks_deal_every_step_and_keep_runs_whole(steps, count):
    share, run = deal_blocks(steps, 5, count, 1, rng())
    for n in range(5):
        for r in run[:, n].unique():
            assert len(share[run[:, n] == r, n].unique()) == 1
            assert int((run[:, n] == r).sum()) <= -(-steps // count)
    if steps % count == 0:
        assert (
            torch.bincount(share.flatten(), minlength=count).tolist()
            == [steps * 5 // count] * count
        )


def test_scattered_frames_are_one_of_each_block_and_every_frame_once():
    parts = list(scattered(22, 3, 4, rng()))
    assert sorted(torch.cat(parts).tolist()) == list(range(66))
    for part in parts:
        blocks = Counter((f // 3 // 4, f % 3) for f in part.tolist())
        assert set(blocks.values()) == {1}
        assert len(blocks) >= 15  # the last, shorter block has none for some
    assert [p.tolist() for p in scattered(22, 3, 4, rng())] == [p.tolist() for p in parts]
    assert parts[0].tolist() != next(scattered(22, 3, 4, rng(1))).tolist()
