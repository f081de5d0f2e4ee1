"""Stacks of frames: those of a slow loop, also where episodes end and after a restore."""

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import VectorEnv

from crosstraj.envs import FrameStack, ProcgenVectorEnv, savable
from crosstraj.errors import BadInput
from tests.envs.games import digest, made, next_step_clocks, played


def slow_stacks(envs: VectorEnv[Any, Any, Any], depth: int, steps: int) -> list[list[Any]]:
    """Stacks and last stacks by lists of frames."""
    frames, _ = envs.reset()
    past = [[frame] * depth for frame in frames]
    rng, rows = np.random.default_rng(0), []
    for _ in range(steps):
        action = rng.integers(0, 4, envs.num_envs)
        frames, _, terminated, truncated, info = envs.step(action)
        finals: list[Any] = [None] * envs.num_envs
        for n, frame in enumerate(frames):
            if terminated[n] or truncated[n]:
                if "final_obs" in info:
                    finals[n] = np.concatenate([*past[n][1:], info["final_obs"][n]], axis=-1)
                past[n] = [frame] * depth
            else:
                past[n] = [*past[n][1:], frame]
        rows.append([np.stack([np.concatenate(p, axis=-1) for p in past]), finals])
    return rows


@pytest.mark.parametrize(("env", "steps"), [("Clock-v0", 60), ("bossfight", 150)])
def test_stacks_equal_a_slow_loop_also_where_episodes_end(env: str, steps: int) -> None:
    stacked = made(env, frame_stack=3)
    stacked.reset()
    rng, ends = np.random.default_rng(0), 0
    for expected, last in slow_stacks(made(env), 3, steps):
        frames, _, terminated, truncated, info = stacked.step(rng.integers(0, 4, 3))
        assert (frames == expected).all()
        ends += int((terminated | truncated).sum())
        assert ("final_obs" in info) == any(final is not None for final in last)
        for final, right in zip(info.get("final_obs", last), last, strict=True):
            assert (final is None) == (right is None)
            assert final is None or (final == right).all()
    assert ends > 3


def test_a_stack_begins_with_its_first_frame_and_stays_as_handed_out() -> None:
    envs = made("Clock-v0", frame_stack=4)
    single = made("Clock-v0").reset()[0]
    first, _ = envs.reset()
    assert (first == np.concatenate([single] * 4, axis=-1)).all()
    before = first.copy()
    envs.step(np.zeros(3, int))
    assert (first == before).all()


def test_stacks_are_saved_and_restored_with_their_environment() -> None:
    envs, other = made("starpilot", frame_stack=3), made("starpilot", frame_stack=3, seed=8)
    assert isinstance(envs, FrameStack)
    assert isinstance(other, FrameStack)
    assert savable(envs)
    envs.reset(), other.reset()
    played(envs, 20), played(other, 10)
    frames, info = other.set_state(envs.get_state())
    assert (frames == envs.observation).all()
    assert (other.observation == envs.observation).all()
    rows = played(envs, 40)
    assert (info["level_seed"] == rows[0][5]).all()
    assert digest(played(other, 40)) == digest(rows)


def test_a_stack_refuses_what_it_cannot_do() -> None:
    clock = made("Clock-v0")
    with pytest.raises(BadInput, match="depth=1"):
        FrameStack(clock, 1)
    with pytest.raises(BadInput, match="SAME_STEP"):
        FrameStack(next_step_clocks(num_envs=2), 2)
    with pytest.raises(BadInput, match="cannot be saved"):
        FrameStack(clock, 2).get_state()
    assert not savable(FrameStack(clock, 2))
    state = made("starpilot", frame_stack=2).get_state()  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="no stack of 3 frames"):
        made("starpilot", frame_stack=3).set_state(state)  # type: ignore[attr-defined]


def test_one_frame_is_not_wrapped() -> None:
    assert isinstance(made("starpilot", frame_stack=1), ProcgenVectorEnv)
