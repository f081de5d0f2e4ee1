"""Ising's lattices: Onsager's correlations, detailed balance, slow loops."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from crosstraj.envs.ising.lattice import WORD, Dynamics, Rule, exact_correlation, picture
from crosstraj.errors import BadInput
from tests.envs.ising.onsager import BETAS, ONSAGER, Array


def generators(count: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng((seed, n)) for n in range(count)]


def test_exact_correlations_are_onsagers() -> None:
    assert [exact_correlation(beta) for beta in BETAS] == pytest.approx(ONSAGER, abs=1e-4)
    critical = math.log(1 + math.sqrt(2)) / 2
    assert exact_correlation(critical) == pytest.approx(1 / math.sqrt(2), abs=1e-6)
    assert exact_correlation(0.0) == 0
    assert exact_correlation(100.0) == pytest.approx(1)
    assert exact_correlation(1e-4) == pytest.approx(1e-4, rel=1e-3)  # tanh(beta) to first order


@pytest.mark.parametrize("rule", ["metropolis", "heat-bath"])
def test_after_50_sweeps_neighbours_are_correlated_as_onsager_says(rule: Rule) -> None:
    dynamics, rngs = Dynamics(32, 32, BETAS, rule=rule), generators(150)
    spins = dynamics.random(rngs)
    for _ in range(50):
        dynamics.sweep(spins, rngs)
    seen = dynamics.correlation(spins)
    error = seen.std(axis=0, ddof=1) / math.sqrt(len(seen))
    assert (error < 0.003).all()
    assert (np.abs(seen.mean(axis=0) - ONSAGER) < 3 * error).all()


@pytest.mark.parametrize(
    ("rounds", "right"),
    [(8, [0.06, 0.11, 0.17, 0.26, 0.38]), (2, [-0.97, -0.75, -0.51, -0.28, -0.04])],
)
def test_how_much_a_sweep_leaves_of_a_lattice(rounds: int, right: list[float]) -> None:
    """Two rounds propose every site at once, and a hot lattice flips as a whole."""
    dynamics, rngs = Dynamics(32, 32, BETAS, rounds=rounds), generators(20)
    spins = dynamics.random(rngs)
    for _ in range(30):
        dynamics.sweep(spins, rngs)
    before = spins.copy()
    dynamics.sweep(spins, rngs)
    lag = (before * spins).mean(axis=(0, 1, 2, 3, 4))
    assert lag == pytest.approx(right, abs=0.03)


def states(height: int, width: int) -> Array:
    """Every lattice of this size, drawn: [2^(H W), 1, H, W]."""
    spins = np.array(list(itertools.product((-1, 1), repeat=height * width)), np.int8)
    return spins.reshape(-1, 1, height, width)


def sorted_in(drawn: Array) -> Array:
    """The inverse of `picture`, by its definition: [n, M, H, W] -> [n, 2, 2, H/2, W/2, M]."""
    n, models, height, width = drawn.shape
    spins = np.zeros((n, 2, 2, height // 2, width // 2, models), np.int8)
    for r, c in itertools.product(range(height), range(width)):
        spins[:, (r + c) % 2, r % 2, r // 2, c // 2] = drawn[:, :, r, c]
    return spins


def neighbour_sum(drawn: Array, r: int, c: int, boundary: str = "periodic") -> Array:
    """[n, M, H, W] -> [n, M] of one site, by walking to its four neighbours."""
    height, width = drawn.shape[2:]
    total = np.zeros(drawn.shape[:2], int)
    for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        y, x = r + down, c + right
        if boundary == "periodic" or (0 <= y < height and 0 <= x < width):
            total = total + drawn[:, :, y % height, x % width]
    return total


@pytest.mark.parametrize("boundary", ["periodic", "free"])
@pytest.mark.parametrize("size", [(2, 2), (2, 4), (4, 6)])
def test_neighbours_and_energy_equal_a_slow_loop(size: tuple[int, int], boundary: Any) -> None:
    dynamics = Dynamics(*size, [0.1, 0.2, 0.3], boundary=boundary)
    spins = dynamics.random(generators(4))
    drawn = picture(spins)
    assert (sorted_in(drawn) == spins).all()
    energy = np.zeros((4, 3))
    for colour in (0, 1):
        aligned = dynamics.aligned(spins, colour)
        for r, c in itertools.product(range(size[0]), range(size[1])):
            if (r + c) % 2 == colour:
                right = drawn[:, :, r, c] * neighbour_sum(drawn, r, c, boundary)
                assert (aligned[:, r % 2, r // 2, c // 2] == right).all()
                energy += right
    ends = 4 * size[0] * size[1] - (0 if boundary == "periodic" else 2 * sum(size))
    assert dynamics.correlation(spins) == pytest.approx(energy / ends)


def transition(dynamics: Dynamics, colour: int) -> Array:
    """[S, S] of one round, from the thresholds in use: the sites of a colour flip independently."""
    drawn = states(2, 4)
    spins = sorted_in(drawn)
    aligned = dynamics.aligned(spins, colour)  # [S, 2, 1, 2, 1]
    level = (aligned.clip(min=dynamics.floor) - dynamics.floor) // dynamics.step
    chance = np.stack(dynamics.thresholds)[level, 0] / WORD  # one model: alike at every site
    differs = spins[:, None] != spins[None]
    keeps_other = ~differs[:, :, 1 - colour].any(axis=(2, 3, 4, 5))
    factor = np.where(differs[:, :, colour], chance[:, None], 1 - chance[:, None])
    return factor.prod(axis=(2, 3, 4, 5)) * keeps_other


@pytest.mark.parametrize("rule", ["metropolis", "heat-bath"])
@pytest.mark.parametrize("beta", [0.0, 0.155, 0.3, 1.0])
def test_each_round_is_in_detailed_balance_and_a_sweep_keeps_boltzmanns_law(
    beta: float, rule: Rule
) -> None:
    drawn = states(2, 4)
    sites = itertools.product(range(2), range(4))
    energy = -sum(drawn[:, 0, r, c] * neighbour_sum(drawn, r, c)[:, 0] for r, c in sites) / 2
    boltzmann = np.exp(-beta * energy)
    boltzmann /= boltzmann.sum()
    dynamics = Dynamics(2, 4, [beta], rule=rule)
    rounds = [transition(dynamics, colour) for colour in (0, 1)]
    for one in rounds:
        assert one.sum(axis=1) == pytest.approx(np.ones(256))
        flow = boltzmann[:, None] * one
        assert flow == pytest.approx(flow.T, abs=1e-9)
        assert one[0, 0] < 1  # something can happen
    sweep = np.linalg.multi_dot([rounds[turn % 2] for turn in range(dynamics.rounds)])
    assert boltzmann @ sweep == pytest.approx(boltzmann, abs=1e-8)
    assert (sweep > 0).all()  # every state is reached, so this law is the only one kept
    assert np.abs(np.full(256, 1 / 256) @ sweep - boltzmann).max() > 1e-4 or beta == 0


def test_a_round_flips_what_the_thresholds_say() -> None:
    """Random numbers just below and just at the chance of a site's flip, through the real code."""
    dynamics = Dynamics(4, 4, [0.2, 0.3])
    spins = dynamics.random(generators(3))

    class Given:
        def __init__(self, words: Array) -> None:
            self.words = words

        def random_raw(self, count: int) -> Array:
            assert count * 2 == self.words.size
            return self.words.ravel().view(np.uint64)

    for offset, flipped in ((-1, True), (0, False)):
        for colour in (0, 1):
            aligned = dynamics.aligned(spins, colour)
            chance = np.exp(-2 * np.array([0.2, 0.3]) * aligned.clip(min=0)) / 4
            words = (np.rint(chance * WORD) + offset).astype(np.uint32)
            repeated = np.repeat(words[:, None], dynamics.rounds, axis=1)
            rngs: Any = [type("Rng", (), {"bit_generator": Given(w)}) for w in repeated]
            limits = [dynamics.limits(rng) for rng in rngs]
            after = spins.copy()
            dynamics.update(after, colour, np.stack(limits)[:, 0])
            assert (after[:, colour] == spins[:, colour] * (-1 if flipped else 1)).all()
            assert (after[:, 1 - colour] == spins[:, 1 - colour]).all()


@pytest.mark.parametrize(("height", "width"), [(3, 4), (4, 3), (31, 31), (0, 4)])
def test_odd_sides_are_refused(height: int, width: int) -> None:
    with pytest.raises(BadInput, match="both sides must be even"):
        Dynamics(height, width, [0.1])
