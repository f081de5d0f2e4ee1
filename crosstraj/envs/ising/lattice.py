"""The Ising model: many lattices at once, and what is known of it exactly (Onsager, 1944).

A lattice is coloured like a chessboard. Neighbours differ in colour, so all sites of one colour can
be updated at once. Proposing every one of them, as fast codes do, would flip a hot lattice as a
whole at every sweep; each is proposed with probability 2 / rounds instead, in `rounds` rounds of
alternating colour: one proposal per site and sweep on average, as in the sequential simulation.

Sites are stored by colour and by parity of their row, which makes every neighbour a shifted copy of
a whole array. The models, which differ in temperature alone, lie side by side in the last axis.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from crosstraj.errors import BadInput

Spins = npt.NDArray[np.int8]  # [N, colour, row parity, H/2, W/2, M], each -1 or 1
Rule = Literal["metropolis", "heat-bath"]
Boundary = Literal["periodic", "free"]

NEXT = (slice(None, -1), slice(1, None), -1, 0)  # all but the last, but the first; last, first
BEFORE = (slice(1, None), slice(None, -1), 0, -1)
WORD = 2**32  # probabilities are compared as whole numbers of 1 / WORD


def flip_probability(aligned: int, betas: npt.NDArray[np.float64], rule: Rule) -> npt.NDArray[Any]:
    """Of a proposed site whose spin times its neighbours' sum is `aligned`; dE = 2 aligned."""
    if rule == "metropolis":
        return np.exp(-2 * betas * max(aligned, 0))
    return (1 - np.tanh(betas * aligned)) / 2


class Dynamics:
    """How lattices of one size evolve at M inverse temperatures; holds no lattice itself."""

    def __init__(
        self,
        height: int,
        width: int,
        betas: Sequence[float],
        *,
        rule: Rule = "metropolis",
        rounds: int = 8,
        boundary: Boundary = "periodic",
    ) -> None:
        if height < 2 or width < 2 or height % 2 or width % 2:
            raise BadInput(
                f"a lattice of {height} x {width} cannot be coloured like a chessboard on a torus: "
                "both sides must be even, and at least 2"
            )
        if rounds < 2 or rounds % 2:
            raise BadInput(
                f"rounds={rounds}: both colours take turns, so it must be even, and at least 2"
            )
        self.periodic, self.rounds = boundary == "periodic", rounds
        self.shape = (2, height // 2, width // 2, len(betas))  # of one colour
        self.bonds = 2 * height * width - (0 if self.periodic else height + width)
        self.step = np.int8(2 if self.periodic else 1)  # four neighbours sum to an even number
        # Metropolis accepts whatever does not cost energy: below 0 all sites flip alike.
        self.floor = np.int8(0 if rule == "metropolis" else -4)
        self.thresholds = [
            self._threshold(flip_probability(aligned, np.array(betas, np.float64), rule))
            for aligned in range(int(self.floor), 5, int(self.step))
        ]

    def _threshold(self, chance: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
        """What a random number must stay below for a proposed site to flip, at every site."""
        # A certain flip is out of reach of 32 bits by one part in four thousand million.
        words = np.minimum(np.rint(chance * 2 / self.rounds * WORD), WORD - 1).astype(np.uint32)
        return np.tile(words, math.prod(self.shape[:-1]))

    def random(self, rngs: Sequence[np.random.Generator]) -> Spins:
        """Lattices of independent fair spins, as many sets of M as there are generators."""
        up = [rng.integers(0, 2, (2, *self.shape), np.int8) for rng in rngs]
        return np.stack(up) * np.int8(2) - np.int8(1)

    def sweep(self, spins: Spins, rngs: Sequence[np.random.Generator]) -> None:
        """One proposal per site on average, in place; set n of the lattices uses generator n."""
        limits = np.stack([self.limits(rng) for rng in rngs], axis=1)
        for turn, limit in enumerate(limits):
            self.update(spins, turn % 2, limit)

    def limits(self, rng: np.random.Generator) -> npt.NDArray[np.int8]:
        """[rounds, sites of a colour]: how aligned each site may be and still flip, by chance."""
        words = rng.bit_generator.random_raw(self.rounds * math.prod(self.shape) // 2)
        draw = words.view(np.uint32).reshape(self.rounds, -1)
        # The more aligned, the lower the threshold: a draw passes the first few of them.
        passed = np.zeros(draw.shape, np.int8)
        for threshold in self.thresholds:
            passed += (draw < threshold).view(np.int8)
        passed *= self.step
        passed += self.floor - self.step
        return passed.reshape(self.rounds, *self.shape)

    def update(self, spins: Spins, colour: int, limit: npt.NDArray[np.int8]) -> None:
        """One round: the sites of one colour that are no more aligned than their limit flip."""
        aligned = self.aligned(spins, colour)
        np.maximum(aligned, self.floor, out=aligned)
        flips = (aligned <= limit).view(np.int8)
        spins[:, colour] ^= flips * np.int8(-2)  # in two's complement 1 ^ -2 = -1, -1 ^ -2 = 1

    def aligned(self, spins: Spins, colour: int) -> npt.NDArray[np.int8]:
        """Spin times sum of neighbours of the sites of one colour: [n, 2, H/2, W/2, M], -4 to 4."""
        other = spins[:, 1 - colour]
        total = np.empty(other.shape, np.int8)
        for parity in (0, 1):
            # Row r, column c is element r // 2, c // 2. Two of the four neighbours have the same
            # indices; the other two are one further, on the side that parity and colour tell.
            rows, row, here = other[:, 1 - parity], other[:, parity], total[:, parity]
            np.add(rows, row, out=here)
            self._add_next_row(here, rows, forward=parity == 1)
            self._add_next_column(here, row, forward=parity != colour)
        total *= spins[:, colour]
        return total

    def _add_next_row(self, total: Spins, spins: Spins, *, forward: bool) -> None:
        """Adds the element of the next row, or of the row before."""
        inner, beyond, edge, opposite = NEXT if forward else BEFORE
        total[:, inner] += spins[:, beyond]
        if self.periodic:
            total[:, edge] += spins[:, opposite]

    def _add_next_column(self, total: Spins, spins: Spins, *, forward: bool) -> None:
        """The same along a row, in one piece: rows are short, and many small loops are slow."""
        inner, beyond, edge, opposite = NEXT if forward else BEFORE
        models = spins.shape[-1]
        flat, others = total.reshape(len(total), -1), spins.reshape(len(spins), -1)
        if forward:
            flat[:, :-models] += others[:, models:]
        else:
            flat[:, models:] += others[:, :-models]
        # At the end of a row that was the beginning of another.
        total[:, inner, edge] -= spins[:, beyond, opposite]
        if self.periodic:
            total[:, :, edge] += spins[:, :, opposite]

    def correlation(self, spins: Spins) -> npt.NDArray[np.float64]:
        """[n, M]: mean product of neighbouring spins, which is minus the energy per bond."""
        # Every bond has one end of either colour.
        return self.aligned(spins, 0).sum(axis=(1, 2, 3), dtype=np.int64) / self.bonds


def picture(spins: Spins) -> npt.NDArray[np.int8]:
    """[n, 2, 2, H/2, W/2, M] -> [n, M, H, W], as one would draw it."""
    n, _, _, rows, columns, models = spins.shape
    drawn = np.empty((n, models, 2 * rows, 2 * columns), np.int8)
    for colour in (0, 1):
        for parity in (0, 1):
            part = np.moveaxis(spins[:, colour, parity], -1, 1)
            drawn[:, :, parity::2, (colour + parity) % 2 :: 2] = part
    return drawn


def exact_correlation(beta: float) -> float:
    """Of neighbours on the infinite square lattice in equilibrium (Onsager, 1944)."""
    if beta == 0:
        return 0.0
    slope = math.tanh(2 * beta)
    modulus = 2 * slope**2 - 1  # the complementary modulus k'; 0 at the critical point
    elliptic = modulus * math.pi / (2 * _mean(1.0, abs(modulus))) if modulus else 0.0
    return (1 + 2 / math.pi * elliptic) / (2 * slope)


def _mean(a: float, b: float) -> float:
    """The arithmetic-geometric mean; the complete elliptic integral K is pi / (2 mean(1, k'))."""
    while abs(a - b) > 1e-15 * a:
        a, b = (a + b) / 2, math.sqrt(a * b)
    return a
