"""Where a run lies, and what it has learnt: configuration and weights, read from its directory."""

import json
import sys
from pathlib import Path
from typing import Any

from torch import Tensor

from crosstraj.config.values import NOT_IDENTITY, Config
from crosstraj.errors import BadInput
from crosstraj.runs import checkpoint
from crosstraj.runs.directory import identity_of, run_directory


def place_of(config: Config) -> tuple[Path, str]:
    """The run directory that belongs to a configuration, and the digest of what tells it apart."""
    identity = identity_of(config.to_dict(), NOT_IDENTITY)
    place = run_directory(config.saving.runs, config.method, config.env, config.seed, identity)
    return place, identity


def read_values(run: Path) -> dict[str, Any]:
    """The values in a run's config.json, whichever version wrote them."""
    try:
        values: dict[str, Any] = json.loads((run / "config.json").read_bytes())["config"]
        if not isinstance(values, dict):
            raise TypeError("it holds no configuration")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BadInput(f"{run} is not a run directory: config.json: {error}") from error
    return values


def read_config(run: Path) -> Config:
    """The configuration that a run was made with."""
    return Config.from_dict(read_values(run))


def checkpoints_by_frames(parent: Path) -> dict[int, Path]:
    """The checkpoints or snapshots in a directory, by their frame counts; none is opened."""
    paths = {path.name.removeprefix("step-"): path for path in parent.glob("step-*")}
    return {int(name): path for name, path in paths.items() if name.isdigit()}


def read_weights(run: Path, step: int | None = None) -> tuple[dict[str, dict[str, Tensor]], int]:
    """Weights by part ("agent", "objective") and name, and their frame count.

    From the newest valid checkpoint, or from the snapshot or checkpoint at `step` frames.
    """
    if step is None:
        path = checkpoint.newest(run / "checkpoints", lambda text: print(text, file=sys.stderr))
        if path is None:
            raise BadInput(f"{run} has no valid checkpoint; train it, or give a snapshot's --step")
    else:
        kept = checkpoints_by_frames(run / "checkpoints") | checkpoints_by_frames(run / "snapshots")
        if step not in kept:
            known = ", ".join(map(str, sorted(kept))) or "none"
            raise BadInput(f"{run} has no snapshot or checkpoint at {step} frames; it has {known}")
        path = kept[step]
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in checkpoint.read_weights(path).items():
        part, _, inner = name.partition("/")
        parts.setdefault(part, {})[inner] = tensor
    return parts, int(path.name.removeprefix("step-").removesuffix(".old"))  # set aside by a save
