"""Where a run lies, and what it has learnt, read from its directory. Start with `load`."""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crosstraj.config.groups import MachineConfig
from crosstraj.config.methods import METHODS
from crosstraj.config.stored import completed, from_dict, identity
from crosstraj.config.values import Config
from crosstraj.envs import shown_by
from crosstraj.errors import BadInput
from crosstraj.learning.networks import Start, Weights, make_networks, put_on
from crosstraj.objectives import Objective
from crosstraj.policies.agent import Agent
from crosstraj.randomness import Streams
from crosstraj.runs import agent_files, checkpoint
from crosstraj.runs.agent_files import is_agent
from crosstraj.runs.directory import former, run_directory
from crosstraj.runs.read import stored


class Trained(NamedTuple):
    """The networks of a run in evaluation mode, without optimisers: to look at, and to play."""

    configuration: Config
    agent: Agent
    objective: Objective
    frames: int  # of training


def load(run: Path, step: int | None = None, machine: MachineConfig | None = None) -> Trained:
    """What a run had learnt after `step` frames, or by its newest checkpoint.

    On the run's own kind of machine, or on a given one; never compiled, for that takes longer than
    most of what is done with a loaded run.
    """
    trained = before_training(run, machine)
    weights, frames = read_weights(run, step)
    try:
        put_on(weights, trained.agent, trained.objective)
    except BadInput as error:
        raise BadInput(f"{run}: {error}") from error
    return trained._replace(frames=frames)


def before_training(run: Path, machine: MachineConfig | None = None) -> Trained:
    """The networks that a run began with."""
    config = read_config(run)
    machine = machine or config.machine
    if machine.kernels == "native":  # to be looked at where there is no compiler, too
        machine = replace(machine, kernels="auto")
    return untrained(replace(config, machine=machine))


def untrained(config: Config) -> Trained:
    """The networks of a run before its first update: what its seed draws."""
    shapes = shown_by(config.env, ising=config.ising, frame_stack=config.frame_stack)
    policy, objective = make_networks(config, *shapes, Streams(config.seed).weights)
    return Trained(config, policy.agent.eval(), objective.eval(), 0)


def refuse_memory(agent: Agent, run: Path | str, why: str) -> None:
    """Refuse an agent that cannot make features of a frame without those before it."""
    if agent.memory:
        raise BadInput(
            f"{run} has a memory: what it makes of a frame depends on the frames before it, and "
            f"{why}; choose a run with memory=none"
        )


def place_of(config: Config) -> tuple[Path, str]:
    """The run directory that belongs to a configuration, and the digest of what tells it apart."""
    digest = identity(config)
    place = run_directory(config.saving.runs, config.method, config.env, config.seed, digest)
    return (place if place.exists() else former(place, digest) or place), digest


def read_values(run: Path) -> dict[str, Any]:
    """The values of a run directory or a kept run, whichever version wrote them."""
    try:
        found = stored(run)
        values = found["config"]
        if not isinstance(values, dict):
            raise TypeError("it holds no configuration")
    except FileNotFoundError:
        why = "it has no config.json" if run.exists() else "nothing is there"
        raise BadInput(
            f"{run} is not a run directory: {why}; `crosstraj runs` lists those there are"
        ) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        what = "kept run" if run.is_file() else "run directory: config.json"
        said = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{run} is not a {what}: {said}") from error
    return completed(values, found.get("format"))


def read_config(run: Path) -> Config:
    """The configuration that a run was made with."""
    values = read_values(run)
    if (method := values.get("method")) not in METHODS:
        raise BadInput(
            f"{run} was trained with method={method}, which is not part of crosstraj; if it is "
            "your own, name its file: --with FILE"
        )
    return from_dict(values)


def start_of(run: Path, step: int | None = None) -> tuple[Start, str]:
    """What training can start from, and the digest that tells it from other weights."""
    config, (weights, _) = read_config(run), read_weights(run, step)
    whole = hashlib.sha256()
    for part, tensors in sorted(weights.items()):
        for name, tensor in sorted(tensors.items()):
            whole.update(f"{part}/{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            whole.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return Start(run, config.method, weights), whole.hexdigest()


def checkpoints_by_frames(parent: Path) -> dict[int, Path]:
    """The checkpoints or snapshots in a directory, by their frame counts; none is opened."""
    paths = {path.name.removeprefix("step-"): path for path in parent.glob("step-*")}
    return {int(name): path for name, path in paths.items() if name.isdigit()}


def read_weights(run: Path, step: int | None = None) -> tuple[Weights, int]:
    """Weights by part ("agent", "objective") and name, and their frame count.

    From the newest valid checkpoint, or from the snapshot or checkpoint at `step` frames. A run
    that was kept without what training needs has snapshots alone: then from the newest of these.
    """
    if is_agent(run):
        return _agent(run, step)
    if step is None:
        place = run / "checkpoints"
        if not checkpoint.candidates(place):
            place = run / "snapshots"
        path = checkpoint.newest(place, lambda text: print(text, file=sys.stderr))
        if path is None:
            raise BadInput(f"{run} has no valid checkpoint; train it, or give a snapshot's --step")
    else:
        kept = checkpoints_by_frames(run / "checkpoints") | checkpoints_by_frames(run / "snapshots")
        if step not in kept:
            known = ", ".join(map(str, sorted(kept))) or "none"
            raise BadInput(f"{run} has no snapshot or checkpoint at {step} frames; it has {known}")
        path = kept[step]
    frames = int(path.name.removeprefix("step-").removesuffix(".old"))  # set aside by a save
    return by_part(checkpoint.read_weights(path)), frames


def _agent(run: Path, step: int | None) -> tuple[Weights, int]:
    """The weights of an agent that was exported: there is one set of them."""
    flat, frames = agent_files.read(run)
    if step not in (None, frames):
        raise BadInput(f"{run} has no weights at {step} frames; it has {frames} alone")
    return by_part(flat), frames


def by_part(flat: dict[str, Tensor]) -> Weights:
    """Weights of "agent" and "objective" apart, of which each name says its own."""
    parts: Weights = {}
    for name, tensor in flat.items():
        part, _, inner = name.partition("/")
        parts.setdefault(part, {})[inner] = tensor
    return parts
