"""Levels of our own choice: play is what it is where the engine draws the same levels itself."""

from collections import deque

import numpy as np
import pytest

from crosstraj.envs import GAMES, FrameStack, Levels, ProcgenConfig, ProcgenVectorEnv
from crosstraj.errors import BadInput
from tests.envs.games import EASY, INFO, digest, played

TWENTY = Levels(3, 20)
MODES = [(game, EASY) for game in GAMES] + [
    ("maze", ProcgenConfig(mode="memory")),
    ("chaser", ProcgenConfig(mode="hard", paint_vel_info=True)),
]


def choosing(
    game: str, levels: "deque[int]", config: ProcgenConfig = EASY, **values: int
) -> ProcgenVectorEnv:
    given = {"seed": 9, "threads": 0} | values
    return ProcgenVectorEnv(game, 4, TWENTY, config, next_level=levels.popleft, **given)


@pytest.mark.parametrize(("game", "config"), MODES)
@pytest.mark.parametrize("depth", [1, 2])
def test_play_equals_that_of_an_engine_that_draws_these_levels(
    game: str, config: ProcgenConfig, depth: int
) -> None:
    wanted: deque[int] = deque()
    drawing = ProcgenVectorEnv(game, 4, TWENTY, config, seed=1)
    chosen = choosing(game, wanted, config, threads=2)
    stacked = [drawing, chosen] if depth == 1 else [FrameStack(e, depth) for e in (drawing, chosen)]
    left, right = stacked
    first, info = left.reset()
    wanted.extend(info["level_seed"])
    again, told = right.reset()
    assert (again == first).all()
    assert (told["level_seed"] == info["level_seed"]).all()
    rng = np.random.default_rng(0)
    for _ in range(120):
        actions = rng.integers(0, 15, 4)
        frames, reward, done, _, info = left.step(actions)
        wanted.extend(info["level_seed"][done])  # asked for in the order of the games
        seen, earned, ended, _, told = right.step(actions)
        assert not wanted
        assert (seen == frames).all()
        assert (earned == reward).all()
        assert (ended == done).all()
        assert all((told[key] == info[key]).all() for key in INFO)


def test_games_on_chosen_levels_are_saved_and_go_on_exactly() -> None:
    wanted = deque(np.random.default_rng(3).integers(3, 23, 400).tolist())
    envs = choosing("starpilot", wanted)
    envs.reset()
    played(envs, 60)
    state, ahead = envs.get_state(), list(wanted)
    expected = digest(played(envs, 120, seed=1))
    other = choosing("starpilot", deque(ahead), seed=2)
    other.set_state(state)
    assert digest(played(other, 120, seed=1)) == expected
    assert len(wanted) < len(ahead)  # levels have begun since


def test_a_reset_begins_the_next_levels_that_are_chosen() -> None:
    envs = choosing("coinrun", deque([5, 7, 5, 22, 3, 4, 5, 6]))
    assert envs.reset()[1]["level_seed"].tolist() == [5, 7, 5, 22]
    assert envs.reset()[1]["level_seed"].tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("level", [2, 23])
def test_a_level_outside_the_range_is_refused(level: int) -> None:
    envs = choosing("coinrun", deque([level]))
    with pytest.raises(BadInput, match=f"level {level} is not one of"):
        envs.reset()


def test_generated_pictures_cannot_be_saved_and_so_no_level_chosen() -> None:
    with pytest.raises(BadInput, match="use_generated_assets=True"):
        choosing("coinrun", deque(), ProcgenConfig(use_generated_assets=True))
