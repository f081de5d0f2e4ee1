"""ROWS: what tests must know of each method; and small learners and rollouts for all of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.data.rollout import Rollout
from crosstraj.learning.learner import Learner
from crosstraj.objectives.dbc import LEAST_SPREAD
from crosstraj.objectives.paired_play import Stretch
from crosstraj.policies.experience import experience
from crosstraj.policies.ppg import PPGConfig
from crosstraj.randomness import Streams

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
    game: bool = False
    """It and the encoder learn against each other: alone, and in long steps, its loss must fall."""
    alive: Callable[[dict[str, float]], bool] = lambda _: True
    """After 50 steps: has the loss fallen because something was learnt, not by collapse?"""


def pairs_of(positions: Tensor) -> Tensor:
    """[n, T] -> [n * (T - 1), 2]: the first of each row with every other."""
    first, others = positions[:, :1].expand(-1, positions.shape[1] - 1), positions[:, 1:]
    return torch.stack([first.flatten(), others.flatten()], dim=1)


ROWS = {
    "atc": Row(
        values={"shift": 1},
        ties=lambda batch: torch.stack([batch.now, batch.later], dim=1),
        floor=lambda seen: 0.0,
        nonsense=(("lag", 0), ("lag", 256), ("shift", -1), ("target_decay", 1.5), ("hidden", 0)),
        alive=lambda seen: seen["top_one"] > 0.1,  # of 50: a guess has .02
    ),
    "ppo": None,  # no objective
    "daac": None,
    "ppg": None,
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
    "drac": Row(
        values={"shift": 1},
        ties=lambda batch: None,  # frames alone
        floor=lambda seen: 0.0,
        nonsense=(("shift", -1), ("window", 0), ("augmentation", "blur"), ("weight", -0.1)),
    ),
    "driml": Row(
        values={"width": 64},
        ties=lambda batch: torch.stack([batch.now, batch.later], dim=1),
        floor=lambda seen: 0.0,
        nonsense=(("lag", 0), ("lag", 256), ("width", 0), ("score_bound", 0.0)),
        alive=lambda seen: seen["contrast"] < seen["contrast_blind"],
    ),
    "idaac": Row(
        values={"hidden": 512},
        ties=lambda batch: torch.stack([batch.earlier, batch.later], dim=1),
        floor=lambda seen: 0.001 * seen["confusion"],  # a classifier that is sure ends at 0
        nonsense=(("hidden", -1), ("weight", -1.0)),
        game=True,
        alive=lambda seen: seen["order_accuracy"] > 0.6,
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
    if "encoder_grad" in changes:  # which a cut at the map leaves no choice of
        changes.setdefault("split_at", "fc")
    config = replace(plain(method), encoder="laptop", envs=ENVS, rollout_steps=STEPS, **changes)
    config = replace(
        config,
        policy=replace(config.policy, minibatches=2),
        representation=replace(config.representation, minibatches=2),
    )
    if isinstance(config.policy, PPGConfig):  # a phase of each kind in every update
        config = replace(config, policy=replace(config.policy, auxiliary_every=1))
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
    """What a policy update always moves: all but encoders, a value network, and PPG's own head."""
    others = ("encoder", "top", "auxiliary")
    parts = {name for name, _ in learner.agent.named_children() if name not in others}
    return {name for name in parts if not f"{name}.".startswith(learner.agent.value_network)}
