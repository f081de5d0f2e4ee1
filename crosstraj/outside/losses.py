"""One class per method, for an agent that is not ours; `loss.py` says how each is used.

Their values (`CTRLConfig` and so on) and the mathematics are those of `crosstraj/objectives`, one
file per method, where the paper and what differs from it are named.
"""

from typing import Any, NoReturn

import torch
from torch import Tensor

from crosstraj.errors import BadInput
from crosstraj.nn.encoders import MAP_CHANNELS
from crosstraj.objectives import (
    atc,
    ctrl,
    curl,
    dbc,
    diayn,
    driml,
    idaac,
    proto,
    pse,
    situations,
    spr,
)
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
from crosstraj.outside.encoder import Reading
from crosstraj.outside.loss import Encode, Loss
from crosstraj.outside.trajectories import Trajectories


class CTRL(Loss[CTRLConfig]):
    """Cluster views of trajectories, and predict across near clusters (Mazoure et al., 2022).

    Needs `attach` with a `target_decay` above 0 (the released code's; the default is 0).
    """

    parts = (CTRLConfig, ctrl.CTRL)


class Situations(Loss[SituationsConfig]):
    """Foretell the cluster of a later frame, from an earlier one and the actions between (ours)."""

    parts = (SituationsConfig, situations.Situations)


class CURL(Loss[CURLConfig]):
    """Two shifts of one frame agree more than shifts of different frames (Laskin et al., 2020).

    Needs `attach`.
    """

    parts = (CURLConfig, curl.CURL)


class ATC(Loss[ATCConfig]):
    """A frame agrees with the one a few steps later, more than with others (Stooke et al., 2021).

    Needs `attach`, and an encoder cut in two: `FrameEncoder(network, head)`.
    """

    parts = (ATCConfig, atc.ATC)


class IDAAC(Loss[IDAACConfig]):
    """Features from which nobody can tell which of two frames came first (Raileanu, 2021).

    The order's loss alone: values with a network of their own are your agent's.
    """

    parts = (IDAACConfig, idaac.IDAAC)


class SPR(Loss[SPRConfig]):
    """Predict the features of frames to come with a model of maps (Schwarzer et al., 2021).

    Needs `attach`, and an encoder cut in two: `FrameEncoder(network, head)`.
    """

    parts = (SPRConfig, spr.SPR)

    def __init__(
        self,
        config: SPRConfig | None = None,
        *,
        features: int,
        actions: int,
        seed: int = 0,
        channels: int = MAP_CHANNELS,
    ) -> None:
        """channels: of the map that `FrameEncoder.network` gives."""
        super().__init__(config, features=features, actions=actions, seed=seed, channels=channels)


class DRIML(Loss[DRIMLConfig]):
    """Features of a step tell which frame follows it (Mazoure et al., 2020)."""

    parts = (DRIMLConfig, driml.DRIML)


class DBC(Loss[DBCConfig]):
    """Features are as far apart as rewards and transitions differ (Zhang et al., 2021).

    Reads rewards: `Trajectories.of(..., rewards=...)`.
    """

    parts = (DBCConfig, dbc.DBC)

    def check(self, play: Trajectories) -> None:
        super().check(play)
        _ = play.reward


class Proto(Loss[ProtoConfig]):
    """Two shifted frames in succession share prototypes (Proto-RL; Yarats et al., 2021).

    Needs `attach`. The loss alone: the intrinsic reward is for runs of `crosstraj train`.
    """

    parts = (ProtoConfig, proto.Proto)


class DIAYN(Loss[DIAYNConfig]):
    """Skills that can be told apart by what they see (Eysenbach et al., 2019).

    Reads skills: `Trajectories.of(..., skills=...)`. Your policy follows one of `config.skills`
    skills at a time and learns from `reward`; this loss learns to tell them apart.
    """

    parts = (DIAYNConfig, diayn.DIAYN)

    def check(self, play: Trajectories) -> None:
        super().check(play)
        if (most := int(play.skill().max())) >= self.config.skills:
            raise BadInput(
                f"skills go up to {most}, but there are skills={self.config.skills}: they are "
                f"counted from 0 to {self.config.skills - 1}"
            )

    @torch.no_grad()
    def reward(self, encode: Encode, play: Trajectories) -> Tensor:
        """[S, N] log q(z | frame) - log p(z): 0 for a blind guess, ln of the skills at most."""
        self.check(play)
        features = Reading(encode, self.features)(play.frames())
        assert isinstance(self.objective, diayn.DIAYN)
        return self.objective.reward_of(features.unflatten(0, play.done.shape), play.skill())


class PSE(Loss[PSEConfig]):
    """Steps at which good policies will act alike are embedded alike (Agarwal et al., 2021).

    In runs of `crosstraj train --method pse` only.
    """

    parts = (PSEConfig, pse.PSE)

    def __init__(self, config: PSEConfig | None = None, **sizes: Any) -> NoReturn:
        raise BadInput(
            "PSE learns from pairs of levels that are played side by side, which no buffer of an "
            "agent holds: train it with `crosstraj train --method pse`"
        )
