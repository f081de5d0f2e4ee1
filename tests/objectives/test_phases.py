"""Phases: they begin at the right frame, route and reset what they say, and survive any stop."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosstraj import loop
from crosstraj.cli.main import main
from crosstraj.config.presets import plain
from crosstraj.config.stored import from_dict, to_dict
from crosstraj.errors import BadInput
from crosstraj.learning.optimiser import Averages
from crosstraj.learning.state import Training
from crosstraj.learning.watch import Watch
from crosstraj.objectives.phases import Phase, beginnings, check_phases, in_words, phase_at
from crosstraj.runs.log import Log, read_rows
from tests.conftest import TINY
from tests.helpers import only, remains
from tests.objectives.every_method import bits, learner_for, moved, rollout_for, small
from tests.objectives.phased import training_with

HALVES = (Phase(0.5), Phase(0.5))


# --- When


@pytest.mark.parametrize(
    ("shares", "budget", "expected"),
    [
        ((1.0,), 7, [0]),
        ((0.5, 0.5), 16_000_000, [0, 8_000_000]),
        ((0.5, 0.5), 1001, [0, 501]),  # 500.5: the rollout at 500 is still of the first half
        ((0.1, 0.2, 0.7), 1000, [0, 100, 300]),  # in floats .1 + .2 > .3
        ((1.0, 1.0, 1.0), 100, [0, 34, 67]),
        ((3.0, 1.0), 400, [0, 300]),
    ],
)
def test_phases_begin_where_their_part_of_the_budget_begins(shares, budget, expected):
    assert beginnings([Phase(share) for share in shares], budget) == expected


@pytest.mark.parametrize("budget", [65, 100, 128, 129, 151, 160, 161, 191, 192, 193, 1023])
def test_a_rollout_belongs_to_the_phase_in_which_it_starts(budget):
    """Beside a loop over single frames, for budgets that are no multiple of 32-frame rollouts."""
    check_phases(HALVES, budget, 32)
    frames, phases = 0, []
    while frames < budget:
        phases.append(phase_at(HALVES, frames, budget))
        frames += 32
    first_of_second = next(frame for frame in range(budget) if frame * 2 >= budget)
    slow = [1 if start >= first_of_second else 0 for start in range(0, budget, 32)]
    assert phases == slow
    assert phases == sorted(phases)
    assert set(phases) == {0, 1}


@pytest.mark.parametrize("budget", [1, 32, 63, 64])
def test_a_budget_that_leaves_a_phase_without_a_rollout_is_refused(budget):
    if budget == 64:
        check_phases(HALVES, budget, 32)
    else:
        with pytest.raises(BadInput, match=f"frames={budget} is too little"):
            check_phases(HALVES, budget, 64 if budget == 63 else 32)
    check_phases((Phase(),), 1, 32)  # one phase is always there


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"share": 0.0}, "share=0.0"),
        ({"share": float("nan")}, "share=nan"),
        ({"objective_weight": -1.0}, "objective_weight=-1.0"),
        ({"intrinsic": float("inf")}, "intrinsic=inf"),
    ],
)
def test_nonsense_is_refused(values, words):
    with pytest.raises(BadInput, match=words):
        Phase(**values)


def test_a_reward_that_the_objective_does_not_have_is_refused():
    phases = (Phase(intrinsic=1.0),)
    with pytest.raises(BadInput, match="intrinsic"):
        replace(plain("ctrl"), phases=phases)


@pytest.mark.parametrize("frames", [33, 47, 48, 49])
def test_the_loop_changes_phase_at_the_frame_that_the_budget_says(frames):
    training = training_with("ppo", *HALVES, frames=frames)
    seen = {}
    while training.frames < frames:
        start = training.frames
        seen[start] = loop.learn(training)["phase"]
    assert seen == {start: 1 if start * 2 < frames else 2 for start in range(0, frames, 16)}


def test_a_run_without_phases_does_not_speak_of_them():
    assert "phase" not in loop.learn(training_with("ppo"))


# --- What


def moments(training: Training) -> dict[str, dict[str, Any]]:
    """Adam's moments by optimiser and parameter, as copies."""
    state = training.learner.state_dict()
    return {
        name: {
            key: {k: v.clone() for k, v in moment.items()}
            for key, moment in optimiser.items()
            if moment
        }
        for name, optimiser in state.items()
        if name.endswith("optimiser")
    }


def equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(
        equal(a[key], b[key]) if isinstance(a[key], dict) else torch.equal(a[key], b[key])
        for key in a
    )


def test_a_phase_that_resets_nothing_changes_nothing_but_the_number():
    training = training_with("ctrl", Phase(), Phase(), encoder_grad="both")
    for _ in range(2):
        loop.learn(training)
    before = bits(training.learner), moments(training), training.normaliser.state_dict()
    streams = training.streams.state_dict()
    assert training.begin_phase() == {"phase": 2}
    assert bits(training.learner) == before[0]
    assert equal(moments(training), before[1])
    assert training.normaliser.variance == before[2]["variance"] != 1.0
    assert equal(training.streams.state_dict(), streams)


def test_the_value_head_begins_anew_and_nothing_else_does():
    training = training_with("ctrl", Phase(), Phase(reset=("value",)), encoder_grad="both")
    for _ in range(2):
        loop.learn(training)
    before, kept = bits(training.learner), moments(training)
    spread = training.normaliser.variance
    training.begin_phase()
    assert moved(before, bits(training.learner)) == {"value"}
    weight, bias = training.learner.agent.value.weight, training.learner.agent.value.bias
    assert float(weight.detach().norm()) == pytest.approx(1.0, rel=1e-4)  # orthogonal, gain 1
    assert bias.tolist() == [0.0]
    for name in ("value.weight", "value.bias"):
        del kept["policy_optimiser"][name]
    assert equal(moments(training), kept)
    assert training.normaliser.variance == spread
    # Once is enough: the next rollouts of this phase keep what has been learnt.
    loop.learn(training)
    before = bits(training.learner)
    training.begin_phase()
    assert bits(training.learner) == before


def test_the_normalisers_begin_anew_and_nothing_else_does():
    training = training_with("ctrl", Phase(), Phase(reset=("normaliser",)))
    for _ in range(2):
        loop.learn(training)
    assert training.normaliser.count > 30
    before, kept = bits(training.learner), moments(training)
    training.begin_phase()
    for normaliser in (training.normaliser, training.intrinsic_normaliser):
        assert (normaliser.mean, normaliser.variance, normaliser.count) == (0.0, 1.0, 1e-4)
        assert not normaliser.returns.any()
    assert bits(training.learner) == before
    assert equal(moments(training), kept)


def test_an_encoder_that_nobody_trains_is_frozen_and_the_heads_keep_their_moments():
    training = training_with("ctrl", Phase(), Phase(encoder_grad="none"), encoder_grad="both")
    for _ in range(2):
        loop.learn(training)
    kept = moments(training)
    training.begin_phase()
    after = moments(training)
    for name in ("policy_optimiser", "objective_optimiser"):
        frozen = {key for key in kept[name] if key.startswith("encoder.")}
        assert frozen
        assert equal(after[name], {k: m for k, m in kept[name].items() if k not in frozen})
    before = bits(training.learner)
    for _ in range(2):
        loop.learn(training)
    assert moved(before, bits(training.learner)) == {"policy", "value", "objective"}


def test_an_objective_of_weight_0_rests_and_does_not_drift_on_old_moments():
    phases = (Phase(), Phase(objective_weight=0.0))
    for grad, expected in (("both", {"encoder", "policy", "value"}), ("ssl", {"policy", "value"})):
        training = training_with("ctrl", *phases, encoder_grad=grad)
        for _ in range(2):
            loop.learn(training)
        before = bits(training.learner)
        metrics = loop.learn(training)
        assert moved(before, bits(training.learner)) == expected
        assert "objective_loss" not in metrics


@pytest.mark.parametrize("order", ["objective", "joint"])
def test_the_weight_of_an_objective_weighs_its_gradient(order):
    def gradient(weight: float) -> torch.Tensor:
        config = small("ctrl", encoder_grad="ssl", order=order)
        learner = learner_for(replace(config, phases=(Phase(objective_weight=weight),)))
        (batch, *_) = learner.objective_batches(rollout_for(learner), 1)
        learner.objective_backward(batch, Averages())
        found = learner.agent.encoder.last.weight.grad
        assert found is not None
        return found

    torch.testing.assert_close(gradient(0.25), 0.25 * gradient(1.0))


@pytest.mark.parametrize(("extrinsic", "intrinsic"), [(1.0, 0.0), (0.0, 1.0), (1.0, 0.2)])
def test_rewards_are_scaled_apart_and_then_weighed(extrinsic, intrinsic):
    training = training_with("diayn", Phase(extrinsic=extrinsic, intrinsic=intrinsic))
    rollout = training.collector.collect(training.learner.agent)
    g = torch.Generator().manual_seed(0)
    rollout = rollout._replace(reward=50 * torch.randn(rollout.reward.shape, generator=g))
    own = torch.randn(rollout.reward.shape, generator=g)
    training.learner.objective.reward = lambda *_: own  # type: ignore[method-assign]

    def slow(raw: torch.Tensor) -> torch.Tensor:
        """Each reward over the spread of all discounted returns so far (count 1e-4, variance 1)."""
        returns, seen, scaled = np.zeros(2), [], []
        for reward, done in zip(raw.double().numpy(), rollout.done.numpy(), strict=True):
            returns = 0.99 * returns + reward
            seen.extend(returns)
            scaled.append((reward / np.sqrt(np.var(seen))).clip(-10, 10))
            returns = returns * ~done
        return torch.from_numpy(np.stack(scaled)).float()

    expected = extrinsic * slow(rollout.reward) + intrinsic * slow(own)
    reward, figures = training.reward(rollout)
    torch.testing.assert_close(reward, expected, rtol=0.02, atol=0.02)
    names = {"intrinsic_reward", "intrinsic_reward_fresh"}  # no episode is older than the run
    assert figures == {name: float(own.mean()) for name in names if intrinsic}


def test_a_phase_is_said_in_words_once():
    config = replace(plain("ctrl"), phases=(Phase(), Phase(0.5, "none", reset=("value",))))
    watch = Watch(config)
    (first,) = watch.news({"phase": 1})
    assert first.startswith("phase 1 of 2: objective weight 1")
    assert watch.news({"phase": 1}) == []
    assert watch.news({"phase": 2}) == [in_words(config.phases, 1)]
    assert "encoder_grad none" in in_words(config.phases, 1)
    assert "reset value" in in_words(config.phases, 1)


# --- Through any stop

# Four updates of 256 frames; the second half begins at 512, where the agent is also examined.
COMMAND = ("train", "--method", "diayn", *TINY, "--frames", "1024", "--evaluation.every", "512")
COMMAND += (
    "--objective.skills",
    "4",
    "--objective.skill-steps",
    "7",
    "--saving.checkpoint-seconds",
    "0",
)
COMMAND += ("--machine.threads", "1")


class Killed(BaseException):
    """Ends a run without a word, as a signal that cannot be caught does."""


@pytest.fixture
def after_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """Do something after so many rows of metrics, once."""
    write = Log.write

    def arm(rows: int, act: Callable[[], None]) -> None:
        left = iter([False] * (rows - 1) + [True])

        def watching_write(log: Log, row: dict[str, Any]) -> None:
            write(log, row)
            if log.path.name == "metrics.jsonl" and next(left, False):
                act()

        monkeypatch.setattr(Log, "write", watching_write)

    return arm


def kill() -> None:
    raise Killed


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("straight")
    assert main([*COMMAND, "--saving.runs", str(runs)]) == 0
    return only(runs)


def test_the_log_tells_the_phase_of_each_update(straight):
    rows = [row for row in read_rows(straight / "metrics.jsonl") if row["row"] == "update"]
    assert [(row["frames"], row["phase"]) for row in rows] == [
        (256, 1),
        (512, 1),
        (768, 2),
        (1024, 2),
    ]
    assert ["skill_accuracy" in row for row in rows] == [True, True, False, False]


def test_a_run_killed_at_the_boundary_ends_with_the_same_bytes(straight, tmp_path, after_rows):
    """Rows: 256, 512, examined at 512, 768 (the first of the second half), 1024, examined."""
    after_rows(2, kill)  # 512 is written, not saved: the last update of the first half again
    with pytest.raises(Killed):
        main([*COMMAND, "--saving.runs", str(tmp_path)])
    after_rows(3, kill)  # 512, examined, 768: saved exactly at the boundary, killed beyond it
    with pytest.raises(Killed):
        main([*COMMAND, "--saving.runs", str(tmp_path)])
    after_rows(2, terminate)  # examined again, 768: saved inside the second half
    assert main([*COMMAND, "--saving.runs", str(tmp_path)]) == 128 + signal.SIGTERM
    assert main([*COMMAND, "--saving.runs", str(tmp_path)]) == 0
    assert remains(only(tmp_path)) == remains(straight)


def test_a_state_of_the_second_phase_loads_into_a_fresh_training_without_a_reset():
    phases = (Phase(), Phase(encoder_grad="none", reset=("value", "normaliser")))
    first = training_with("ctrl", *phases, encoder_grad="both")
    for _ in range(3):
        loop.learn(first)
    second = training_with("ctrl", *phases, encoder_grad="both")
    state = first.state_dict()
    games = state["collector"]["envs"]  # tensors, as a checkpoint gives them back
    state["collector"]["envs"] = {name: torch.from_numpy(array) for name, array in games.items()}
    second.load_state_dict(state)
    assert second.phase == 1
    assert bits(second.learner) == bits(first.learner)
    assert equal(moments(second), moments(first))
    assert loop.learn(second) == loop.learn(first)
    assert bits(second.learner) == bits(first.learner)


@pytest.mark.parametrize("frames", ["2048", "700"])
def test_another_budget_for_a_run_with_phases_is_refused(straight, tmp_path, capfd, frames):
    run = tmp_path / straight.name
    shutil.copytree(straight, run)
    capfd.readouterr()
    assert main([*COMMAND, "--frames", frames, "--saving.runs", str(tmp_path)]) == 2
    said = capfd.readouterr().err
    assert f"frames={frames}" in said
    assert "begun with 1024" in said
    assert json.loads((run / "config.json").read_text())["config"]["frames"] == 1024
    assert remains(run) == remains(straight)


def test_a_finished_run_with_phases_does_not_promise_to_be_extended(straight, tmp_path, capfd):
    shutil.copytree(straight, tmp_path / straight.name)
    capfd.readouterr()
    assert main([*COMMAND, "--saving.runs", str(tmp_path)]) == 0
    said = capfd.readouterr().err
    assert "is done" in said
    assert "extend" not in said


def test_phases_can_be_changed_on_the_command_line(tmp_path):
    from crosstraj.learning.load import read_config

    more = ("--phases.0.share", "1", "--phases.1.share", "3", "--phases.1.encoder-grad", "none")
    assert main([*COMMAND, *more, "--saving.runs", str(tmp_path)]) == 0
    run = only(tmp_path)
    assert [phase.share for phase in read_config(run).phases] == [1.0, 3.0]
    rows = [row for row in read_rows(run / "metrics.jsonl") if row["row"] == "update"]
    assert [row["phase"] for row in rows] == [1, 2, 2, 2]


def test_a_configuration_with_phases_survives_json():
    config = replace(plain("ctrl"), phases=(Phase(0.3), Phase(0.7, "none", 0.0)))
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config
