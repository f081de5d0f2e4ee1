"""Trainings in two phases, small enough for tests."""

from dataclasses import replace
from typing import Any

from crosstraj.config.groups import EvaluationConfig, MachineConfig
from crosstraj.config.presets import plain
from crosstraj.learning.state import Training
from crosstraj.objectives.phases import Phase


def training_with(method: str = "ctrl", *phases: Phase, **changes: Any) -> Training:
    """Rollouts of 16 frames of a real game, a budget of 64."""
    config = replace(
        plain(method),
        env="starpilot",
        envs=2,
        rollout_steps=8,
        encoder="laptop",
        frames=64,
        evaluation=EvaluationConfig(episodes=2, envs=2),
        machine=MachineConfig(threads=1),
    )
    config = replace(
        config,
        policy=replace(config.policy, minibatches=2),
        representation=replace(config.representation, minibatches=2),
    )
    if method == "ctrl":
        config = replace(config, objective=replace(config.objective, clusters=4))
    return Training(replace(config, phases=phases or config.phases, **changes))
