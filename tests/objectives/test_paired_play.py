"""Play on two levels side by side: stretches, counts, and its saved state."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crosstraj.config.presets import plain
from crosstraj.errors import BadInput
from crosstraj.learning.experts import make_level
from crosstraj.objectives.paired_play import PairedPlay, Stretch, Uniform
from crosstraj.runs import codec as tree
from tests.helpers import rng
from tests.objectives.corridor import Corridor, Leaning, play_of


def shown(stretch: Stretch) -> Any:
    """What the frames of the two levels show: [2, L, (level, episode, step)]."""
    return stretch.frames[:, :, 0, 0, :].numpy()


def test_no_stretch_crosses_an_end_and_both_levels_begin_together():
    play, draws = play_of(), rng()
    complete = 0
    for _ in range(30):
        for stretch in play.play(draws):
            level, episode, step = np.moveaxis(shown(stretch), -1, 0)
            for side in (0, 1):
                assert (level[side] == stretch.levels[side]).all()
                assert (episode[side] == episode[side, 0]).all()
                assert (np.diff(step[side]) == 1).all()  # contiguous
            assert (step[0] == step[1]).all()  # as many steps since the first frame of each
            assert step[0, -1] < 5 + level.min()  # neither was over
            complete += int(step[0, -1] == 4 + level.min())
    assert complete > 10  # some were played to the end of the shorter level


def test_every_step_is_played_once_and_in_order():
    play, draws, log = play_of(pairs=1, levels=range(2)), rng(), []
    for _ in range(6):
        log += play.play(draws)
    # Levels of 5 and 6 steps begin anew every 5, and a call ends every 7: cut at 5, 7, 10, 14, 15,
    # 20, 21, 25, 28, 30, 35, 40, 42. Single steps (14 and 20) are no stretch.
    assert [s.action.shape[1] for s in log] == [5, 2, 3, 4, 5, 4, 3, 2, 5, 5, 2]
    firsts = [int(shown(s)[0, 0, 2]) for s in log]
    assert firsts == [start % 5 for start in (0, 5, 7, 10, 15, 21, 25, 28, 30, 35, 40)]


def test_levels_are_different_and_none_is_played_twice_at_once():
    play, draws, seen = play_of(), rng(), set()
    for _ in range(40):
        for stretch in play.play(draws):
            assert stretch.levels[0] != stretch.levels[1]
            assert set(stretch.levels) <= set(range(3, 11))
            seen.add(stretch.levels)
        busy = [level for levels in play.playing if levels for level in levels]
        assert len(busy) == len(set(busy))
    assert {level for pair in seen for level in pair} == set(range(3, 11))
    assert len(seen) > 20  # of 56: pairs do not stay the same


def test_frames_are_counted_as_played_also_those_of_no_use():
    play = play_of(make_level=lambda level: Corridor(level, 1))  # ends at every step
    assert play.play(rng()) == []
    assert play.frames == 2 * 3 * 7
    play.play(rng())
    assert play.frames == 2 * 2 * 3 * 7


def test_actions_are_drawn_from_the_policy_that_is_recorded():
    play, draws = play_of(levels=range(6)), rng()
    counts = torch.zeros(3, 4)
    for _ in range(150):
        for stretch in play.play(draws):
            for side, level in enumerate(stretch.levels):
                expected = Leaning()(level, torch.tensor([[[[level]]]]))
                assert torch.equal(stretch.policy[side], expected.repeat(len(stretch.policy[0]), 1))
                counts[level % 3] += torch.bincount(stretch.action[side], minlength=4)
    torch.testing.assert_close(
        counts / counts.sum(1, keepdim=True),
        torch.tensor([[0, 0.6, 0.2, 0.2], [0, 0.2, 0.6, 0.2], [0, 0.2, 0.2, 0.6]]),
        rtol=0,
        atol=0.04,
    )


def test_the_recorded_actions_are_those_that_were_played():
    play = play_of(pairs=1, levels=range(2), steps=4)
    (stretch,) = play.play(rng())
    for side, level in enumerate(stretch.levels):
        assert play.games[level].actions == stretch.action[side].tolist()


def same(first: list[Stretch], second: list[Stretch]) -> bool:
    return len(first) == len(second) and all(
        a.levels == b.levels and all(map(torch.equal, a[1:], b[1:]))
        for a, b in zip(first, second, strict=True)
    )


def through_disk(state: dict[str, Any]) -> Any:
    tensors: dict[str, Tensor] = {}
    values = tree.encode(state, "", tensors)
    return tree.decode(values, "", tree.unpack(tree.pack(tensors)))


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 4])
def test_play_goes_on_from_its_saved_state_as_if_nothing_had_been(calls):
    play, draws = play_of(), rng()
    for _ in range(calls):
        play.play(draws)
    state, drawn = through_disk(play.state_dict()), draws.get_state()
    expected = [play.play(draws) for _ in range(3)]
    again, draws = play_of(), rng(99)
    again.play(draws)  # has begun elsewhere, as before a roll-back
    again.load_state_dict(state)
    draws.set_state(drawn)
    assert all(same(stretches, again.play(draws)) for stretches in expected)
    assert again.frames == play.frames == (calls + 3) * 42


def test_procgen_levels_go_on_from_their_saved_state():
    config = replace(plain("pse"), env="coinrun", frame_stack=2)

    def new() -> PairedPlay:
        return play_of(
            make_level=lambda level: make_level(config, level), policies=Uniform(15), steps=20
        )

    play, draws = new(), rng()
    first = play.play(draws)
    assert {s.frames.shape[2:] for s in first} == {(64, 64, 6)}
    state, drawn = through_disk(play.state_dict()), draws.get_state()
    expected = [play.play(draws) for _ in range(3)]
    again = new()
    again.load_state_dict(state)
    draws.set_state(drawn)
    assert all(same(stretches, again.play(draws)) for stretches in expected)


def test_other_policies_than_those_that_were_saved_are_refused():
    state = play_of().state_dict()
    with pytest.raises(BadInput, match="not those this run was saved with"):
        play_of(policies=Uniform(4)).load_state_dict(state)
