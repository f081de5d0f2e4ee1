"""What a random search for violations of a statement has found."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Sweep(NamedTuple):
    tried: int
    held: int  # cases in which the premise held: only these say anything
    violated: int

    @classmethod
    def of(cls, held: NDArray[np.bool_], failed: NDArray[np.bool_]) -> "Sweep":
        return cls(held.size, int(held.sum()), int((held & failed).sum()))


def total(sweeps: Iterable[Sweep]) -> Sweep:
    tried, held, violated = np.sum(list(sweeps), axis=0)
    return Sweep(int(tried), int(held), int(violated))
