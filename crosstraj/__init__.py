"""crosstraj: reinforcement-learning agents for levels they have never seen.

The losses for an agent of your own (docs/your_agent.md), which need torch and numpy alone:

    import crosstraj as ct
    loss = ct.Situations(ct.SituationsConfig(clusters=100), features=512, actions=15, seed=0)
    play = ct.Trajectories.of(frames, actions, done, time_first=True)
    figures = loss.learn(encode, play, optimiser)

and training runs, which need the extra of their environment (`pip install 'crosstraj[procgen]'`):

    run = ct.train(ct.preset("ctrl", env="bigfish", frames=1_000_000))
    agent = ct.load(run).agent

A name is imported when it is first asked for. These names stay; what is not listed here may move.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosstraj.config.values import Config
    from crosstraj.data.rollout import Remembered
    from crosstraj.errors import BadInput, NonFinite
    from crosstraj.learning.load import Trained
    from crosstraj.objectives.atc import ATCConfig
    from crosstraj.objectives.ctrl import CTRLConfig
    from crosstraj.objectives.curl import CURLConfig
    from crosstraj.objectives.dbc import DBCConfig
    from crosstraj.objectives.diayn import DIAYNConfig
    from crosstraj.objectives.driml import DRIMLConfig
    from crosstraj.objectives.idaac import IDAACConfig
    from crosstraj.objectives.proto import ProtoConfig
    from crosstraj.objectives.pse import PSEConfig
    from crosstraj.objectives.situations import SituationsConfig
    from crosstraj.objectives.spr import SPRConfig
    from crosstraj.outside.encoder import FrameEncoder
    from crosstraj.outside.loss import Loss
    from crosstraj.outside.losses import (
        ATC,
        CTRL,
        CURL,
        DBC,
        DIAYN,
        DRIML,
        IDAAC,
        PSE,
        SPR,
        Proto,
        Situations,
    )
    from crosstraj.outside.run import load, preset, train
    from crosstraj.outside.trajectories import Trajectories

__version__ = "0.1.0"
__all__ = [
    "ATC",
    "CTRL",
    "CURL",
    "DBC",
    "DIAYN",
    "DRIML",
    "IDAAC",
    "PSE",
    "SPR",
    "ATCConfig",
    "BadInput",
    "CTRLConfig",
    "CURLConfig",
    "Config",
    "DBCConfig",
    "DIAYNConfig",
    "DRIMLConfig",
    "FrameEncoder",
    "IDAACConfig",
    "Loss",
    "NonFinite",
    "PSEConfig",
    "Proto",
    "ProtoConfig",
    "Remembered",
    "SPRConfig",
    "Situations",
    "SituationsConfig",
    "Trained",
    "Trajectories",
    "load",
    "preset",
    "train",
]

_ROOMS = {  # where each name lives, for those that are not losses or their values
    "BadInput": "errors",
    "Config": "config.values",
    "FrameEncoder": "outside.encoder",
    "Loss": "outside.loss",
    "NonFinite": "errors",
    "Remembered": "data.rollout",
    "Trained": "learning.load",
    "Trajectories": "outside.trajectories",
    "load": "outside.run",
    "preset": "outside.run",
    "train": "outside.run",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'crosstraj' has no attribute {name!r}")
    from crosstraj.errors import naming_extras

    method = name.removesuffix("Config").lower()
    usual = f"objectives.{method}" if name.endswith("Config") else "outside.losses"
    with naming_extras():
        value = getattr(import_module(f"crosstraj.{_ROOMS.get(name, usual)}"), name)
    globals()[name] = value  # asked for once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
