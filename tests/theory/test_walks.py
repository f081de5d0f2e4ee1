"""Walks: they move as the button says."""

import pytest

from crosstraj.theory.walks import draw_looks, draw_walks
from tests.helpers import rng


def test_a_walk_moves_as_its_button_says_but_for_slips() -> None:
    walks = draw_walks("additive", draw_looks(rng()), 60, 100, rng(1))
    moved = (walks.place[:, 1:] - walks.place[:, :-1] + 1) % 6 - 1
    asked = walks.action % 3 - 1
    # A slip draws one of eight buttons: moves have 3/8, 3/8 and 2/8 of them.
    right = 0.75 + 0.25 * (9 + 9 + 4) / 64
    assert float((moved == asked[:, :-1]).double().mean()) == pytest.approx(right, abs=0.02)
    assert float((moved == asked[:, 1:]).double().mean()) < 0.4  # not the next step's
