"""Recordings of an expert: rewards that come soon, levels, opinions."""

import numpy as np
import pytest
import torch

from crosstraj.analysis.probes.record import Recording, draw, record, reward_soon
from crosstraj.learning.evaluation import Pool
from tests.learning.scripted import Scripted


def test_a_reward_soon_is_one_of_the_same_episode_within_the_horizon():
    reward = np.array([0, 0, 0, 1, 0, 0, -5, 0, 2, 0, 0], float)[:, None]
    done = np.array([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], bool)[:, None]
    # Windows of three: t = 1 ... 3 see the reward of step 3, t = 8 its own; t = 6 and 7 may not
    # look beyond the end at 7; the last two are cut off.
    expected = [0, 1, 1, 1, 0, 0, 0, 0, 1]
    assert reward_soon(reward, done, 3)[:, 0].astype(int).tolist() == expected


def test_rewards_soon_are_those_of_a_slow_loop():
    rng = np.random.default_rng(0)
    reward = np.where(rng.random((80, 3)) < 0.08, rng.normal(size=(80, 3)), 0)
    done = rng.random((80, 3)) < 0.07
    found = reward_soon(reward, done, 10)
    assert found.shape == (71, 3)
    for t, n in np.ndindex(found.shape):
        expected = False
        for ahead in range(10):
            expected |= bool(reward[t + ahead, n] > 0)
            if done[t + ahead, n]:
                break
        assert found[t, n] == expected


class Paid(Scripted):
    """Steps 4, 17 and 30 of an episode pay, and so does its last one if the episode is odd."""

    def step(self, actions):
        steps, episode = self.steps.copy(), self.episode.copy()
        obs, _, done, truncated, info = super().step(actions)
        reward = np.isin(steps, (4, 17, 30)) | (done & (episode % 2 == 1))
        return obs, reward.astype(float), done, truncated, info


class Certain:
    """An agent that is sure of the action (row + step) mod 4, as the frame shows it."""

    encoder = None

    def read(self, encode, frames):
        return frames.float()

    def decide(self, frames, features, context):
        assert context.shape == (len(frames), 0)
        wanted = (features[:, 0, 0, 0].long() + features[:, 0, 2, 0].long()) % 4
        return torch.eye(4)[wanted].mul(20).log_softmax(-1), None


def recorded(count: int, every: int, script: list[list[int]], **options: float) -> Recording:
    return record(
        Pool(Paid(script), 0),
        Certain(),
        count,
        every=every,
        random=options.get("random", 0.0),
        rng=torch.Generator().manual_seed(0),
        device=torch.device("cpu"),
    )


def test_a_recording_has_every_so_many_th_frame_with_its_own_level_opinion_and_label():
    script = [[13, 40], [7, 8, 9]]
    found = recorded(20, 3, script)
    assert len(found.level) == 40
    seen = [tuple(frame[0, :3, 0].tolist()) for frame in found.frames]
    # Time before environment: step 0 of both rows, then step 3 of both, ...
    assert seen[:5] == [(0, 0, 0), (1, 0, 0), (0, 0, 3), (1, 0, 3), (0, 0, 6)]
    assert seen[5] == (1, 0, 6)
    assert seen[7] == (1, 1, 2)  # the ninth step: the first episode of row 1 had seven
    for (row, episode, step), level, soon, log_probs in zip(
        seen, found.level, found.soon, found.log_probs, strict=True
    ):
        length = script[row][episode % len(script[row])]
        paid = [s in (4, 17, 30) or (episode % 2 and s == length - 1) for s in range(length)]
        assert level == 100 * row + episode
        assert soon == any(paid[step : step + 10])
        assert log_probs.argmax() == (row + step) % 4
        assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-12)


def test_where_there_are_no_levels_each_episode_counts_as_one(monkeypatch):
    monkeypatch.setattr(Paid, "levels", lambda self: np.full(self.num_envs, -1))
    found = recorded(20, 3, [[13, 40], [7, 8, 9]])
    seen = [tuple(frame[0, :2, 0].tolist()) for frame in found.frames]
    assert len(set(found.level)) == len(set(seen)) == len(set(zip(seen, found.level, strict=True)))
    assert (found.level < 0).all()


def test_a_share_of_the_actions_is_random_and_the_others_are_the_experts():
    sure = torch.eye(4)[torch.full((20_000,), 2)].mul(50).log_softmax(-1)
    for random, other in ((0.0, 0.0), (0.2, 0.15), (1.0, 0.75)):
        action = draw(sure, random, torch.Generator().manual_seed(1))
        assert (action != 2).float().mean().item() == pytest.approx(other, abs=0.01)
    assert set(draw(sure, 1.0, torch.Generator().manual_seed(1)).tolist()) == {0, 1, 2, 3}
