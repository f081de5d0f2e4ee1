"""Where a run lies, and what it has learnt: configuration and weights, read from its directory."""

import json
import sys
from pathlib import Path
from typing import Any

from torch import Tensor

from crosstraj import checkpoint
from crosstraj.config import NOT_IDENTITY, Config
from crosstraj.errors import BadInput
from crosstraj.run import identity_of, run_directory


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


def read_weights(run: Path, step: int | None = None) -> tuple[dict[str, dict[str, Tensor]], int]:
    """Weights by part ("agent", "objective") and name, and their frame count.

    From the newest valid checkpoint, or from the snapshot at `step` frames.
    """
    if step is None:
        path = checkpoint.newest(run / "checkpoints", lambda text: print(text, file=sys.stderr))
        if path is None:
            raise BadInput(f"{run} has no valid checkpoint; train it, or give a snapshot's --step")
    else:
        path = run / "snapshots" / f"step-{step}"
        if not path.is_dir():
            steps = (p.name.removeprefix("step-") for p in (run / "snapshots").glob("step-*"))
            known = ", ".join(map(str, sorted(int(name) for name in steps if name.isdigit())))
            raise BadInput(f"{run} has no snapshot at {step} frames; it has {known or 'none'}")
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in checkpoint.read_weights(path).items():
        part, _, inner = name.partition("/")
        parts.setdefault(part, {})[inner] = tensor
    return parts, int(path.name.removeprefix("step-"))
