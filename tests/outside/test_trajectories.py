"""Trajectories from the buffers of other libraries, against a slow loop over their steps."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crosstraj.data.rollout import Rollout
from crosstraj.errors import BadInput
from crosstraj.outside.trajectories import Trajectories

STEPS, ENVS, ACTIONS = 5, 3, 4
IMAGE = (8, 9, 3)  # height and width differ: an axis in the wrong place is seen


class Game:
    """One environment, step by step; `ends` are the steps whose action ends the episode."""

    def __init__(self, number: int, ends: set[int]) -> None:
        g = torch.Generator().manual_seed(number)
        self.steps: list[dict[str, Any]] = []
        episode = 0
        for t in range(STEPS):
            self.steps.append(
                {
                    "frame": torch.randint(256, IMAGE, generator=g, dtype=torch.uint8),
                    "action": int(torch.randint(ACTIONS, (), generator=g)),
                    "reward": float(torch.randn((), generator=g)),
                    "done": t in ends,
                    "start": t == 0 or t - 1 in ends,
                    "episode": (number, episode),
                    "level": 10 * number + episode,
                }
            )
            episode += t in ends


def buffer(games: list[Game], name: str, *, time_first: bool) -> Tensor:
    """[S, N, ...] or [N, S, ...], written by the obvious loop."""
    first, second = (STEPS, len(games)) if time_first else (len(games), STEPS)
    rows = []
    for i in range(first):
        for j in range(second):
            t, n = (i, j) if time_first else (j, i)
            rows.append(torch.as_tensor(games[n].steps[t][name]))
    return torch.stack(rows).unflatten(0, (first, second))


def games_with_end(step: int) -> list[Game]:
    """An episode end at `step` in the first game, none in the second, two in the third."""
    return [Game(0, {step}), Game(1, set()), Game(2, {step, (step + 2) % STEPS})]


def check(play: Trajectories, games: list[Game]) -> None:
    """Every step where it belongs, and episodes apart exactly where they are."""
    frames, group = play.frames(), play.group()
    assert play.done.shape == play.action.shape == (STEPS, ENVS)
    seen: dict[int, set[Any]] = {}
    for n, game in enumerate(games):
        for t, step in enumerate(game.steps):
            assert torch.equal(frames[t * ENVS + n], step["frame"])
            assert play.action[t, n] == step["action"]
            if t < STEPS - 1:  # after the last step there is nothing that could be apart
                assert play.done[t, n] == step["done"]
            seen.setdefault(int(group[t, n]), set()).add(step["episode"])
    assert all(len(episodes) == 1 for episodes in seen.values())
    assert len(seen) == len({step["episode"] for game in games for step in game.steps})


LAYOUTS = [*product((True, False), (True, False), (True, False))]


@pytest.mark.parametrize(("time_first", "channels_first", "as_starts"), LAYOUTS)
@pytest.mark.parametrize("end", range(STEPS))
def test_every_layout_with_an_end_in_every_position(
    end: int, time_first: bool, channels_first: bool, as_starts: bool
) -> None:
    games = games_with_end(end)
    frames = buffer(games, "frame", time_first=time_first)
    frames = frames.movedim(4, 2).contiguous() if channels_first else frames
    ends = {"starts": "start"} if as_starts else {"done": "done"}
    given = {key: buffer(games, name, time_first=time_first) for key, name in ends.items()}
    actions = buffer(games, "action", time_first=time_first)
    check(Trajectories.of(frames, actions, time_first=time_first, **given), games)


def test_the_buffers_of_stable_baselines() -> None:
    """NumPy, channels first, actions [S, N, 1], starts as floats with the next ones apart."""
    games = games_with_end(STEPS - 1)
    frames = buffer(games, "frame", time_first=True).movedim(4, 2).numpy()
    actions = buffer(games, "action", time_first=True)[..., None].numpy()
    starts = buffer(games, "start", time_first=True).float().numpy()
    following = np.array([[game.steps[-1]["done"] for game in games]], np.float32)
    whole = np.concatenate([starts, following])
    play = Trajectories.of(frames, actions, starts=whole, time_first=True)
    check(play, games)
    assert play.done[-1].tolist() == [True, False, True]  # of the row that was given on top
    check(Trajectories.of(frames, actions, starts=starts, time_first=True), games)


def test_the_buffers_of_torchrl_and_cleanrl() -> None:
    """Environments first, one-hot actions, done [N, S, 1]; actions kept as floats."""
    games = games_with_end(2)
    frames = buffer(games, "frame", time_first=False)
    actions = torch.nn.functional.one_hot(buffer(games, "action", time_first=False), ACTIONS)
    done = buffer(games, "done", time_first=False)[..., None]
    check(Trajectories.of(frames, actions, done, time_first=False), games)
    floats = buffer(games, "action", time_first=False).float()
    check(Trajectories.of(frames, floats, done.int(), time_first=False), games)


def test_groups_are_levels_where_these_are_given_and_fragments_as_a_rollout_has_them() -> None:
    games = games_with_end(1)
    play, frames = given(games), buffer(games, "frame", time_first=True)
    level = buffer(games, "level", time_first=True)
    known = given(games, levels=level, rewards=buffer(games, "reward", time_first=True))
    assert torch.equal(known.group(), level)
    empty = torch.zeros(STEPS, ENVS)
    rollout = Rollout(
        torch.cat([frames, frames[:1]]),
        play.action,
        known.reward,
        play.done,
        torch.full((STEPS, ENVS), -1),
        *(empty, empty, empty, empty, torch.zeros(STEPS + 1, ENVS, 0)),
    )
    assert torch.equal(play.group(), rollout.group())
    assert torch.equal(play.frames(), rollout.frames())


def given(games: list[Game], **changed: Any) -> Trajectories:
    values: dict[str, Any] = {
        "frames": buffer(games, "frame", time_first=True),
        "actions": buffer(games, "action", time_first=True),
        "done": buffer(games, "done", time_first=True),
        "time_first": True,
    }
    return Trajectories.of(**(values | changed))


IMAGES = torch.zeros(STEPS, ENVS, *IMAGE, dtype=torch.uint8)
REFUSED = {
    "frames are float32: give pixels as uint8": {"frames": IMAGES.float()},
    "frames have the shape [5, 3, 8, 9]: give images": {"frames": IMAGES[..., 0]},
    "[5, 3, 8, 8, 8], which does not tell where the channels are": {
        "frames": torch.zeros(STEPS, ENVS, 8, 8, 8, dtype=torch.uint8)
    },
    "there is nothing in them": {"frames": IMAGES[:0]},
    "actions go down to -1": {"actions": torch.full((STEPS, ENVS), -1)},
    "actions are float32 and not whole": {"actions": torch.full((STEPS, ENVS), 0.5)},
    "skills are float32 and not whole": {"skills": torch.full((STEPS, ENVS), torch.inf)},
    "actions have the shape [5, 3, 2] and are not one-hot": {"actions": torch.ones(STEPS, ENVS, 2)},
    "actions has the shape [4, 3], and the frames have [S, N] = [5, 3]": {
        "actions": torch.zeros(STEPS - 1, ENVS)
    },
    "done has the shape [6, 3], and the frames have [S, N] = [5, 3]": {
        "done": torch.zeros(STEPS + 1, ENVS)
    },
    "done has the shape [3, 5], and": {"done": torch.zeros(ENVS, STEPS)},
    "done holds other values than 0 and 1": {"done": torch.full((STEPS, ENVS), 2)},
    "give either done or starts": {"done": None},
    "or where they begin": {"starts": torch.zeros(STEPS, ENVS)},
    "starts has the shape [7, 3]": {"done": None, "starts": torch.zeros(STEPS + 2, ENVS)},
    "levels has the shape [5]": {"levels": torch.zeros(STEPS)},
    "levels are float64 and not whole": {"levels": np.full((STEPS, ENVS), 0.5)},
    "have [N, S] = [5, 3]": {"time_first": False, "actions": torch.zeros(ENVS, STEPS)},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_sentence(sentence: str) -> None:
    with pytest.raises(BadInput) as refusal:
        given(games_with_end(2), **REFUSED[sentence])
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_where_the_channels_are_is_told_by_the_caller_where_the_shape_does_not() -> None:
    frames = torch.arange(2 * 3 * 64).view(2, 3, 4, 4, 4).to(torch.uint8)
    rest = {"actions": torch.zeros(2, 3), "done": torch.zeros(2, 3), "time_first": True}
    last = Trajectories.of(frames, **rest, channels_first=False)
    first = Trajectories.of(frames, **rest, channels_first=True)
    assert torch.equal(last.pixels, frames)
    assert torch.equal(first.pixels[1, 2, 0, 3], frames[1, 2, :, 0, 3])


def test_frames_that_fit_are_not_copied() -> None:
    games = games_with_end(0)
    for frames in (IMAGES, IMAGES.movedim(4, 2).contiguous()):
        assert given(games, frames=frames).pixels.data_ptr() == frames.data_ptr()
        assert given(games, frames=frames).frames().data_ptr() == frames.data_ptr()


def test_what_only_some_losses_read_is_missed_in_one_sentence() -> None:
    play = given(games_with_end(0))
    with pytest.raises(BadInput, match="reads rewards: give"):
        _ = play.reward
    with pytest.raises(BadInput, match="reads skills: give"):
        play.skill()
    assert given(games_with_end(0), skills=torch.ones(STEPS, ENVS)).skill().dtype == torch.int64
