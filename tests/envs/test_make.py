"""The door to environments: what comes through it keeps the contract, and the rest is refused."""

import subprocess
import sys

import numpy as np
import pytest

from crosstraj.envs import Levels, ProcgenConfig, check_envs, level_seeds
from crosstraj.errors import BadInput
from tests.envs.games import made, procgen

DOORS = ["starpilot", "Clock-v0", "GreyClock-v0", "DictClock-v0", "ALE/Breakout-v5"]


@pytest.mark.parametrize("frame_stack", [1, 4])
@pytest.mark.parametrize("env", [*DOORS, "MiniGrid-Empty-5x5-v0"])
def test_what_comes_through_the_door_keeps_the_vector_contract(env: str, frame_stack: int) -> None:
    if env.startswith(("ALE", "MiniGrid")):
        pytest.importorskip("ale_py" if env.startswith("ALE") else "minigrid")
    envs = made(env, 2, frame_stack=frame_stack)
    check_envs(envs)
    assert envs.num_envs == 2
    height, width, channels = envs.single_observation_space.shape or ()
    assert envs.observation_space.shape == (2, height, width, channels)
    first, info = envs.reset(seed=3)
    assert envs.observation_space.contains(first)
    assert isinstance(info, dict)
    envs.action_space.seed(0)
    for _ in range(8):
        frames, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        assert envs.observation_space.contains(frames)
        assert reward.shape == terminated.shape == truncated.shape == (2,)
        assert terminated.dtype == truncated.dtype == np.bool_
        assert reward.dtype in (np.float32, np.float64)
    envs.close()
    assert envs.closed


def test_the_door_gives_procgen_its_levels_look_and_seed() -> None:
    config = ProcgenConfig(mode="hard", first_level=7, train_levels=3)
    seen = made("leaper", 30, procgen=config, seed=4)
    assert set(seen.reset()[1]["level_seed"].tolist()) == {7, 8, 9}
    same = procgen("leaper", 30, config, Levels(7, 3), seed=4)
    assert (seen.reset()[0] == same.reset()[0]).all()
    unseen = made("leaper", 30, procgen=config, levels="test")
    assert unseen.reset()[1]["level_seed"].min() > 9


@pytest.mark.parametrize("env", ["starpilot", "Clock-v0"])
def test_the_door_hands_out_copies_unless_asked_not_to(env: str) -> None:
    for copy in (True, False):
        envs = made(env, copy=copy)
        envs.reset()
        frames, later = (envs.step(np.zeros(3, int))[0] for _ in range(2))
        assert np.shares_memory(frames, later) == (not copy)


def test_level_seeds_are_minus_one_where_an_environment_has_none() -> None:
    assert level_seeds(made("Clock-v0").reset()[1], 3).tolist() == [-1, -1, -1]
    levels = level_seeds({"level_seed": np.array([5, 7], np.int32)}, 2)
    assert levels.tolist() == [5, 7]
    assert levels.dtype == np.int64


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("CartPole-v1", "uint8 images"),
        ("FloatClock-v0", "uint8 images"),
        ("TwoClock-v0", "exactly one image"),
        ("TurnedClock-v0", r"looks like \[C, H, W\]"),
        ("PushClock-v0", "Discrete actions"),
        ("LateClock-v0", "counted from 0"),
        ("NextStepClock-v0", "only SAME_STEP is understood"),
        ("LostClock-v0", "pip install clockwork"),
        ("Clok-v0", "did you mean 'Clock-v0'"),
        ("coinrn", "did you mean 'coinrun'"),
        ("Clock", "did you mean 'Clock-v0'"),
        ("no_such_module:Clock-v0", "pip install no_such_module"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_with_a_sentence(env: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        made(env)


@pytest.mark.parametrize("changes", [{"count": 0}, {"frame_stack": 0}, {"seed": -1}], ids=str)
def test_counts_and_seeds_out_of_range_are_refused(changes: dict[str, int]) -> None:
    for env in ("starpilot", "Clock-v0"):
        with pytest.raises(BadInput, match=next(iter(changes))):
            made(env, **changes).reset()


def test_importing_the_package_loads_neither_torch_nor_the_engine() -> None:
    heavy = "{'torch', 'procgen', 'gym3', 'gym'}"
    code = f"import sys, crosstraj.envs; print({heavy} & set(sys.modules) or 'light')"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "light"
