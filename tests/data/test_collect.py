"""What a collector writes into a rollout, step by step, and where it goes on."""

import pytest
import torch

from crosstraj.data.collect import Collector
from crosstraj.data.rollout import Decision
from crosstraj.objectives import Objective
from tests.helpers import Scripted, rng


class PixelValue:
    """Always the same action; a frame is worth its pixel."""

    def act(self, frames, context, rng):
        n = len(frames)
        value, features = self.judge(frames, context)
        return Decision(torch.full((n,), 2), torch.full((n,), -0.5), value, features)

    def judge(self, frames, context):
        return frames[:, 0, 0, 0].float(), frames.flatten(1).float()


def collector(envs: Scripted, steps: int) -> Collector:
    return Collector(envs, steps, 4, Objective(), 0, rng(), torch.device("cpu"))


def test_a_rollout_holds_each_frame_with_its_own_action_reward_end_and_level():
    rollout = collector(Scripted((3, 4)), 6).collect(PixelValue())
    assert rollout.obs[:, 0, 0, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert rollout.obs[:, 1, 0, 0, 0].tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert rollout.reward[:, 0].tolist() == [1, 2, 3, 1, 2, 3]
    assert rollout.done[:, 0].tolist() == [False, False, True, False, False, True]
    assert rollout.done[:, 1].tolist() == [False, False, False, True, False, False]
    # The level is that of the frame in which the action was taken, also at the episode's end.
    assert rollout.level[:, 0].tolist() == [0, 0, 0, 10, 10, 10]
    assert rollout.level[:, 1].tolist() == [1, 1, 1, 1, 11, 11]
    assert rollout.value[:, 1].tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert rollout.features[:, 1, 0].tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert (rollout.action == 2).all()
    assert rollout.final_value.abs().sum() == 0
    assert rollout.context.shape == (7, 2, 0)


def test_the_next_rollout_goes_on_where_the_last_one_stopped():
    play = collector(Scripted((3, 4)), 4)
    play.collect(PixelValue())
    second = play.collect(PixelValue())
    assert second.obs[:, 0, 0, 0, 0].tolist() == [1, 2, 0, 1, 2]
    assert second.obs[:, 1, 0, 0, 0].tolist() == [0, 1, 2, 3, 0]


def test_returns_of_episodes_are_raw_sums_also_across_rollouts():
    play = collector(Scripted((3, 4)), 2)
    assert play.mean_return() == {}
    for _ in range(3):
        play.collect(PixelValue())
    assert sorted(play.recent) == [6.0, 6.0, 10.0]  # 1+2+3 twice, 1+2+3+4 once
    assert play.mean_return() == {"train_return": pytest.approx(22 / 3)}
    assert play.episodes == 3


def test_where_time_ran_out_the_value_of_the_true_last_frame_is_kept():
    rollout = collector(Scripted((3, 4), truncate=True), 6).collect(PixelValue())
    assert rollout.final_value[:, 0].tolist() == [0, 0, 3, 0, 0, 3]
    assert rollout.final_value[:, 1].tolist() == [0, 0, 0, 4, 0, 0]
    assert rollout.done[:, 0].tolist() == [False, False, True, False, False, True]
