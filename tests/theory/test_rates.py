"""How often what fails as printed fails."""

import numpy as np
import pytest

from crosstraj.theory.rates import RATES, STEPS, rates


@pytest.mark.parametrize("name", RATES)
def test_what_fails_as_printed_fails_often(name: str) -> None:
    shares = [sweep.violated / sweep.held for sweep in rates(name, 20, np.random.default_rng(5))]
    assert shares[0] > 0
    assert shares[-1] > 0.02


@pytest.mark.parametrize("name", ["F1 aligned with one, leaves", "F2 aligned first half, leaves"])
def test_longer_steps_and_more_dimensions_fail_more_often(name: str) -> None:
    found = [rates(f"{name}; step {step:g}", 20, np.random.default_rng(5)) for step in STEPS]
    shares = np.array([[sweep.violated / sweep.held for sweep in row] for row in found])
    assert (np.diff(shares, axis=0) > 0).all()
    assert (np.diff(shares, axis=1) > 0).all()
