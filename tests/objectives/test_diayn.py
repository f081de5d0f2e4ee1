"""DIAYN: skills that act on states, a reward of log Z at most, and what two phases learn from."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj import loop
from crosstraj.config.presets import plain, preset
from crosstraj.data.collect import Collector
from crosstraj.data.rollout import Decision, Rollout
from crosstraj.learning.evaluation import Pool, evaluate
from crosstraj.learning.learner import Learner
from crosstraj.learning.state import Training
from crosstraj.objectives.diayn import DIAYN, Batch, DIAYNConfig
from crosstraj.policies.daac import DAACAgent
from crosstraj.policies.ppo import PPOAgent
from tests.helpers import rng
from tests.objectives.every_method import bits, learner_for, moved, rollout_for, small, update
from tests.objectives.phased import training_with


def learner_with(objective: DIAYNConfig, **changes: Any) -> Learner:
    return learner_for(replace(small("diayn", **changes), objective=objective))


# --- Skills


def test_a_skill_is_kept_within_an_episode_and_drawn_anew_where_one_began():
    skills = DIAYN(DIAYNConfig(skills=5), 256, 5, rng())
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
    skills, draws = DIAYN(DIAYNConfig(skills=8), 256, 5, rng()), 8000
    began = torch.ones(draws, dtype=torch.bool)
    drawn = skills.draw_context(torch.zeros(draws, 8), began, rng(3)).argmax(1)
    counts = Counter(drawn.tolist())
    spread = math.sqrt(draws * 1 / 8 * 7 / 8)
    assert set(counts) == set(range(8))
    assert all(abs(count - draws / 8) < 4 * spread for count in counts.values())


class Numbering:
    """Skills counted from 1 in each environment, so that every draw shows."""

    context = 1

    def __init__(self, skill_steps: int) -> None:
        self.skill_steps = skill_steps

    def draw_context(self, previous: Tensor, began: Tensor, rng: torch.Generator) -> Tensor:
        return previous + began[:, None]


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


class Idle:
    """Takes no notice of frames, and remembers the skills it was given."""

    memory = 0

    def __init__(self) -> None:
        self.seen: list[tuple[list[int], list[float]]] = []

    def act(self, frames: Tensor, context: Tensor, g: Any, *, greedy: bool = False) -> Decision:
        self.seen.append((frames[:, 0, 0, 0].tolist(), context.squeeze(-1).tolist()))
        return Decision(torch.zeros(len(frames)).long(), *torch.zeros(2, len(frames)), ONE)

    def judge(self, frames: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(frames)), ONE


ONE = torch.zeros(3, 1)  # features of three environments


def slow_numbers(length: int, skill_steps: int, steps: int) -> list[float]:
    """The number of the skill in each step of one environment, if episodes have this length."""
    number, numbers, time, age = 1, [], 0, 0
    for _ in range(steps):
        numbers.append(float(number))
        time, age = time + 1, age + 1
        if time == length or age == skill_steps:
            number, age = number + 1, 0
        if time == length:
            time = 0
    return numbers


def collector_for(skill_steps: int) -> Collector:
    skills, cpu = Numbering(skill_steps), torch.device("cpu")
    return Collector(Counting(), 4, 1, skills, 0, rng(), cpu)


@pytest.mark.parametrize("skill_steps", [0, 1, 2, 3, 4, 50])
def test_a_skill_lasts_so_many_steps_of_an_episode_in_training(skill_steps):
    """Episodes of three, four and five steps, rollouts of four: against a slow loop."""
    collector = collector_for(skill_steps)
    rollouts = [collector.collect(Idle()).context.squeeze(-1).clone() for _ in range(6)]
    for env, length in enumerate([3, 4, 5]):
        expected = slow_numbers(length, skill_steps, 25)
        for number, context in enumerate(rollouts):
            assert context[:, env].tolist() == expected[4 * number : 4 * number + 5]


@pytest.mark.parametrize("skill_steps", [0, 1, 2, 3, 4, 50])
def test_a_skill_lasts_as_long_in_evaluation(skill_steps):
    player = Idle()
    evaluate(Pool(Counting(), 0), player, Numbering(skill_steps), 12, rng())
    together = [numbers for times, numbers in player.seen if len(times) == 3]
    assert len(together) == 12
    for env, length in enumerate([3, 4, 5]):
        assert [n[env] for n in together] == slow_numbers(length, skill_steps, 12)


def test_a_skill_is_as_old_after_a_stop_as_before():
    def training() -> Training:
        return training_with("diayn", objective=DIAYNConfig(skill_steps=5))

    first, second = training(), training()
    loop.learn(first)  # 8 steps: the second skill is 3 steps old
    state = first.state_dict()
    games = state["collector"]["envs"]  # tensors, as a checkpoint gives them back
    state["collector"]["envs"] = {name: torch.from_numpy(array) for name, array in games.items()}
    second.load_state_dict(state)
    assert second.collector.followed.time.tolist() == [8, 8]
    assert loop.learn(second) == loop.learn(first)
    skills = [one.collector.rollout.context.argmax(-1) for one in (first, second)]
    assert torch.equal(*skills)
    changes = (skills[0][1:] != skills[0][:-1]).any(1).nonzero().squeeze(1).tolist()
    assert set(changes) <= {1, 6}  # drawn for the steps 10 and 15
    assert changes


def test_evaluation_follows_a_fresh_skill_in_each_episode():
    seen: list[tuple[list[int], list[int]]] = []

    class Player:
        memory = 0

        def act(self, frames: Tensor, context: Tensor, g: Any, *, greedy: bool = False) -> Decision:
            seen.append((frames[:, 0, 0, 0].tolist(), context.argmax(1).tolist()))
            zeros = torch.zeros(len(frames))
            return Decision(zeros.long(), zeros, zeros, zeros[:, None])

    skills = DIAYN(DIAYNConfig(skills=50, skill_steps=0), 256, 5, rng())
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


# --- Skills and states


def second_difference(score: Callable[[Tensor, Tensor], Tensor], states: Tensor) -> float:
    """Mean over pairs of states of |s(o, 0) - s(o', 0) - s(o, 1) + s(o', 1)|."""
    by_skill = [
        score(states, F.one_hot(torch.full((len(states),), z), 2).float()) for z in range(2)
    ]
    gap = by_skill[0] - by_skill[1]
    return float((gap - gap.roll(1)).abs().mean())


def taught(score: Callable[[Tensor, Tensor], Tensor], parameters: Any) -> float:
    """After learning that a skill turns round which action is right in a state."""
    states = torch.randn(64, 256, generator=rng(6)).relu()
    skill = torch.randint(2, (64,), generator=rng(7))
    right = ((states[:, 0] > 0).long() + skill) % 2
    optimiser = torch.optim.Adam(list(parameters), 1e-3)
    for _ in range(200):
        optimiser.zero_grad()
        margin = score(states, F.one_hot(skill, 2).float())
        F.binary_cross_entropy_with_logits(margin, right.float()).backward()
        optimiser.step()
    with torch.no_grad():
        return second_difference(score, states)


@pytest.mark.parametrize("kind", [PPOAgent, DAACAgent])
def test_what_a_skill_does_depends_on_the_state(kind):
    agent = kind((4, 4, 3), 2, encoder="laptop", feature_norm="none", context=2, rng=rng())

    def margin(states: Tensor, context: Tensor) -> Tensor:
        log_probs = agent.log_probs(states, context)
        return log_probs[:, 1] - log_probs[:, 0]

    assert taught(margin, agent.parameters()) > 0.1


def test_a_linear_head_beside_which_the_skill_stands_cannot_learn_that():
    head = torch.nn.Linear(258, 1)

    def margin(states: Tensor, context: Tensor) -> Tensor:
        return head(torch.cat([states, context], dim=1)).squeeze(1)

    assert taught(margin, head.parameters()) < 1e-4


def test_values_depend_on_the_skill_in_each_state():
    agent = PPOAgent((4, 4, 3), 2, encoder="laptop", feature_norm="none", context=2, rng=rng())
    assert taught(lambda *read: agent.heads(*read)[1], agent.parameters()) > 0.1
    daac = DAACAgent((4, 4, 3), 2, encoder="laptop", feature_norm="none", context=2, rng=rng())
    frames = torch.randint(256, (64, 4, 4, 3), generator=rng(8), dtype=torch.uint8)
    with torch.no_grad():
        read = daac.value_encoder(frames)
        assert second_difference(daac.values, read) > 1e-5  # untrained; a bias would give 1e-8
    owned = {id(p) for name, p in daac.named_parameters() if name.startswith(daac.value_network)}
    used = torch.autograd.grad(
        daac.values(daac.value_encoder(frames), torch.eye(2)[torch.arange(64) % 2]).sum(),
        [p for p in daac.parameters() if id(p) not in owned],
        allow_unused=True,
    )
    assert all(gradient is None for gradient in used)  # nothing of the policy network


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


def test_the_reward_is_for_the_skill_followed_in_each_step():
    """Skills change within episodes: the reward of a step is that of its own skill."""
    learner = learner_with(DIAYNConfig(skills=3, skill_steps=2))
    rollout, objective = rollout_for(learner), learner.objective
    steps, envs = rollout.done.shape
    skill = torch.randint(3, (steps + 1, envs), generator=rng(9))
    rollout = rollout._replace(context=F.one_hot(skill, 3).float())
    reward = objective.reward(rollout, rng())
    assert isinstance(objective, DIAYN)
    for t in range(steps):
        for n in range(envs):
            q = objective.discriminator(rollout.features[t, n]).detach().softmax(-1)
            expected = math.log(float(q[skill[t, n]]) * 3)
            assert float(reward[t, n]) == pytest.approx(expected, abs=1e-5)


def test_the_reward_is_recorded_apart_for_fresh_and_for_remembered_episodes():
    """Episodes of three, four and five steps, rollouts of four; the second's ends with each."""
    training = training_with("diayn")
    training.collector = collector_for(0)
    began = {3: 0, 4: 0, 5: 0}  # the step in which the episode of each length began
    for number in range(6):
        rollout = training.collector.collect(Idle())
        reward = torch.randn(rollout.reward.shape, generator=rng(number))
        parts: dict[str, list[float]] = {"fresh": [], "remembered": []}
        for t in range(4):
            for env, length in enumerate(began):
                now = 4 * number + t
                began[length] = now if (now % length) == 0 else began[length]
                part = "fresh" if began[length] >= 4 * number else "remembered"
                parts[part].append(float(reward[t, env]))
        expected = {
            f"intrinsic_reward_{part}": pytest.approx(sum(found) / len(found), abs=1e-6)
            for part, found in parts.items()
            if found
        }
        assert training.by_memory(reward, rollout.done) == expected
        assert ("intrinsic_reward_remembered" in expected) == (number > 0)


# --- One pass with the policy


def jointly(**changes: Any) -> Learner:
    config = small("diayn", order="joint", **changes)
    policy = replace(config.policy, stretch=8, advantages="rollout")
    return learner_for(replace(config, policy=policy))


def test_the_loss_is_the_same_on_the_policys_frames_and_on_its_own():
    learner = jointly()
    rollout = rollout_for(learner)
    assert learner.one_pass
    for minibatch in learner.policy_batches(rollout.done):
        shared = learner.objective.batch(rollout, minibatch, rng())
        features = learner.agent.encoder(rollout.frames()[minibatch.frame])
        skill = rollout.context[:-1].flatten(0, 1)[minibatch.frame].argmax(1)
        assert torch.equal(shared.skill, skill)
        loss, evidence = learner.objective.loss_of(features, shared, rng())
        own = Batch(rollout.frames()[minibatch.frame], skill)
        again, same = learner.objective.loss(learner.live_encode(True), own, rng())
        torch.testing.assert_close(loss, again)
        assert evidence.keys() == same.keys()


@pytest.mark.parametrize("grad", ["none", "rl", "ssl", "both"])
def test_one_pass_moves_exactly_what_it_should(grad):
    learner = jointly(encoder_grad=grad)
    encoder = set() if grad == "none" else {"encoder"}
    before = bits(learner)
    figures = update(learner, rollout_for(learner))
    assert moved(before, bits(learner)) == {"policy", "value", "film", "objective"} | encoder
    assert "skill_accuracy" in figures


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
    first, second = plain("diayn").phases
    assert (first.share, first.extrinsic, first.intrinsic, first.reset) == (0.5, 0.0, 1.0, ())
    assert (second.share, second.extrinsic, second.intrinsic) == (0.5, 1.0, 0.0)
    assert second.objective_weight == 0.0
    assert preset("diayn", "paper").frames == 16_000_000  # 8M for each half
    assert set(second.reset) == {"value", "normaliser"}
    training = training_with("diayn")
    for _ in range(2):
        loop.learn(training)
    discriminator = training.learner.weights()["objective"]
    before = {name: tensor.clone() for name, tensor in discriminator.items()}
    assert loop.learn(training)["phase"] == 2
    assert training.normaliser.count == pytest.approx(16, abs=0.01)  # of this rollout alone
    assert training.intrinsic_normaliser.count == 1e-4
    assert all(torch.equal(before[name], tensor) for name, tensor in discriminator.items())
