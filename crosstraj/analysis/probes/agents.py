"""The encoders that are judged: agents of runs and of their snapshots, and an untrained one."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from crosstraj.analysis.output import run_name
from crosstraj.analysis.probes.linear import Floats
from crosstraj.config.dotted import dotted
from crosstraj.config.stored import to_dict
from crosstraj.errors import BadInput
from crosstraj.learning.load import Trained, load, read_config, refuse_memory, untrained
from crosstraj.nn.encoders import Encode

SAME = ("env", "frame_stack", "procgen", "ising", "gymnasium")  # what decides levels and frames
ENCODED = 1024  # frames on the device at a time


class Judged(NamedTuple):
    """An agent, and what it is called."""

    name: str
    trained: Trained


def judged(run: Path, step: int | None) -> Judged:
    """A run's agent with the weights of a snapshot, or of the newest checkpoint."""
    trained = load(run, step)
    refuse_memory(trained.agent, run, "probes read frames that lie apart")
    if not all(weight.isfinite().all() for weight in trained.agent.state_dict().values()):
        raise BadInput(
            f"the weights of {run} at {trained.frames} frames are not finite; choose an earlier "
            "snapshot with --step (or --expert-step)"
        )
    return Judged(run_name(run), trained)


def encoders(runs: list[Path], steps: tuple[int, ...], expert: Judged) -> list[Judged]:
    """The first run's encoder before training, then each run at each step, then the expert's."""
    found = [judged(run, step) for run in runs for step in steps or (None,)]
    first = Judged("untrained", untrained(found[0].trained.configuration))
    return [first, *found, expert._replace(name="the expert's own")]


def check_same_task(run: Path, expert: Path) -> None:
    """Refuse a run whose game, levels or frames are not the expert's."""
    ours, theirs = (
        dotted({name: value for name, value in to_dict(read_config(place)).items() if name in SAME})
        for place in (run, expert)
    )
    for name, value in ours.items():
        if value != theirs.get(name):
            raise BadInput(
                f"{run} has {name}={value} and the expert {expert} has {theirs.get(name)}; both "
                "must have the same game, levels and frames, so choose another expert"
            )


@torch.inference_mode()
def features_of(encoder: Judged, frames: NDArray[np.uint8]) -> Floats:
    """What the agent's heads read of each frame, [n, D]."""
    machine, agent = encoder.trained.configuration.machine, encoder.trained.agent
    encode = Encode(agent.encoder, live=False, piece=machine.piece)
    parts = [
        agent.top(agent.read(encode, part.to(machine.device))).cpu()
        for part in torch.from_numpy(frames).split(ENCODED)
    ]
    features = torch.cat(parts).double().numpy()
    if not np.isfinite(features).all():
        raise BadInput(
            f"the features of {encoder.name} at {encoder.trained.frames} frames are not finite; "
            "choose an earlier snapshot with --step"
        )
    return np.asarray(features)
