"""Configurations of runs that end after a few rollouts."""

from dataclasses import replace
from typing import Any

from crosstraj.config.groups import EvaluationConfig, MachineConfig
from crosstraj.config.presets import plain, preset
from crosstraj.config.values import Config


def small(method: str, name: str, **changes: Any) -> Config:
    """A preset with less to do in each rollout."""
    config = replace(
        plain(method) if name == "default" else preset(method, name),
        env="starpilot",
        envs=8,
        rollout_steps=80 if name == "release" else 32,  # its windows of 10, in eighths of a row
        encoder="laptop",
        evaluation=EvaluationConfig(episodes=2, envs=2),
        machine=MachineConfig(threads=1),
    )
    if name == "default":  # whose 32 minibatches would have 8 frames each
        config = replace(
            config,
            policy=replace(config.policy, minibatches=4),
            representation=replace(config.representation, minibatches=4),
        )
    return replace(config, **changes)
