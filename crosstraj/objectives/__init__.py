"""The objectives, each by the type of its config. A new one: its own file, and one line here."""

import torch

from crosstraj.objectives.base import NoObjective, Objective
from crosstraj.objectives.ctrl import CTRL, CTRLConfig

__all__ = ["CTRL", "CTRLConfig", "NoObjective", "Objective", "ObjectiveConfig", "make_objective"]

ObjectiveConfig = NoObjective | CTRLConfig


def make_objective(config: ObjectiveConfig, actions: int, rng: torch.Generator) -> Objective:
    match config:
        case NoObjective():
            return Objective()
        case CTRLConfig():
            return CTRL(config, actions, rng)
