"""Run directories that tests open, and states that they save."""

from pathlib import Path
from typing import Any

import torch

from crosstraj.config.dotted import identity_of
from crosstraj.runs.directory import Run
from tests.helpers import silent

CONFIG = {"frames": 100, "seed": 0, "objective": {"weight": 0.5, "layers": (1, 2)}}
FACTS = {"torch": "2.13.0", "threads": 2}


def open_run(directory: Path, config: Any = CONFIG, facts: Any = FACTS, **options: Any) -> Run:
    options = {"warn": silent, **options}
    return Run.open(directory, config, identity_of(config, ["frames"]), facts, **options)


def make_state(step: int) -> dict[str, Any]:
    return {"weights": {"w": torch.full((3,), float(step))}, "step": step}
