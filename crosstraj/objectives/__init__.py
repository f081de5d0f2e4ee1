"""The objectives: what a method learns beside its policy. One file each, and one line here.

Start with `base.py` (the contract), then any method's file. `method.py` is one of a person's own,
`paired_play.py` what PSE plays beside the rollouts. May import: nn, envs, data, health.
"""

from typing import Any

import torch

from crosstraj.objectives.base import NoObjective, Nothing, Objective, ObjectiveConfig
from crosstraj.objectives.ctrl import CTRL, CTRLConfig
from crosstraj.objectives.curl import CURL, CURLConfig
from crosstraj.objectives.dbc import DBC, DBCConfig
from crosstraj.objectives.diayn import DIAYN, DIAYNConfig
from crosstraj.objectives.driml import DRIML, DRIMLConfig
from crosstraj.objectives.method import Method
from crosstraj.objectives.proto import Proto, ProtoConfig
from crosstraj.objectives.pse import PSE, PSEConfig
from crosstraj.objectives.situations import Situations, SituationsConfig
from crosstraj.objectives.spr import SPR, SPRConfig

__all__ = [
    "CTRL",
    "CURL",
    "DBC",
    "DIAYN",
    "DRIML",
    "METHOD_OBJECTIVES",
    "OBJECTIVES",
    "PSE",
    "SPR",
    "CTRLConfig",
    "CURLConfig",
    "DBCConfig",
    "DIAYNConfig",
    "DRIMLConfig",
    "Method",
    "NoObjective",
    "Objective",
    "ObjectiveConfig",
    "PSEConfig",
    "Proto",
    "ProtoConfig",
    "SPRConfig",
    "Situations",
    "SituationsConfig",
    "make_objective",
]

# The registry, by the name of the method; one that is not here is a policy alone.
METHOD_OBJECTIVES: dict[str, tuple[type[ObjectiveConfig], type[Objective]]] = {
    "ctrl": (CTRLConfig, CTRL),
    "curl": (CURLConfig, CURL),
    "dbc": (DBCConfig, DBC),
    "diayn": (DIAYNConfig, DIAYN),
    "driml": (DRIMLConfig, DRIML),
    "proto": (ProtoConfig, Proto),
    "pse": (PSEConfig, PSE),
    "situations": (SituationsConfig, Situations),
    "spr": (SPRConfig, SPR),
}
OBJECTIVES: dict[type[ObjectiveConfig], type[Objective]] = {
    NoObjective: Nothing,
    **dict(METHOD_OBJECTIVES.values()),
}


def make_objective(
    config: ObjectiveConfig, features: int, actions: int, rng: torch.Generator
) -> Objective:
    """The objective of these values, on an encoder that gives so many features."""
    kind: Any = OBJECTIVES[type(config)]
    made: Objective = kind(config, features, actions, rng)
    return made
