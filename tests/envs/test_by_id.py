"""Environments of Gymnasium's registry: found by name, seen as images, seeded and truncated."""

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

from crosstraj.envs import savable
from crosstraj.errors import BadInput
from tests.envs.games import Array, made


def test_an_atari_game_trains_by_its_gymnasium_name_with_or_without_its_module() -> None:
    pytest.importorskip("ale_py")
    frames = []
    for name in ("ALE/Pong-v5", "ale_py:ALE/Pong-v5"):
        envs = made(name)
        assert envs.single_observation_space.shape == (210, 160, 3)
        envs.reset()
        for _ in range(30):
            image, *_ = envs.step(np.full(3, 2))
        frames.append(image)
    assert frames[0].std() > 1
    assert (frames[0] == frames[1]).all()
    assert not savable(envs)


def test_minigrid_in_pixels_needs_only_a_registration() -> None:
    wrappers = pytest.importorskip("minigrid.wrappers")

    def pixels(**options: Any) -> Any:
        return wrappers.RGBImgPartialObsWrapper(
            gymnasium.make("MiniGrid-DoorKey-6x6-v0", **options)
        )

    gymnasium.register("PixelDoorKey-v0", entry_point=pixels)
    frames, _ = made("PixelDoorKey-v0").reset()
    assert frames.shape == (3, 56, 56, 3)
    assert len(np.unique(frames)) > 10


def test_the_image_of_a_dict_and_the_channel_of_a_grey_image_are_found() -> None:
    assert made("DictClock-v0").reset()[0].shape == (3, 5, 4, 3)
    envs = made("GreyClock-v0")
    assert (envs.reset()[0] == made("Clock-v0").reset()[0][..., :1]).all()
    finals = [envs.step(np.zeros(3, int))[4].get("final_obs") for _ in range(6)]
    shapes = {f.shape for final in finals if final is not None for f in final if f is not None}
    assert shapes == {(5, 4, 1)}


def test_gymnasium_environments_begin_at_their_seed_and_the_splits_differ() -> None:
    def first(env: str = "MiniGrid-MultiRoom-N4-S5-v1", **changes: Any) -> Array:
        frames: Array = made(env, 16, **changes).reset()[0]
        return frames

    pytest.importorskip("minigrid")
    assert (first() == first()).all()
    assert (first() != first(seed=2)).any()
    by_split = [first(levels=split).tobytes() for split in ("train", "test", "validation")]
    assert len(set(by_split)) == 3
    envs = made("Clock-v0")
    frames, _ = envs.reset()
    envs.step(np.zeros(3, int))
    assert (envs.reset()[0] == frames).all()
    assert (envs.reset(seed=1)[0] == frames).all()


def test_truncation_and_true_last_frames_pass_through() -> None:
    envs = made("Clock-v0")
    envs.reset()
    endings = set()
    for _ in range(60):
        _, _, terminated, truncated, info = envs.step(np.zeros(3, int))
        for row in np.flatnonzero(terminated | truncated):
            time = int(info["final_obs"][row][0, 0, 0]) % 8
            endings.add((time, bool(terminated[row]), bool(truncated[row])))
    assert endings == {(3, True, False), (4, True, False), (5, True, True), (5, False, True)}


def test_a_missing_package_is_named_as_pip_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in gymnasium.registry if name.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, name)
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(BadInput, match="pip install ale-py"):
        made("ALE/Pong-v5")
