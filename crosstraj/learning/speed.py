"""How fast this machine trains: a few updates of PPO, timed."""

import time
from dataclasses import replace
from typing import Literal

import torch

from crosstraj.config.groups import MachineConfig
from crosstraj.config.presets import preset
from crosstraj.config.values import Config
from crosstraj.learning.kernels import settled
from crosstraj.learning.state import Training
from crosstraj.policies.experience import experience


def trial(precision: Literal["fp32", "bf16"]) -> Config:
    """PPO's default, in small rollouts and minibatches of full size; no step is left out."""
    config = preset("ppo", "default")
    steps = 16
    fewer = config.policy.minibatches * steps // config.rollout_steps
    return replace(
        config,
        rollout_steps=steps,
        policy=replace(config.policy, minibatches=fewer, target_kl=0.0),
        machine=MachineConfig(precision=precision),
    )


def kernels_for(precision: Literal["fp32", "bf16"]) -> str:
    """The sentence with which a run begins here."""
    return settled(trial(precision), (64, 64, 3))[1]


def frames_per_second(precision: Literal["fp32", "bf16"], seconds: float) -> float:
    """Of training, engine included; about so many seconds are spent on it, and a first update."""
    config = trial(precision)
    torch.set_num_threads(config.threads)
    training = Training(config)
    try:
        _update(training)  # warms up, and is not counted
        began, updates = time.monotonic(), 0
        while not updates or time.monotonic() - began < seconds:
            _update(training)
            updates += 1
        return updates * config.rollout_frames / (time.monotonic() - began)
    finally:
        training.envs.close()


def _update(training: Training) -> None:
    rollout = training.collector.collect(training.learner.agent)
    steps = experience(rollout, rollout.reward, training.config.policy)
    training.learner.update(rollout, steps)
