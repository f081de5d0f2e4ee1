"""A memory while a run acts, learns, is judged and goes on: against one step at a time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from crosstraj.analysis.embed import Lens
from crosstraj.analysis.play import collect, examiner_for, play
from crosstraj.cli.main import main
from crosstraj.config.methods import METHODS
from crosstraj.config.stored import from_dict, identity, to_dict
from crosstraj.config.values import Config, method_of
from crosstraj.data.collect import Collector
from crosstraj.data.rollout import Decision, Remembered, Rollout
from crosstraj.envs.cue import Cue
from crosstraj.errors import BadInput
from crosstraj.learning.evaluation import Pool, evaluate
from crosstraj.learning.learner import Learner
from crosstraj.learning.load import untrained
from crosstraj.learning.state import Training
from crosstraj.loop import learn
from crosstraj.nn.memory import Frames, Histories
from crosstraj.objectives.base import Nothing
from crosstraj.outside.run import preset
from crosstraj.policies.experience import experience
from crosstraj.randomness import Streams
from crosstraj.report.labels import changed_values
from crosstraj.runs import checkpoint
from tests.helpers import Scripted, rng
from tests.learning import scripted

LENGTHS = (1, 2, 3, 4, 5, 7, 16, 100)  # of episodes: they end at every step of a rollout
STEPS, WIDTH = 12, 6
gymnasium.register("Blink-v0", entry_point=Cue, kwargs={"delay": 2}, disable_env_checker=True)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def config_of(method: str, **values: Any) -> Config:
    """A small run with a memory; `policy.stretch` and so on in `values`."""
    whole: dict[str, Any] = {"memory": "gru", "memory_width": WIDTH, "encoder": "lattice"}
    whole |= {"envs": len(LENGTHS), "rollout_steps": STEPS, "frames": 10**6}
    whole |= {"policy.minibatches": 2, "representation.minibatches": 2, "machine.threads": 1}
    if method == "ctrl":
        whole |= {"objective.clusters": 4, "objective.least_rank": 0.0}
    return preset(method, **whole | values)


def played(config: Config, *, truncate: bool = False) -> tuple[Learner, list[Rollout]]:
    """Two rollouts, of which the second begins amid episodes; weights are the same in both."""
    envs = Scripted(LENGTHS, truncate)
    learner = Learner(config, envs, Streams(0))
    for parameter in learner.agent.parameters():  # as after some training: heads are large, too
        parameter.data.add_(0.3 * torch.randn(parameter.shape, generator=rng(2)))
    agent, cpu = learner.agent, torch.device("cpu")
    objective = learner.objective
    collector = Collector(envs, STEPS, WIDTH, objective, 0, rng(), cpu, agent.memory)
    rollouts = []
    for _ in range(2):
        rollout = collector.collect(agent)
        rollouts.append(Rollout(*(field.clone() for field in rollout)))
    return learner, rollouts


def one_step(encoder: Any, frame: Tensor, h: Tensor) -> Tensor:
    """The equations of a GRU after the features of one frame."""
    cell, x = encoder.cell, encoder.below(frame[None])[0]
    given, kept = cell.weight_ih_l0 @ x + cell.bias_ih_l0, cell.weight_hh_l0 @ h + cell.bias_hh_l0
    (r, z, n), (hr, hz, hn) = given.chunk(3), kept.chunk(3)
    update = torch.sigmoid(z + hz)
    return (1 - update) * torch.tanh(n + torch.sigmoid(r + hr) * hn) + update * h


def slow_beliefs(encoder: Any, rollouts: list[Rollout]) -> list[Tensor]:
    """One environment and one frame at a time, from the first frame on: [S + 1, N, width] each."""
    found = [torch.zeros(STEPS + 1, len(LENGTHS), WIDTH) for _ in rollouts]
    for n in range(len(LENGTHS)):
        h = torch.zeros(WIDTH)
        for rollout, beliefs in zip(rollouts, found, strict=True):
            for t in range(STEPS):
                h = one_step(encoder, rollout.obs[t, n], h)
                beliefs[t, n] = h
                h = torch.zeros(WIDTH) if rollout.done[t, n] else h
            beliefs[STEPS, n] = one_step(encoder, rollout.obs[STEPS, n], h)
    return found


@pytest.mark.parametrize("stretch", [2, 5, 12])
@pytest.mark.parametrize(("method", "burn_in"), [("ppo", 0), ("ppo", 3), ("daac", 0), ("daac", 2)])
@torch.no_grad()
def test_acting_and_learning_see_what_a_slow_loop_sees(method, burn_in, stretch):
    config = config_of(method, memory_burn_in=burn_in, **{"policy.stretch": stretch})
    learner, rollouts = played(config)
    agent: Any = learner.agent
    own = slow_beliefs(agent.encoder, rollouts)
    of_value = slow_beliefs(agent.value_encoder, rollouts) if method == "daac" else own
    for rollout, beliefs, judged in zip(rollouts, own, of_value, strict=True):
        log_probs = agent.policy(beliefs).log_softmax(-1)
        values = agent.value(judged).squeeze(-1)
        taken = log_probs[:-1].gather(-1, rollout.action[..., None]).squeeze(-1)
        assert taken.std() > 0.05  # there is something to be wrong about
        torch.testing.assert_close(rollout.features, beliefs, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(rollout.log_prob, taken, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(rollout.value, values, atol=1e-5, rtol=1e-4)
        features_of, piece = learner.feature_reader(rollout, Averages(), moved=False)
        seen = []
        for minibatch in learner.policy_batches(rollout.done, 1):
            assert len(minibatch.frame) <= piece  # a stretch is never cut by pieces
            now = agent.log_probs(
                features_of(minibatch.frame), torch.zeros(len(minibatch.frame), 0)
            )
            expected = log_probs[:-1].flatten(0, 1)[minibatch.frame]
            torch.testing.assert_close(now, expected, atol=1e-5, rtol=1e-4)
            seen.append(minibatch.frame)
        assert torch.cat(seen).sort().values.tolist() == list(range(STEPS * len(LENGTHS)))
        if method == "daac":
            encode = learner.stepwise_encode(agent.value_encoder, live=True)
            now = agent.values(encode(rollout.frames()), torch.zeros(len(seen), 0))
            torch.testing.assert_close(now, values[:-1].flatten(), atol=1e-5, rtol=1e-4)


class Averages:
    """Takes figures, and forgets them."""

    def add(self, **figures: Tensor) -> None: ...


@torch.no_grad()
def test_where_time_runs_out_the_true_last_frame_is_judged_with_what_came_before_it():
    learner, (first, _) = played(config_of("ppo"), truncate=True)
    agent: Any = learner.agent
    for n, length in enumerate(LENGTHS[:-2]):
        h = torch.zeros(WIDTH)
        for age in range(length + 1):  # a frame shows the age of its episode, the last one, too
            h = one_step(agent.encoder, torch.full((2, 2, 1), age, dtype=torch.uint8), h)
        ends = first.done[:, n]
        assert ends.sum() == STEPS // length
        expected = torch.where(ends, agent.value(h), torch.zeros(()))
        torch.testing.assert_close(first.final_value[:, n], expected, atol=1e-5, rtol=1e-4)


def test_the_gradient_is_that_of_the_unrolled_loop_whatever_the_pieces():
    gradients = []
    for piece in (5, 128):
        values = {"policy.stretch": STEPS, "policy.minibatches": 1, "machine.piece": piece}
        learner, (_, rollout) = played(config_of("ppo", **values))
        agent: Any = learner.agent
        steps = experience(rollout, rollout.reward, learner.config.policy)
        features_of, at_a_time = learner.feature_reader(rollout, Averages(), moved=False)
        index = torch.arange(STEPS * len(LENGTHS))
        learner.policy.backward(features_of, steps, index, at_a_time)
        gradients.append({name: p.grad.clone() for name, p in agent.named_parameters()})
    rows = []
    for n in range(len(LENGTHS)):
        h, row = rollout.memory[0, n], []
        for t in range(STEPS):
            h = one_step(agent.encoder, rollout.obs[t, n], h)
            row.append(h)
            h = torch.zeros(WIDTH) if rollout.done[t, n] else h
        rows.append(torch.stack(row))
    agent.zero_grad()
    beliefs = torch.stack(rows, dim=1).flatten(0, 1)
    learner.policy.loss(beliefs, learner.policy.chosen(steps, index))[0].backward()
    for name, parameter in agent.named_parameters():
        assert parameter.grad.abs().sum() > 0
        for found in gradients:
            torch.testing.assert_close(found[name], parameter.grad, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_every_objective_learns_on_the_belief_or_refuses_in_a_sentence(method):
    kind = method_of(method).objective
    if kind.why_no_memory or method == "ppg":  # whose policy has a reason of its own
        with pytest.raises(BadInput, match=f"method={method} cannot learn on the belief of memory"):
            config_of(method)
        return
    whole = {"policy.minibatches": 1, "representation.minibatches": 1}
    config = config_of(method, rollout_steps=32, **whole)
    if method == "ctrl":  # with a target network, which has a memory, too
        config = replace(config, objective=replace(config.objective, target_decay=0.9))
    learner = Learner(config, Scripted(LENGTHS), Streams(0))
    agent, objective = learner.agent, learner.objective
    agent.policy.weight.data.mul_(100)  # else it is so uniform that what it remembers is rounding
    at = Scripted(LENGTHS), 32, WIDTH, objective, 0, rng(), torch.device("cpu"), agent.memory
    rollout = Collector(*at).collect(agent)
    before = {name: p.detach().clone() for name, p in agent.named_parameters()}
    figures = learner.update(rollout, experience(rollout, rollout.reward, config.policy))
    assert all(np.isfinite(list(figures.values())))
    assert "level_variance_untrained" not in figures
    assert figures["memory_kl"] > 0
    for name, parameter in agent.named_parameters():
        if ".cell." in name:
            assert not torch.equal(parameter, before[name]), name
    if kind is Nothing:
        return
    assert figures["objective_loss"] != 0
    for batch in learner.objective_batches(rollout, 1):  # its own gradient reaches the memory
        agent.zero_grad()
        objective.loss(learner.live_encode(True), batch, rng())[0].backward()
        assert agent.encoder.cell.weight_hh_l0.grad.abs().sum() > 0


def test_the_memory_of_the_encoder_is_trained_by_whom_the_encoder_is_trained_by():
    for grad, moves in (("none", False), ("rl", True), ("ssl", True)):
        config = config_of("ctrl", rollout_steps=32, encoder_grad=grad)
        learner = Learner(config, Scripted(LENGTHS), Streams(0))
        at = Scripted(LENGTHS), 32, WIDTH, learner.objective, 0, rng(), torch.device("cpu"), WIDTH
        rollout = Collector(*at).collect(learner.agent)
        before = learner.agent.encoder.cell.weight_hh_l0.detach().clone()
        learner.update(rollout, experience(rollout, rollout.reward, config.policy))
        assert torch.equal(before, learner.agent.encoder.cell.weight_hh_l0) is not moves


@torch.no_grad()
def test_the_worth_of_a_memory_is_how_far_the_policy_is_from_one_that_has_forgotten():
    learner, (_, rollout) = played(config_of("ppo", memory_burn_in=3))
    agent: Any = learner.agent
    alone = torch.stack(
        [one_step(agent.encoder, f, torch.zeros(WIDTH)) for f in rollout.obs[:-1].flatten(0, 1)]
    )
    now, then = (
        agent.policy(b).log_softmax(-1) for b in (rollout.features[:-1].flatten(0, 1), alone)
    )
    chosen = torch.randperm(len(now), generator=rng(0))[:128]  # as the learner samples them
    expected = (now.exp() * (now - then)).sum(-1)[chosen].mean()
    found = learner.worth_of_memory(rollout)["memory_kl"]
    assert found > 1e-3
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_how_far_the_policy_moves_is_seen_through_the_steps_of_a_stretch():
    learner, (_, rollout) = played(config_of("ppo", **{"policy.stretch": 4}))
    agent: Any = learner.agent
    agent.encoder.cell.weight_hh_l0.mul_(3)  # what is remembered is another thing now
    places = rollout.places(24, 4)
    assert (places // len(LENGTHS)).tolist() == [0, 1, 2, 3] * 6
    carried, alone = [], []
    for place in rollout.places(128, 4).tolist():  # of all environments
        t, n = divmod(place, len(LENGTHS))
        frame, stored = rollout.obs[t, n], rollout.memory[t, n]
        before = carried[-1] if t else stored
        before = torch.zeros(WIDTH) if t and rollout.done[t - 1, n] else before
        carried.append(one_step(agent.encoder, frame, before))
        alone.append(one_step(agent.encoder, frame, stored))
    expected, short = (agent.policy(torch.stack(b)).log_softmax(-1) for b in (carried, alone))
    torch.testing.assert_close(learner.opinions(rollout), expected, atol=1e-5, rtol=1e-4)
    assert (expected - short).abs().max() > 1e-3  # as it was seen of single steps


# --- Stop, and judge


@pytest.mark.parametrize("values", [{"method": "ppo"}, {"method": "ctrl", "policy.kind": "daac"}])
def test_a_run_stopped_amid_episodes_goes_on_to_the_bit(values, tmp_path: Path):
    levels = {"env": "Blink-v0", "gymnasium.train_levels": 9, "rollout_steps": 18, "frame_stack": 2}
    config = config_of(**values | levels)
    whole, stopped, resumed = (Training(config) for _ in range(3))
    rows = [learn(whole) for _ in range(3)]
    learn(stopped)
    assert stopped.collector.remembered.state.abs().sum(1).gt(0).any()  # amid episodes
    path = checkpoint.write(tmp_path, 1, stopped.state_dict(), {})
    resumed.load_state_dict(checkpoint.read(path)[0])
    assert [learn(resumed), learn(resumed)] == rows[1:]
    for name, weight in whole.learner.flat_weights().items():
        assert torch.equal(weight, resumed.learner.flat_weights()[name]), name
    assert torch.equal(whole.collector.remembered.state, resumed.collector.remembered.state)


class Counting:
    """Remembers how many frames of an episode it has seen, and holds that against the frames."""

    memory = 1

    def __init__(self) -> None:
        self.shown = 0

    def act(
        self, frames: Frames, context: Tensor, rng: torch.Generator, *, greedy: bool = False
    ) -> Decision:
        assert isinstance(frames, Histories)
        assert frames.memory[:, 0].tolist() == frames.frames[:, 0, 2, 0].tolist()
        self.shown += len(frames)
        zeros = torch.zeros(len(frames))
        return Decision(zeros.long(), zeros, zeros, zeros[:, None], frames.memory + 1)


SCRIPT = [[1, 4], [3], [2, 5, 1], [6]]  # lengths of the episodes of each environment


def test_evaluation_never_carries_a_memory_into_another_episode():
    pool, player = Pool(scripted.Scripted(SCRIPT), 0), Counting()
    for _ in range(2):  # nor into the next evaluation
        records = evaluate(pool, player, scripted.NO_SKILLS, 12, rng())
        assert [r.length for r in records] == [1, 4, 1, 3, 3, 3, 2, 5, 1, 6, 6, 6]
    assert player.shown == 2 * 41


def test_views_of_an_analysis_hold_what_was_remembered_before_each_frame():
    film = np.zeros((9, 2, scripted.SIDE, scripted.SIDE, 1), np.uint8)
    views = play(
        Pool(scripted.Scripted(SCRIPT), 0),
        Counting(),
        scripted.NO_SKILLS,
        film,
        span=2,
        rng=rng(),
        draws=np.random.default_rng(0),
    )
    assert len(views) == 9
    for view in views:
        assert [float(memory[0]) for memory in view.memory] == [at[0] for at in view.points]


def test_an_analysis_reads_the_beliefs_that_the_policy_acted_on(tmp_path: Path):
    config = config_of("ctrl", env="Blink-v0", **{"gymnasium.train_levels": 9})
    trained = untrained(config)
    views = collect(
        examiner_for(config, 20, 2), trained.agent, trained.objective, 40, keypoints=2, span=2
    )
    features, seen = Lens(tmp_path, trained, 0).features(views, lambda count: None)
    assert torch.equal(features.flatten(0, 1), seen)
    assert np.abs(views.memory[:, 1]).min() > 0  # something was remembered before the second
    values = trained.agent.value(features[:, 0]).squeeze(-1).detach().numpy()
    np.testing.assert_allclose(values, views.value, atol=1e-5)


def test_what_is_remembered_is_forgotten_where_an_episode_ends_and_nowhere_else():
    remembered, frames = Remembered(2, 3), torch.zeros(3, 4, 4, 1, dtype=torch.uint8)
    zeros = torch.zeros(3)
    decision = Decision(
        zeros.long(), zeros, zeros, zeros[:, None], torch.arange(6.0).view(3, 2) + 1
    )
    remembered.keep(decision)
    remembered.forget(torch.tensor([False, True, False]))
    seen = remembered.before(frames)
    assert isinstance(seen, Histories)
    assert seen.memory.tolist() == [[1, 2], [0, 0], [5, 6]]
    assert Remembered(0, 3).before(frames) is frames


# --- What it is for


def test_only_a_memory_solves_a_task_whose_cue_is_gone_when_the_choice_comes():
    def mean_return(**values: Any) -> float:
        whole: dict[str, Any] = {"env": "Blink-v0", "encoder": "lattice", "frames": 10**6}
        whole |= {"envs": 16, "rollout_steps": 32, "policy.minibatches": 2, "policy.epochs": 3}
        whole |= {"policy.learning_rate": 2e-3, "policy.discount": 0.9, "machine.threads": 1}
        training = Training(preset("ppo", **whole | values))
        return [learn(training) for _ in range(20)][-1]["train_return"]

    assert mean_return(memory="gru", memory_width=32) > 0.9
    assert 0.3 < mean_return() < 0.7  # a hundred episodes: chance is .5, give or take .05


# --- Values


def test_a_memory_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, sentence in (
        (["--policy.stretch", "0"], "memory=gru learns through consecutive steps, but policy"),
        (["--method", "spr"], "method=spr cannot learn on the belief of memory=gru: it imagines"),
        (
            ["--split-at", "conv", "--encoder-grad", "ssl"],
            "memory=gru reads features, but split_at",
        ),
        (["--memory-width", "0"], "memory_width=0: must be"),
        (
            ["--memory", "none", "--memory-burn-in", "4"],
            "memory_burn_in=4 is a memory's, and memory",
        ),
        (
            ["--procgen.mode", "memory"],
            "procgen.mode=memory is not for bigfish: only caveflyer, dod",
        ),
    ):
        assert main(["train", "--method", "ctrl", "--memory", "gru", *words]) == 2
        said = capsys.readouterr().err.strip()
        assert sentence in said
        assert len(said.splitlines()) == 1


def test_a_run_without_a_memory_is_stored_and_told_apart_as_if_there_were_none() -> None:
    plain, other = preset("ppo"), preset("ppo", memory="gru", memory_width=64)
    assert not [name for name in to_dict(plain) if name.startswith("memory")]
    assert from_dict(to_dict(plain)) == plain
    assert from_dict(to_dict(other)) == other
    assert (other.policy.stretch, other.policy.advantages, other.features) == (32, "rollout", 64)
    assert identity(plain) != identity(other) != identity(replace(other, memory_width=65))


def test_a_report_names_the_memory_and_not_what_comes_with_it() -> None:
    other = preset("ppo", memory="gru", memory_width=64)
    assert changed_values(to_dict(other)) == {"memory": "gru", "memory_width": 64}
