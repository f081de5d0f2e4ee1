"""Decision processes: values by a geometric series, and the same ones for a seed."""

import numpy as np
import pytest

from crosstraj.theory.decision_processes import optimal_values, random_policy, random_process
from tests.theory.slow import absorbing, rng


def test_values_of_an_absorbing_state_are_a_geometric_series() -> None:
    assert optimal_values(absorbing(0.0, 1.0), 0.9) == pytest.approx([0, 10], abs=1e-9)


def test_generators_give_processes_and_the_same_ones_for_a_seed() -> None:
    process = random_process(6, 2, rng(9), successors=3)
    assert process.transition.sum(2) == pytest.approx(np.ones((6, 2)))
    assert ((process.transition > 0).sum(2) == 3).all()
    again = random_process(6, 2, rng(9), successors=3)
    assert (process.transition == again.transition).all()
    assert random_policy(6, 2, rng(9)).sum(1) == pytest.approx(np.ones(6))
