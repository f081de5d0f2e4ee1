"""Phases: parts of the budget in which a run learns in different ways (Proto-RL, DIAYN).

Most methods have one phase, the whole budget. A phase begins with the first rollout that starts at
or after its part of the budget: between two updates, and at the same frame however often the run
was stopped. `Training.begin_phase` does what a phase asks for.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Literal

from crosstraj.errors import BadInput

EncoderGrad = Literal["none", "rl", "ssl", "both"]
Reset = Literal["normaliser", "value"]


@dataclass(frozen=True)
class Phase:
    """How a run learns for a part of its budget."""

    share: float = 1.0
    """Share of the budget, relative to the shares of the other phases."""
    encoder_grad: EncoderGrad | None = None
    """Which gradients train the encoder; None takes the run's --encoder-grad."""
    objective_weight: float = 1.0
    """Weight of the objective's loss; at 0 its optimiser takes no step."""
    extrinsic: float = 1.0
    """Weight of the environment's reward, which is normalised on its own."""
    intrinsic: float = 0.0
    """Weight of the objective's intrinsic reward, which is normalised on its own."""
    reset: tuple[Reset, ...] = ()
    """What is reset at the start of this phase: the reward normaliser, the value head."""

    def __post_init__(self) -> None:
        if not (0 < self.share < math.inf):
            raise BadInput(f"phases: share={self.share} must be a number above 0")
        for name in ("objective_weight", "extrinsic", "intrinsic"):
            if not (0 <= getattr(self, name) < math.inf):
                raise BadInput(f"phases: {name}={getattr(self, name)} must be a number from 0 up")


def beginnings(phases: Sequence[Phase], budget: int) -> list[int]:
    """The frame at which the part of each phase begins.

    Exact: shares of .1, .2 and .7 of 1,000 frames begin at 0, 100 and 300, and not at 301.
    """
    shares = [Fraction(str(phase.share)) for phase in phases]
    passed = list(accumulate(shares, initial=Fraction(0)))
    return [math.ceil(budget * before / passed[-1]) for before in passed[:-1]]


def phase_at(phases: Sequence[Phase], frames: int, budget: int) -> int:
    """The number, from 0, of the phase to which a rollout belongs that starts at `frames`."""
    return bisect_right(beginnings(phases, budget), frames) - 1


def check_phases(phases: Sequence[Phase], budget: int, rollout: int) -> None:
    """Each phase must have a rollout, or the run would silently be another method."""
    starts = [-(-frame // rollout) * rollout for frame in [*beginnings(phases, budget), budget]]
    if any(start >= following for start, following in pairwise(starts)):
        raise BadInput(
            f"frames={budget} is too little: rollouts have {rollout} frames, and each of the "
            f"{len(phases)} phases needs one at least; raise it, or lower envs or rollout_steps"
        )


def in_words(phases: Sequence[Phase], number: int) -> str:
    """What a phase does, for the person who watches."""
    phase = phases[number]
    facts = {
        "encoder_grad": phase.encoder_grad,
        "objective weight": f"{phase.objective_weight:g}",
        "reward": f"{phase.extrinsic:g} extrinsic + {phase.intrinsic:g} intrinsic",
        "reset": ", ".join(phase.reset),
    }
    said = "; ".join(f"{name} {value}" for name, value in facts.items() if value)
    return f"phase {number + 1} of {len(phases)}: {said}"
