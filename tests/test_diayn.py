"""DIAYN: skills per episode, a reward of log Z at most, and what its two phases learn from."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from crosstraj import train
from crosstraj.config import preset
from crosstraj.evaluate import Pool, evaluate
from crosstraj.learner import Learner
from crosstraj.objectives.diayn import DIAYN, DIAYNConfig
from crosstraj.rollout import Decision, Rollout
from tests.test_methods import learner_for, rollout_for, small
from tests.test_phases import training_with


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def learner_with(objective: DIAYNConfig, **changes: Any) -> Learner:
    return learner_for(replace(small("diayn", **changes), objective=objective))


# --- Skills


def test_a_skill_is_kept_within_an_episode_and_drawn_anew_where_one_began():
    skills = DIAYN(DIAYNConfig(skills=5), rng())
    nobody = torch.zeros(4, 5)
    first = skills.draw_context(nobody, torch.ones(4, dtype=torch.bool), rng(1))
    assert first.sum(1).tolist() == [1.0] * 4
    g, changed = rng(2), 0
    for _ in range(20):
        began = torch.tensor([True, False, False, True])
        fresh = skills.draw_context(first, began, g)
        assert fresh.sum(1).tolist() == [1.0] * 4
        assert torch.equal(fresh[~began], first[~began])
        changed += int((fresh[began] != first[began]).any())
    assert changed > 10


def test_skills_are_uniform():
    skills, draws = DIAYN(DIAYNConfig(skills=8), rng()), 8000
    began = torch.ones(draws, dtype=torch.bool)
    drawn = skills.draw_context(torch.zeros(draws, 8), began, rng(3)).argmax(1)
    counts = Counter(drawn.tolist())
    spread = math.sqrt(draws * 1 / 8 * 7 / 8)
    assert set(counts) == set(range(8))
    assert all(abs(count - draws / 8) < 4 * spread for count in counts.values())


class Naming:
    """Never the same skill twice in a row, so that each new episode shows."""

    def __init__(self, context: int) -> None:
        self.context = context

    def draw_context(self, previous: Tensor, began: Tensor, rng: torch.Generator) -> Tensor:
        return torch.where(began[:, None], previous.roll(1, -1), previous)


def test_the_collector_keeps_each_skill_for_exactly_one_episode():
    training = training_with("diayn", rollout_steps=200, frames=1000)
    training.collector.skills = Naming(training.learner.objective.context)
    rollout = training.collector.collect(training.learner.agent)
    assert rollout.done.any()
    skill = rollout.context.argmax(-1)
    assert torch.equal(skill[1:] != skill[:-1], rollout.done)
    assert rollout.context.sum(-1).eq(1).all()


class Counting(gym.vector.VectorEnv[Any, Any, Any]):
    """Three environments whose episodes last three, four and five steps."""

    def __init__(self) -> None:
        self.num_envs, self.lengths = 3, np.array([3, 4, 5])
        self.single_observation_space = gym.spaces.Box(0, 255, (4, 4, 3), np.uint8)
        self.single_action_space = gym.spaces.Discrete(2)
        self.time = np.zeros(3, int)

    def frames(self) -> np.ndarray:
        return np.broadcast_to(self.time.astype(np.uint8)[:, None, None, None], (3, 4, 4, 3)).copy()

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self.time[:] = 0
        return self.frames(), {}

    def step(self, action: np.ndarray) -> Any:
        self.time += 1
        done = self.time >= self.lengths
        self.time[done] = 0
        return self.frames(), np.ones(3), done, np.zeros(3, bool), {}


def test_evaluation_follows_a_fresh_skill_in_each_episode():
    seen: list[tuple[list[int], list[int]]] = []

    class Player:
        def act(self, frames: Tensor, context: Tensor, g: Any, *, greedy: bool = False) -> Decision:
            seen.append((frames[:, 0, 0, 0].tolist(), context.argmax(1).tolist()))
            zeros = torch.zeros(len(frames))
            return Decision(zeros.long(), zeros, zeros, zeros[:, None])

    skills = DIAYN(DIAYNConfig(skills=50), rng())
    records = evaluate(Pool(Counting(), 0), Player(), skills, 12, rng(4))
    assert [record.length for record in records] == [3] * 4 + [4] * 4 + [5] * 4
    # While all three play, row i is environment i: its skill changes where its time is 0 again.
    together = [(times, chosen) for times, chosen in seen if len(times) == 3]
    assert len(together) == 12
    for env in range(3):
        changes = sum(
            chosen[env] != before[env]
            for (_, before), (times, chosen) in pairwise(together)
            if times[env] == 0
        )
        assert changes >= 1
        for (_, before), (times, chosen) in pairwise(together):
            assert times[env] == 0 or chosen[env] == before[env]


# --- The reward and the loss


def coloured(rollout: Rollout) -> Rollout:
    """A toy: the skill decides the colour of the frame."""
    colour = torch.tensor([[230, 20, 20], [20, 20, 230]], dtype=torch.uint8)
    skill = rollout.context.argmax(-1)
    frames = colour[skill][:, :, None, None, :].expand_as(rollout.obs).contiguous()
    return rollout._replace(obs=frames)


def test_the_reward_of_known_guesses():
    """One feature decides: q = softmax(0, ln 3) = (1/4, 3/4) against p = 1/2."""
    learner = learner_with(DIAYNConfig(skills=2))
    objective, rollout = learner.objective, rollout_for(learner)
    assert isinstance(objective, DIAYN)
    last = objective.discriminator[-1]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([0.0, math.log(3.0)]))
    reward = objective.reward(rollout, rng())
    assert reward.shape == rollout.reward.shape
    skill = rollout.context[:-1].argmax(-1)
    expected = torch.where(skill == 1, math.log(0.75 / 0.5), math.log(0.25 / 0.5))
    torch.testing.assert_close(reward, expected)


def test_a_blind_discriminator_gives_no_reward():
    learner = learner_for(small("diayn"))
    reward = learner.objective.reward(rollout_for(learner), rng())
    assert float(reward.mean()) == pytest.approx(0.0, abs=0.02)
    assert float(reward.max()) < math.log(16)


def test_two_skills_of_two_colours_are_told_apart_and_pay_log_two():
    learner = learner_with(DIAYNConfig(skills=2), encoder_grad="ssl")
    rollout = coloured(rollout_for(learner))
    for _ in range(40):
        metrics = learner.update_objective(rollout)
    assert metrics["skill_accuracy"] > 0.95
    features = [
        learner.agent.judge(*pair)[1] for pair in zip(rollout.obs, rollout.context, strict=True)
    ]
    rollout = rollout._replace(features=torch.stack(features))
    reward = learner.objective.reward(rollout, rng())
    assert float(reward.mean()) == pytest.approx(math.log(2), rel=0.02)
    assert float(reward.max()) <= math.log(2) + 1e-6
    assert metrics["skill_entropy"] < 0.05


def test_a_batch_pairs_each_frame_with_the_skill_that_saw_it():
    learner = learner_with(DIAYNConfig(skills=3))
    rollout = rollout_for(learner)
    steps, envs = rollout.done.shape
    number = torch.arange(steps + 1, dtype=torch.uint8)[:, None] * envs + torch.arange(envs)
    rollout = rollout._replace(
        obs=number.to(torch.uint8)[:, :, None, None, None].expand_as(rollout.obs).contiguous()
    )
    seen = []
    for frames, skill in learner.objective_batches(rollout, 1):
        for frame, mine in zip(frames[:, 0, 0, 0].tolist(), skill.tolist(), strict=True):
            assert int(rollout.context[frame // envs, frame % envs].argmax()) == mine
            seen.append(frame)
    assert sorted(seen) == list(range(steps * envs))


# --- Two phases


def test_the_halves_learn_from_different_rewards():
    training = training_with("diayn")
    learnt_from: list[bool] = []

    def learns(rollout: Rollout) -> Tensor:
        training._new_normalisers()  # what was seen before must make no difference
        return training.reward(rollout)[0]

    for half in (0, 1):
        training.frames = half * 32
        training.begin_phase()
        rollout = training.collector.collect(training.learner.agent)
        # The environment's reward shows only if it is learnt from.
        poor = rollout._replace(reward=torch.zeros_like(rollout.reward))
        rich = rollout._replace(reward=torch.ones_like(rollout.reward))
        learnt_from.append(not torch.equal(learns(poor), learns(rich)))
    assert learnt_from == [False, True]


def test_the_second_half_begins_with_a_new_value_head_and_normaliser_and_drops_the_objective():
    first, second = preset("diayn", "default").phases
    assert (first.share, first.extrinsic, first.intrinsic, first.reset) == (0.5, 0.0, 1.0, ())
    assert (second.share, second.extrinsic, second.intrinsic) == (0.5, 1.0, 0.0)
    assert second.objective_weight == 0.0
    assert preset("diayn", "paper").frames == 16_000_000  # 8M for each half
    assert set(second.reset) == {"value", "normaliser"}
    training = training_with("diayn")
    for _ in range(2):
        train.learn(training)
    discriminator = training.learner.weights()["objective"]
    before = {name: tensor.clone() for name, tensor in discriminator.items()}
    assert train.learn(training)["phase"] == 2
    assert training.normaliser.count == pytest.approx(16, abs=0.01)  # of this rollout alone
    assert training.intrinsic_normaliser.count == 1e-4
    assert all(torch.equal(before[name], tensor) for name, tensor in discriminator.items())
