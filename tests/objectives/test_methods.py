"""Every method before the same questions. A new method adds one row to ROWS, and nothing else."""

import math
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from crosstraj.cli.main import main
from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.presets import preset
from crosstraj.config.stored import from_dict, to_dict
from crosstraj.config.values import Config
from crosstraj.data.rollout import Rollout
from crosstraj.errors import BadInput
from crosstraj.learning.learner import Learner
from crosstraj.learning.optimiser import Averages
from crosstraj.objectives import NoObjective
from crosstraj.objectives.dbc import LEAST_SPREAD
from crosstraj.objectives.paired_play import Stretch
from crosstraj.policies.experience import experience
from crosstraj.randomness import Streams
from crosstraj.runs.log import Log, read_rows
from tests.conftest import TINY
from tests.helpers import only, remains, slow_fragments

ACTIONS, STEPS, ENVS = 5, 16, 8


@dataclass(frozen=True)
class Row:
    """What the questions must know of a method."""

    values: dict[str, object]
    """Values of its objective under which it fits a small rollout."""
    ties: Callable[[Any], Tensor | None]
    """Pairs [n, 2] of positions in `batch.frames` that a batch ties together in time, if any."""
    floor: Callable[[dict[str, float]], float]
    """The least its loss can be, given what it measured."""
    nonsense: tuple[tuple[str, object], ...]
    """Values of its objective that must be refused."""
    source: Callable[[int], Any] = lambda side: None
    """What stands in for its own play beside the rollouts, if it has any; given a frame's side."""
    alive: Callable[[dict[str, float]], bool] = lambda _: True
    """After 50 steps: has the loss fallen because something was learnt, not by collapse?"""


def pairs_of(positions: Tensor) -> Tensor:
    """[n, T] -> [n * (T - 1), 2]: the first of each row with every other."""
    first, others = positions[:, :1].expand(-1, positions.shape[1] - 1), positions[:, 1:]
    return torch.stack([first.flatten(), others.flatten()], dim=1)


ROWS = {
    "ppo": None,  # no objective
    "daac": None,
    "ctrl": Row(
        values={"clusters": 10, "temperature": 0.1, "code_temperature": 0.1},
        ties=lambda batch: pairs_of(batch.views.keypoints),
        # A cross-entropy cannot fall below the entropy of its targets; distances end at 0.
        floor=lambda seen: seen["code_entropy"],
        nonsense=(("clusters", 1), ("keypoints", 0), ("temperature", 0.0), ("keypoints", 200)),
        alive=lambda seen: seen["view_cosine"] < 0.9,
    ),
    "dbc": Row(
        values={},
        ties=lambda batch: torch.stack([batch.now, batch.later], dim=1),
        floor=lambda seen: math.log(LEAST_SPREAD),  # of the likelihood; squares end at 0
        nonsense=(("discount", 1.0), ("discount", -0.1), ("hidden", 0)),
        alive=lambda seen: seen["latent_std"] > 0.01,
    ),
    "curl": Row(
        values={"shift": 1},
        ties=lambda batch: None,  # frames alone
        floor=lambda seen: 0.0,
        nonsense=(("shift", -1), ("target_decay", 1.5), ("width", 0)),
        alive=lambda seen: seen["top_one"] > 0.5,
    ),
    "situations": Row(
        values={"clusters": 10, "gap": 2},
        ties=lambda batch: torch.stack([batch.earlier, batch.earlier + batch.gap], dim=1),
        floor=lambda seen: 0.0,
        nonsense=(
            *(("clusters", 1), ("gap", 0), ("gap", 256), ("temperature", 0.0), ("width", 0)),
            *(("inverse_weight", -1.0), ("predict_weight", -1.0)),
        ),
        alive=lambda seen: seen["cluster"] < math.log(10) and seen["inverse"] < 0.5,
    ),
    "spr": Row(
        values={"steps": 3},
        ties=lambda batch: pairs_of(batch.position)[batch.valid[:, 1:].flatten()],
        floor=lambda seen: 0.0,
        nonsense=(
            *(("steps", 0), ("steps", 256), ("target_decay", -0.1), ("shift", -1)),
            *(("intensity", -0.1), ("hidden", 12)),
        ),
        alive=lambda seen: seen["target_cosine"] < 0.99,
    ),
    "driml": Row(
        values={"width": 64},
        ties=lambda batch: torch.stack([batch.now, batch.later], dim=1),
        floor=lambda seen: 0.0,
        nonsense=(("lag", 0), ("lag", 256), ("width", 0), ("score_bound", 0.0)),
        alive=lambda seen: seen["contrast"] < seen["contrast_blind"],
    ),
    "proto": Row(
        values={"prototypes": 10, "width": 16, "hidden": 32, "shift": 1, "queue": 20},
        ties=lambda batch: torch.arange(len(batch.frames)).view(2, -1).T,
        floor=lambda seen: seen["code_entropy"],  # of the targets of a cross-entropy
        nonsense=(
            *(("prototypes", 1), ("width", 0), ("temperature", 0.0), ("target_decay", 1.0)),
            *(("shift", -1), ("queue", 100), ("neighbours", 0)),
        ),
        # No word of `alive`: what follows a random frame cannot be foretold (see test_proto).
    ),
    "diayn": Row(
        values={"skills": 4},
        ties=lambda batch: None,  # frames alone
        floor=lambda seen: 0.0,
        nonsense=(("skills", 1), ("skill_steps", -1), ("width", 0)),
        alive=lambda seen: seen["skill_accuracy"] > 0.5,
    ),
    "pse": Row(
        values={"levels": 4, "pairs": 2, "steps": 8},
        ties=lambda batch: None,  # its frames are not the rollout's: tests/objectives/test_pse.py
        floor=lambda seen: 0.0,  # of one positive among others
        nonsense=(("pairs", 0), ("steps", 1), ("discount", 1.0), ("distance", "variation")),
        source=lambda side: Played(side),
        alive=lambda seen: seen["nearest_found"] > 0.3,
    ),
}
OBJECTIVES = [name for name, row in ROWS.items() if row is not None]


class Played:
    """The same three stretches of two levels each time: random frames and actions."""

    frames = 48  # a run counts them, and saves the count; a learner does not

    def __init__(self, side: int) -> None:
        self.side = side

    def play(self, rng: torch.Generator) -> list[Stretch]:
        g, shape = torch.Generator().manual_seed(8), (2, 8, self.side, self.side, 3)
        return [
            Stretch(
                (0, 1),
                torch.randint(256, shape, generator=g, dtype=torch.uint8),
                torch.randint(ACTIONS, (2, 8), generator=g),
                torch.full((2, 8, ACTIONS), 1 / ACTIONS),
            )
            for _ in range(3)
        ]


def row_of(method: str) -> Row:
    row = ROWS[method]
    assert row is not None
    return row


class Spaces(VectorEnv[Any, Any, Any]):
    """Environments of which only the spaces are asked."""

    def __init__(self, side: int) -> None:
        self.single_observation_space = gymnasium.spaces.Box(0, 255, (side, side, 3), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(ACTIONS)


def small(method: str, **changes: Any) -> Config:
    config = replace(
        preset(method, "default"), encoder="laptop", envs=ENVS, rollout_steps=STEPS, **changes
    )
    config = replace(
        config,
        policy=replace(config.policy, minibatches=2),
        representation=replace(config.representation, minibatches=2),
    )
    if (row := ROWS[method]) is not None:
        config = replace(config, objective=replace(config.objective, **row.values))
    return config


def learner_for(config: Config, side: int = 4) -> Learner:
    learner = Learner(config, Spaces(side), Streams(config.seed))
    if (row := ROWS[config.method]) is not None:
        learner.objective.source = row.source(side)
    return learner


def random_done(chance: float = 0.08) -> Tensor:
    return torch.rand(STEPS, ENVS, generator=torch.Generator().manual_seed(1)) < chance


def rollout_for(learner: Learner, side: int = 4, done: Tensor | None = None) -> Rollout:
    """Random frames and rewards, judged by this very agent."""
    g = torch.Generator().manual_seed(5)
    s, n, agent = STEPS, ENVS, learner.agent
    obs = torch.randint(256, (s + 1, n, side, side, 3), generator=g, dtype=torch.uint8)
    action = torch.randint(ACTIONS, (s, n), generator=g)
    done = random_done() if done is None else done
    nothing = torch.zeros(n, learner.objective.context)
    context = [learner.objective.draw_context(nothing, torch.ones(n, dtype=torch.bool), g)]
    for ended in done:
        context.append(learner.objective.draw_context(context[-1], ended, g))
    judged = [agent.judge(frames, x) for frames, x in zip(obs, context, strict=True)]
    value, features = (torch.stack(field) for field in zip(*judged, strict=True))
    return Rollout(
        obs=obs,
        action=action,
        reward=torch.randn(s, n, generator=g),
        done=done,
        level=torch.zeros(s, n, dtype=torch.int64),
        log_prob=torch.full((s, n), -float(np.log(ACTIONS))),
        value=value,
        final_value=torch.zeros(s, n),
        features=features,
        context=torch.stack(context),
    )


def update(learner: Learner, rollout: Rollout) -> dict[str, float]:
    steps = experience(rollout, rollout.reward, learner.config.policy)
    return learner.update(rollout, steps)


def bits(learner: Learner) -> dict[str, bytes]:
    """The bytes of every part of the agent and of the objective."""
    parts = dict(learner.agent.named_children()) | {"objective": learner.objective}
    return {
        name: b"".join(t.contiguous().numpy().tobytes() for t in part.state_dict().values())
        for name, part in parts.items()
    }


def moved(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def heads_of(learner: Learner) -> set[str]:
    """What a policy update always moves: all but encoders and a value network of its own."""
    parts = {name for name, _ in learner.agent.named_children() if name not in ("encoder", "top")}
    return {name for name in parts if not f"{name}.".startswith(learner.agent.value_network)}


def test_every_method_is_asked():
    assert set(ROWS) == set(METHODS)


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
    config = preset(method, "default")
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
    learner = learner_for(small(method, encoder_grad="ssl", order="objective"), side=8)
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
def test_every_method_records_the_ratio_of_its_gradient_to_the_policys(method, order):
    learner = learner_for(small(method, encoder_grad="both", order=order))
    metrics = update(learner, rollout_for(learner))
    assert 0 < metrics["gradient_ratio"] < math.inf


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
