"""An agent by itself, in the layout that model hubs expect; `crosstraj export` writes it.

    config.json         the values of its run, and of its weights the frames of training, SHA-256,
                        and what is known of the machine that trained them
    model.safetensors   the weights of agent and objective, by part and name

Beside them may lie a card, a clip, an ONNX file and the log of the run; none is needed to load it.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from crosstraj import disk
from crosstraj.errors import BadInput
from crosstraj.runs import codec
from crosstraj.runs.read import stored, without_place

MODEL, CONFIG = "model.safetensors", "config.json"


def is_agent(path: Path) -> bool:
    return (path / MODEL).is_file()


def is_ours(path: Path) -> bool:
    """Was it written by `contents`? A model of somebody else's lies in files of the same names."""
    return is_agent(path) and (path / CONFIG).is_file() and "agent" in stored(path)


def contents(
    values: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    frames: int,
    facts: Mapping[str, Any],
) -> dict[str, bytes]:
    """Both files by their names. values: what a run's config.json holds; facts: of its machine."""
    model = codec.pack(weights)
    digest = hashlib.sha256(model).hexdigest()
    about = {"frames": frames, "sha256": digest, "facts": dict(facts)}
    whole = {**values, "config": without_place(values["config"]), "agent": about}
    return {MODEL: model, CONFIG: json.dumps(whole, indent=1).encode() + b"\n"}


def facts_of(path: Path) -> dict[str, Any]:
    """What is known of the machine that trained an agent; nothing in older files."""
    facts = stored(path)["agent"].get("facts", {})
    return facts if isinstance(facts, dict) else {}


def read(path: Path) -> tuple[dict[str, Tensor], int]:
    """Weights by part and name, and their frames of training; damaged ones are refused."""
    try:
        about = stored(path)["agent"]
        model = disk.read_plain_file(path / MODEL)
        frames, digest = int(about["frames"]), hashlib.sha256(model).hexdigest()
        if digest != about["sha256"]:
            raise ValueError(f"its SHA-256 is {digest[:12]}..., not {str(about['sha256'])[:12]}...")
        return codec.unpack(model), frames
    except Exception as error:
        raise BadInput(f"{path / MODEL} is broken: {error}; restore it from a copy") from error
