"""Margins of prototypes by hand."""

import numpy as np
import pytest

from crosstraj.theory.prototype_cells import assign, margins, rotations, unit


def test_margins_of_two_orthogonal_prototypes_by_hand() -> None:
    corners = np.eye(2)
    v = np.array([[2.0, 0.0], [1.0, 0.9], [0.0, 3.0]])
    assert assign(corners, v).tolist() == [0, 0, 1]
    assert margins(corners, v) == pytest.approx(np.array([2, 0.1, 3]) / np.sqrt(2))
    assert margins(corners, v, order=1) == pytest.approx(np.array([2, 0.1, 3]) / 2)
    # an offset of .5 to the second cluster takes the second view
    assert assign(corners, v, np.array([0, 0.5])).tolist() == [0, 1, 1]
    expected = np.array([1.5, 0.4, 3.5]) / np.sqrt(2)
    assert margins(corners, v, np.array([0, 0.5])) == pytest.approx(expected)
    assert rotations(corners, unit(v)) == pytest.approx(np.arcsin(margins(corners, unit(v))))


def test_a_prototype_twice_has_no_border_with_itself() -> None:
    twice = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert margins(twice, np.array([[1.0, 0.0]])) == pytest.approx(1 / np.sqrt(2))
