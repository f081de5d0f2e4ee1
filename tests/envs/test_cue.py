"""The task that needs a memory: what it shows, and what it pays."""

import numpy as np
import pytest

from crosstraj.envs import Cue, GymnasiumConfig, ProcgenConfig, make_envs


@pytest.mark.parametrize("delay", [0, 3])
def test_the_cue_is_in_the_first_frame_alone_and_decides_what_pays(delay):
    env, cues, later = Cue(delay), set(), []
    for seed in range(8):
        for action in (0, 1):
            first, _ = env.reset(seed=seed)
            frames, over = [], False
            while not over:
                frame, reward, over, truncated, _ = env.step(np.int64(action))
                frames.append(frame)
                assert not truncated
                assert reward == float(over and action == int(first[0, 0, 2] > 0))  # blue: 1
            assert len(frames) == delay + 2  # the cue, the delay and the choice each take a step
            cues.add(first.tobytes())
            later.append([frame.tobytes() for frame in frames[:-1]])
    assert len(cues) == 2
    assert all(frames == later[0] for frames in later)  # whatever the cue was


def test_it_trains_by_its_id_with_levels():
    levels = GymnasiumConfig(train_levels=20)
    envs = make_envs(
        "crosstraj/Cue-v0", 3, levels="train", procgen=ProcgenConfig(), gymnasium=levels, seed=0
    )
    frames, info = envs.reset()
    assert frames.shape == (3, 8, 8, 3)
    assert set(info["level_seed"]) <= set(range(20))
    envs.close()
