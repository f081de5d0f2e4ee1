"""The objectives, each by the type of its config. A new one: its own file, and one line here."""

import torch

from crosstraj.objectives.base import NoObjective, Objective
from crosstraj.objectives.ctrl import CTRL, CTRLConfig
from crosstraj.objectives.curl import CURL, CURLConfig
from crosstraj.objectives.dbc import DBC, DBCConfig
from crosstraj.objectives.diayn import DIAYN, DIAYNConfig
from crosstraj.objectives.driml import DRIML, DRIMLConfig
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
    "ONE_PASS",
    "PSE",
    "SPR",
    "CTRLConfig",
    "CURLConfig",
    "DBCConfig",
    "DIAYNConfig",
    "DRIMLConfig",
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

ObjectiveConfig = (
    NoObjective
    | CTRLConfig
    | CURLConfig
    | DBCConfig
    | DIAYNConfig
    | DRIMLConfig
    | ProtoConfig
    | PSEConfig
    | SituationsConfig
    | SPRConfig
)

# Those whose objective has `reads_stretches`: known before any is made, to check values.
ONE_PASS = (DBCConfig, DIAYNConfig, DRIMLConfig, SituationsConfig)


def make_objective(config: ObjectiveConfig, actions: int, rng: torch.Generator) -> Objective:
    match config:
        case NoObjective():
            return Objective()
        case CTRLConfig():
            return CTRL(config, actions, rng)
        case CURLConfig():
            return CURL(config, rng)
        case DBCConfig():
            return DBC(config, actions, rng)
        case DRIMLConfig():
            return DRIML(config, actions, rng)
        case SituationsConfig():
            return Situations(config, actions, rng)
        case SPRConfig():
            return SPR(config, actions, rng)
        case DIAYNConfig():
            return DIAYN(config, rng)
        case ProtoConfig():
            return Proto(config, rng)
        case PSEConfig():
            return PSE(config, rng)
