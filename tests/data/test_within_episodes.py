"""Views, windows and stretches: nothing lost, nothing twice, no end of an episode crossed."""

import math
from collections import Counter

import pytest
import torch

from crosstraj.data.minibatches import deal_blocks
from crosstraj.data.within_episodes import (
    Views,
    consecutive_views,
    stretches,
    uniform_views,
    windows,
)
from tests.helpers import even_done, ragged_done, rng, slow_fragments


def drawn(done, count=8, keypoints=2, *, swap=False, cross=False, seed=0) -> list[Views]:
    return list(uniform_views(done, count, keypoints, swap=swap, cross=cross, rng=rng(seed)))


@pytest.mark.parametrize("keypoints", [2, 4, 10])
@pytest.mark.parametrize("length", [8, 32, 256])
def test_every_frame_is_dealt_exactly_once_whatever_the_fragments_length(length, keypoints):
    views = drawn(even_done(length), keypoints=keypoints)
    seen = Counter(int(f) for v in views for f in v.frame)
    if length < keypoints:
        assert not seen  # too short for one view
    else:
        assert len(seen) == 256 * 8
        assert set(seen.values()) == {1}


@pytest.mark.parametrize("keypoints", [1, 2, 4, 10])
@pytest.mark.parametrize("swap", [False, True])
def test_only_fragments_that_are_too_short_lose_frames(keypoints, swap):
    done = ragged_done(3)
    needed = keypoints * (2 if swap else 1)
    views = drawn(done, keypoints=keypoints, swap=swap)
    expected = {f for frames in slow_fragments(done) if len(frames) >= needed for f in frames}
    assert sorted(int(f) for v in views for f in v.frame) == sorted(expected)


def test_frames_of_short_and_long_fragments_enter_views_equally_often():
    """One row of 8-step, one of 32-step and one of 256-step fragments; T = 2, four minibatches."""
    done = torch.zeros(256, 3, dtype=torch.bool)
    done[7::8, 0] = True
    done[31::32, 1] = True
    shares = torch.zeros(3)
    for seed in range(20):
        for v in drawn(done, count=4, seed=seed):
            shares += torch.bincount(v.frame % 3, minlength=3)
    assert (shares == 20 * 256).all()


def test_minibatches_are_balanced():
    sizes = [len(v.frame) for v in drawn(ragged_done(1, steps=256, envs=32))]
    assert len(sizes) == 8
    assert max(sizes) < 1.1 * min(sizes)


@pytest.mark.parametrize("keypoints", [1, 2, 4, 10])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_keypoints_are_distinct_ascending_and_of_one_fragment(keypoints, swap, seed):
    done = ragged_done(seed)
    home = {f: i for i, frames in enumerate(slow_fragments(done)) for f in frames}
    views = drawn(done, keypoints=keypoints, swap=swap, seed=seed)
    assert sum(len(v.keypoints) for v in views) > 20
    for v in views:
        chosen = v.frame[v.keypoints]  # [B, T] flat frames
        assert (chosen[:, 1:] > chosen[:, :-1]).all()  # one row: ascending frames are later steps
        homes = torch.tensor([[home[int(f)] for f in row] for row in chosen])
        assert (homes == homes[:, :1]).all()
        assert (homes[:, 0] == v.fragment).all()


def test_equal_views_are_drawn_once_and_every_frame_has_a_view():
    for v in drawn(ragged_done(5), keypoints=2):
        rows = [tuple(row) for row in v.keypoints.tolist()]
        assert len(rows) == len(set(rows))
        assert set(v.keypoints.flatten().tolist()) == set(range(len(v.frame)))
    two_steps = drawn(even_done(2, steps=8, envs=1), count=1, keypoints=2)[0]
    assert len(two_steps.keypoints) == 4  # four fragments of two steps: one view each


def test_pairs_of_keypoints_are_uniform_over_a_fragment():
    done = torch.zeros(6, 1, dtype=torch.bool)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(3000):
        views = drawn(done, count=1, keypoints=2, seed=seed)[0]
        anchor_free = views.frame[views.keypoints]
        pick = int(torch.randint(len(anchor_free), (1,), generator=rng(seed + 10_000)))
        counts[tuple(anchor_free[pick].tolist())] += 1
    assert len(counts) == 15
    spread = 5 * math.sqrt(3000 / 15 * 14 / 15)
    assert max(abs(c - 200) for c in counts.values()) < spread


@pytest.mark.parametrize("keypoints", [1, 2, 3])
def test_each_single_step_is_equally_likely_to_be_a_keypoint(keypoints):
    done = torch.zeros(12, 1, dtype=torch.bool)
    counts = torch.zeros(12)
    for seed in range(400):
        for v in drawn(done, count=2, keypoints=keypoints, seed=seed):
            counts += torch.bincount(v.frame[v.keypoints].flatten(), minlength=12)
    mean = counts.mean()
    assert (counts - mean).abs().max() < 0.06 * mean
    if keypoints == 1:
        assert (counts == 400).all()


@pytest.mark.parametrize("keypoints", [1, 2, 4])
def test_swapped_partners_are_mutual_disjoint_and_of_the_same_fragment(keypoints):
    for v in drawn(ragged_done(2), keypoints=keypoints, swap=True):
        assert (v.partner[v.partner] == torch.arange(len(v.partner))).all()
        assert (v.fragment[v.partner] == v.fragment).all()
        for mine, theirs in zip(v.keypoints, v.keypoints[v.partner], strict=True):
            assert not set(mine.tolist()) & set(theirs.tolist())
        assert len(v.keypoints) <= len(v.frame) + len(v.fragment.unique())


def test_without_swapping_a_view_is_its_own_partner():
    for v in drawn(ragged_done(2)):
        assert v.partner.tolist() == list(range(len(v.keypoints)))


def test_whole_rows_cross_episode_ends_only_when_asked():
    done = even_done(8, steps=64, envs=2)
    episode = (torch.arange(64) // 8).repeat_interleave(2)

    def crossings(cross: bool) -> int:
        total = 0
        for v in drawn(done, cross=cross):
            of = episode[v.frame[v.keypoints]]
            total += int((of[:, 0] != of[:, 1]).sum())
            assert ((v.frame[v.keypoints] % 2)[:, 0] == (v.frame[v.keypoints] % 2)[:, 1]).all()
        return total

    assert crossings(False) == 0
    assert crossings(True) > 50


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("keypoints", [1, 2, 4])
def test_consecutive_views_are_all_windows_inside_a_run_and_a_fragment(keypoints, swap):
    done = ragged_done(4)
    steps, envs = done.shape
    home = {f: i for i, frames in enumerate(slow_fragments(done)) for f in frames}
    _, run = deal_blocks(steps, envs, 4, 1, rng(7))
    views = list(consecutive_views(done, 4, keypoints, swap=swap, cross=False, rng=rng(7)))
    span = keypoints * (2 if swap else 1)
    expected: Counter[tuple[int, ...]] = Counter()
    for n in range(envs):
        for t in range(steps - span + 1):
            window = [s * envs + n for s in range(t, t + span)]
            one_run = len({int(run[s, n]) for s in range(t, t + span)}) == 1
            if one_run and len({home[f] for f in window}) == 1:
                for begin in range(0, span, keypoints):
                    expected[tuple(window[begin : begin + keypoints])] += 1
    found = Counter(tuple(row) for v in views for row in v.frame[v.keypoints].tolist())
    assert found == expected
    assert sorted(int(f) for v in views for f in v.frame) == list(range(steps * envs))
    for v in views:
        assert all(
            home[int(f)] == h for f, h in zip(v.frame[v.keypoints[:, 0]], v.fragment, strict=True)
        )
        if swap:
            ahead = v.frame[v.keypoints[v.partner]][: len(v.partner) // 2]
            assert (ahead == v.frame[v.keypoints][: len(v.partner) // 2] + keypoints * envs).all()


def test_consecutive_views_over_whole_rows_do_not_see_episode_ends():
    done, none = ragged_done(4), torch.zeros_like(ragged_done(4))
    crossing = consecutive_views(done, 4, 3, swap=False, cross=True, rng=rng(7))
    unbroken = consecutive_views(none, 4, 3, swap=False, cross=False, rng=rng(7))
    total = 0
    for a, b in zip(crossing, unbroken, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        total += len(a.keypoints)
    inside = consecutive_views(done, 4, 3, swap=False, cross=False, rng=rng(7))
    assert total > sum(len(v.keypoints) for v in inside)


def test_a_rollout_of_short_episodes_gives_no_views_and_no_error():
    assert drawn(even_done(1, steps=16, envs=2), keypoints=2) == []
    short = even_done(1, steps=16, envs=2)
    assert list(consecutive_views(short, 4, 2, swap=False, cross=False, rng=rng())) == []


def test_the_same_stream_gives_the_same_views():
    first, second = (drawn(ragged_done(0), swap=True, seed=3) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    other = drawn(ragged_done(0), swap=True, seed=4)
    assert not torch.equal(first[0].frame, other[0].frame)


@pytest.mark.parametrize(("length", "stride"), [(2, 1), (3, 1), (4, 4), (9, 9), (20, 20)])
def test_windows_are_those_of_the_slow_loop(length, stride):
    """Also where a window is longer than a share of a row: 64 steps in 4 parts are 16 each."""
    done = ragged_done(2)
    steps, envs = done.shape
    home = {f: i for i, frames in enumerate(slow_fragments(done)) for f in frames}
    share, run = deal_blocks(steps, envs, 4, length, rng(7))
    expected: Counter[tuple[tuple[int, bool], ...]] = Counter()
    for n in range(envs):
        for number in range(int(run[:, n].max()) + 1):
            inside = (run[:, n] == number).nonzero().flatten().tolist()
            for begin in range(0, len(inside) - length + 1, stride):
                frames = [t * envs + n for t in inside[begin : begin + length]]
                expected[tuple((f, home[f] == home[frames[0]]) for f in frames)] += 1
    found: Counter[tuple[tuple[int, bool], ...]] = Counter()
    for w in windows(done, 4, length, stride, rng(7)):
        assert len(set(share.flatten()[w.frame].tolist())) == 1
        rows = zip(w.frame[w.position].tolist(), w.valid.tolist(), strict=True)
        found.update(tuple(zip(*row, strict=True)) for row in rows)
    assert found == expected
    assert found.total() > 5


def test_a_window_is_valid_up_to_the_first_end_and_not_beyond_a_second():
    done = torch.zeros(8, 1, dtype=torch.bool)
    done[2], done[4] = True, True
    (window,) = windows(done, 3, 8, 8, rng(3))  # a row as long as a window gives one
    assert window.valid.tolist() == [[True] * 3 + [False] * 5]


# --- Stretches


@pytest.mark.parametrize(
    ("steps", "envs", "count", "length"),
    [(64, 6, 8, 8), (64, 6, 4, 8), (64, 6, 16, 8), (50, 5, 4, 7), (16, 3, 2, 99), (64, 6, 3, 8)],
)
def test_stretches_hold_every_step_once_and_never_cross_an_episodes_end(steps, envs, count, length):
    done = ragged_done(3, steps, envs)
    owner = {f: number for number, frames in enumerate(slow_fragments(done)) for f in frames}
    seen = []
    for frame, stretch in stretches(done, count, length, rng(1)):
        seen += frame.tolist()
        numbers = stretch.tolist()
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(max(numbers) + 1))
        for number in set(numbers):
            own = frame[stretch == number].tolist()
            assert own == list(range(own[0], own[0] + envs * len(own), envs))  # consecutive
            assert len({owner[f] for f in own}) == 1
            assert len(own) <= -(-steps // max(1, steps // length))
    assert sorted(seen) == list(range(steps * envs))


@pytest.mark.parametrize(("count", "length"), [(8, 8), (4, 16), (4, 8)])
def test_every_environment_is_in_every_minibatch_of_stretches_with_equal_parts(count, length):
    for frame, _ in stretches(torch.zeros(64, 6, dtype=torch.bool), count, length, rng(2)):
        assert torch.bincount(frame % 6).tolist() == [64 // count] * 6


def test_with_more_minibatches_than_blocks_stretches_keep_their_length_and_minibatches_their_size():
    done = torch.zeros(64, 8, dtype=torch.bool)
    parts = list(stretches(done, 16, 16, rng(2)))  # 4 blocks in each of 8 rows: 2 for each of 16
    assert [len(part.frame) for part in parts] == [32] * 16
    lengths = Counter(n for part in parts for n in torch.bincount(part.stretch).tolist())
    assert lengths[16] >= 8 * 3  # all but the block that the row's ends share


@pytest.mark.parametrize(
    ("envs", "count", "length", "held"), [(64, 32, 32, 16), (64, 32, 8, 64), (32, 8, 32, 32)]
)
def test_how_many_environments_a_minibatch_holds_is_as_the_page_on_methods_says(
    envs, count, length, held
):
    done = torch.zeros(256, envs, dtype=torch.bool)
    parts = stretches(done, count, length, rng(5))
    assert {len((frame % envs).unique()) for frame, _ in parts} == {held}
    assert held == min(envs, envs * (256 // length) // count)


def test_stretches_are_cut_at_another_place_in_each_row_and_dealt_in_another_order():
    done = torch.zeros(64, 32, dtype=torch.bool)
    (first, *_) = stretches(done, 8, 8, rng(0))
    begins = {int(first.frame[first.stretch == s][0]) // 32 for s in first.stretch.unique()}
    assert len(begins) > 16


def test_a_row_of_one_block_stays_whole():
    for frame, stretch in stretches(torch.zeros(8, 6, dtype=torch.bool), 3, 8, rng(4)):
        assert torch.bincount(stretch).tolist() == [8, 8]
        assert len(frame) == 16
