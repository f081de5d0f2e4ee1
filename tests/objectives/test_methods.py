"""Every method before the same questions. A new method adds a row to every_method.py."""

import math
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crosstraj import objectives
from crosstraj.cli.main import main
from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.presets import plain, preset
from crosstraj.config.stored import from_dict, to_dict
from crosstraj.config.values import POLICIES, method_of
from crosstraj.errors import BadInput
from crosstraj.learning.optimiser import Averages
from crosstraj.objectives import NoObjective
from crosstraj.policies.experience import experience
from crosstraj.runs.log import Log, read_rows
from tests.conftest import TINY
from tests.helpers import only, remains, slow_fragments
from tests.objectives.every_method import (
    ENVS,
    OBJECTIVES,
    ROWS,
    STEPS,
    bits,
    heads_of,
    learner_for,
    moved,
    rollout_for,
    row_of,
    small,
    update,
)


def test_every_method_is_asked():
    assert set(ROWS) == set(METHODS)


def test_a_line_of_the_registry_is_a_file_that_ends_in_its_method():
    files = Path(objectives.__file__).parent.glob("*.py")
    ends = {path.stem for path in files if "\nMETHOD = Method(" in path.read_text()}
    assert ends == METHODS.keys() - POLICIES.keys()
    assert all(method_of(name).name == name for name in ends)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_a_configuration_survives_json(method, name):
    config = preset(method, name)
    assert from_dict(to_dict(config)) == config
    assert isinstance(config.objective, NoObjective) == (ROWS[method] is None)


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [(method, *pair) for method in OBJECTIVES for pair in row_of(method).nonsense],
)
def test_nonsense_is_refused_by_its_name_and_value(method, name, value):
    config = plain(method)
    with pytest.raises(BadInput, match=re.escape(f"objective.{name}={value}")):
        replace(config, objective=replace(config.objective, **{name: value}))


# --- The loss


@pytest.mark.parametrize("method", OBJECTIVES)
def test_the_loss_is_finite_on_random_frames(method):
    learner = learner_for(small(method))
    batches = list(learner.objective_batches(rollout_for(learner), 1))
    assert len(batches) == 2
    for batch in batches:
        averages = Averages()
        learner.objective_backward(batch, averages)
        assert averages.numbers()  # which refuses what is not finite


@pytest.mark.parametrize("method", OBJECTIVES)
def test_its_excess_over_the_floor_falls_by_a_fifth_in_fifty_steps(method):
    config = small(method, encoder_grad="ssl", order="objective")
    if row_of(method).game:
        rate = replace(config.representation, learning_rate=5e-3)
        config = replace(config, encoder_grad="none", representation=rate)
    learner = learner_for(config, side=8)
    (batch, *_) = learner.objective_batches(rollout_for(learner, side=8), 1)
    excess, draws = [], learner.streams.objective.get_state()
    for _ in range(51):
        learner.streams.objective.set_state(draws)  # the same loss each time
        averages = Averages()
        learner.objective_optimiser.zero()
        learner.objective_backward(batch, averages)
        seen = averages.numbers()
        excess.append(seen["objective_loss"] - row_of(method).floor(seen))
        learner.objective_optimiser.step()
        learner.objective.after_step(learner.agent.encoder)
    assert min(excess) >= -1e-4  # it is a floor
    assert excess[-1] < 0.8 * excess[0]
    assert row_of(method).alive(seen)


# --- Where gradients go


@pytest.mark.parametrize("grad", ["none", "rl", "ssl", "both"])
@pytest.mark.parametrize("method", METHODS)
def test_each_update_moves_exactly_what_it_should(method, grad):
    learner = learner_for(small(method, encoder_grad=grad, order="objective"))
    rollout = rollout_for(learner)
    steps = experience(rollout, rollout.reward, learner.config.policy)
    by_policy = heads_of(learner) | ({"encoder"} if grad in ("rl", "both") else set())
    by_objective = {"objective"} | ({"encoder"} if grad in ("ssl", "both") else set())
    for _ in range(2):  # again, now that both optimisers have moments that could push
        start = bits(learner)
        learner.update_policy(rollout, steps, moved=False)
        middle = bits(learner)
        assert moved(start, middle) == by_policy
        learner.update_objective(rollout)
        expected = by_objective if method in OBJECTIVES else set()
        assert moved(middle, bits(learner)) == expected


@pytest.mark.parametrize("grad", ["none", "rl", "ssl", "both"])
@pytest.mark.parametrize("method", OBJECTIVES)
def test_all_that_an_objective_owns_learns_whoever_trains_the_encoder(method, grad):
    learner = learner_for(small(method, encoder_grad=grad, order="objective"))
    own = {k: p for k, p in learner.objective.named_parameters() if p.requires_grad}
    before = {name: parameter.detach().clone() for name, parameter in own.items()}
    learner.update_objective(rollout_for(learner))
    assert not [name for name in own if torch.equal(own[name], before[name])]


@pytest.mark.parametrize("grad", ["none", "rl", "ssl", "both"])
@pytest.mark.parametrize("method", METHODS)
def test_a_joint_step_moves_the_encoder_whenever_anybody_trains_it(method, grad):
    learner = learner_for(small(method, encoder_grad=grad, order="joint"))
    rollout = rollout_for(learner)
    before = bits(learner)
    update(learner, rollout)
    expected = {name for name in before if name not in ("encoder", "top", "objective")}
    expected |= {"objective"} if method in OBJECTIVES else set()
    trained = grad in ("rl", "both") or (grad == "ssl" and method in OBJECTIVES)
    assert moved(before, bits(learner)) == expected | ({"encoder"} if trained else set())


# --- Episode ends


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", OBJECTIVES)
def test_nothing_crosses_an_episodes_end(method, seed):
    learner = learner_for(small(method))
    done = torch.rand(STEPS, ENVS, generator=torch.Generator().manual_seed(seed)) < 0.15
    home = {frame: i for i, frames in enumerate(slow_fragments(done)) for frame in frames}
    number = torch.arange((STEPS + 1) * ENVS, dtype=torch.uint8).view(STEPS + 1, ENVS, 1, 1, 1)
    rollout = rollout_for(learner, done=done)
    rollout = rollout._replace(obs=number.expand(-1, -1, 4, 4, 3).contiguous())
    tied = 0
    for batch in learner.objective_batches(rollout, 3):
        frame = batch.frames[:, 0, 0, 0].long()  # a frame shows its number t * N + n
        if hasattr(batch, "action"):
            assert torch.equal(batch.action, rollout.action.flatten()[frame])
        if (ties := row_of(method).ties(batch)) is None:
            continue
        for first, second in frame[ties].tolist():
            assert home[first] == home[second]
            assert first != second
            tied += 1
    assert tied > 50 or row_of(method).ties(batch) is None


@pytest.mark.parametrize("method", METHODS)
def test_episodes_of_one_step_leave_nothing_to_tie_and_do_no_harm(method):
    learner = learner_for(small(method))
    done = torch.ones(STEPS, ENVS, dtype=torch.bool)
    for batch in learner.objective_batches(rollout_for(learner, done=done), 1):
        ties = row_of(method).ties(batch)
        assert ties is None or len(ties) == 0
    assert update(learner, rollout_for(learner, done=done))


# --- Exactness


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_bits_other_seed_other_bits(method):
    torch.set_num_threads(2)  # which may add in no fixed order

    def result(seed: int) -> dict[str, bytes]:
        learner = learner_for(small(method, seed=seed))
        update(learner, rollout_for(learner))
        return bits(learner)

    first = result(0)
    assert result(0) == first
    assert {"encoder", "policy"} <= moved(first, result(1))


@pytest.mark.parametrize("method", METHODS)
def test_state_round_trips_through_a_fresh_learner(method):
    first = learner_for(small(method))
    rollout = rollout_for(first)
    update(first, rollout)
    second = learner_for(small(method, seed=1))
    second.load_weights(first.weights())
    second.load_state_dict(first.state_dict())
    second.streams.load_state_dict(first.streams.state_dict())
    assert update(first, rollout) == update(second, rollout)
    assert bits(first) == bits(second)


@pytest.mark.parametrize("method", METHODS)
def test_a_short_procgen_run_trains_stops_resumes_identically_and_evaluates(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    values = ROWS[method].values if ROWS[method] is not None else {}
    flags = [(f"--objective.{name.replace('_', '-')}", str(v)) for name, v in values.items()]
    command = ["train", "--method", method, *TINY, "--frames", "512", "--machine.threads", "1"]
    command += [word for flag in flags for word in flag]

    def run(place: str) -> int:
        return main([*command, "--saving.runs", str(tmp_path / place)])

    assert run("straight") == 0
    write, rows = Log.write, iter([True])

    def stopping_write(log: Log, row: dict[str, Any]) -> None:
        write(log, row)
        if log.path.name == "metrics.jsonl" and next(rows, False):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Log, "write", stopping_write)
    assert run("stopped") == 128 + signal.SIGTERM
    capfd.readouterr()
    assert run("stopped") == 0
    assert "at 256 frames" in capfd.readouterr().err
    straight, stopped = only(tmp_path / "straight"), only(tmp_path / "stopped")
    assert remains(stopped) == remains(straight)
    kinds = [row["row"] for row in read_rows(straight / "metrics.jsonl")]
    assert kinds == ["update", "update", "evaluation"]
    assert main(["evaluate", str(stopped), "--episodes", "2", "--envs", "2"]) == 0
    assert f"{method} on starpilot after 512 frames" in capfd.readouterr().out


# --- How strong an objective is beside the policy


@pytest.mark.parametrize("order", ["objective", "policy", "joint"])
@pytest.mark.parametrize("method", OBJECTIVES)
def test_every_method_records_the_ratio_of_its_gradient_to_the_policys_and_its_kl(method, order):
    learner = learner_for(small(method, encoder_grad="both", order=order))
    metrics = update(learner, rollout_for(learner))
    assert 0 < metrics["gradient_ratio"] < math.inf
    assert metrics["objective_kl"] == pytest.approx(0, abs=0.1)  # a few steps; tiny here


@pytest.mark.parametrize("method", OBJECTIVES)
def test_the_recorded_ratio_grows_with_the_weight_of_the_loss(method):
    """Before the bound on its norm, a gradient is in proportion to its weight."""
    ratio = {}
    for weight in (1.0, 0.25):
        config = small(method, encoder_grad="both", order="joint")
        config = replace(
            config,
            policy=replace(config.policy, minibatches=1, stretch=0),
            representation=replace(config.representation, minibatches=1, weight=weight),
        )
        learner = learner_for(config)
        ratio[weight] = update(learner, rollout_for(learner))["gradient_ratio"]
    assert ratio[1.0] == pytest.approx(4 * ratio[0.25], rel=1e-3)
