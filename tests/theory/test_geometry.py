"""What is proved of cells, in a sweep."""

import pytest

from crosstraj.theory.geometry import GEOMETRY, sweep_geometry
from tests.theory.slow import rng


@pytest.mark.parametrize("name", GEOMETRY)
def test_no_violation_among_cells(name: str) -> None:
    found = sweep_geometry(name, 10, rng(20))
    assert found.violated == 0
    assert found.held >= 1000
