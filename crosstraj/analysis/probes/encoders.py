"""The encoders that are judged: agents of runs and of their snapshots, and an untrained one."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from crosstraj.analysis.output import run_name
from crosstraj.analysis.probes.linear import Floats
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.learning.learner import Learner
from crosstraj.learning.load import read_config, read_weights
from crosstraj.nn.encoders import Encode
from crosstraj.randomness import Streams
from crosstraj.runs.directory import dotted

SAME = ("env", "frame_stack", "procgen", "ising")  # what decides levels and frames
ENCODED = 1024  # frames on the device at a time

Envs = VectorEnv[Any, Any, Any]


class Trained(NamedTuple):
    """An agent, and where it comes from."""

    name: str
    frames: int  # of training
    config: Config
    learner: Learner


def load(run: Path, step: int | None, config: Config, envs: Envs) -> Trained:
    """A run's agent with the weights of a snapshot, or of the newest checkpoint."""
    weights, frames = read_weights(run, step)
    learner = fresh(config, envs)
    learner.load_weights(weights)
    if not all(weight.isfinite().all() for weight in learner.agent.state_dict().values()):
        raise BadInput(
            f"the weights of {run} at {frames} frames are not finite; choose an earlier snapshot "
            "with --step (or --expert-step)"
        )
    return Trained(run_name(run), frames, config, learner)


def fresh(config: Config, envs: Envs) -> Learner:
    """As the run's own learner was before its first update."""
    learner = Learner(config, envs, Streams(config.seed))
    learner.agent.eval()
    return learner


def encoders(
    runs: list[Path], steps: tuple[int, ...], expert: Trained, envs: Envs
) -> list[Trained]:
    """The first run's encoder before training, then each run at each step, then the expert's."""
    configs = [read_config(run) for run in runs]
    judged = [
        load(run, step, config, envs)
        for run, config in zip(runs, configs, strict=True)
        for step in steps or (None,)
    ]
    untrained = Trained("untrained", 0, configs[0], fresh(configs[0], envs))
    return [untrained, *judged, expert._replace(name="the expert's own")]


def check_same_task(run: Path, expert: Path) -> None:
    """Refuse a run whose game, levels or frames are not the expert's."""
    ours, theirs = (
        dotted(
            {name: value for name, value in read_config(place).to_dict().items() if name in SAME}
        )
        for place in (run, expert)
    )
    for name, value in ours.items():
        if value != theirs.get(name):
            raise BadInput(
                f"{run} has {name}={value} and the expert {expert} has {theirs.get(name)}; both "
                "must have the same game, levels and frames, so choose another expert"
            )


@torch.inference_mode()
def features_of(encoder: Trained, frames: NDArray[np.uint8]) -> Floats:
    """What the agent's heads read of each frame, [n, D]."""
    machine, agent = encoder.config.machine, encoder.learner.agent
    encode = Encode(agent.encoder, live=False, piece=machine.piece)
    parts = [
        agent.top(agent.read(encode, part.to(machine.device))).cpu()
        for part in torch.from_numpy(frames).split(ENCODED)
    ]
    features = torch.cat(parts).double().numpy()
    if not np.isfinite(features).all():
        raise BadInput(
            f"the features of {encoder.name} at {encoder.frames} frames are not finite; choose an "
            "earlier snapshot with --step"
        )
    return np.asarray(features)
