"""Sinkhorn: against the plain loop, and where it could overflow."""

import pytest
import torch

from crosstraj.nn import ops
from crosstraj.nn.sinkhorn import sinkhorn
from tests.helpers import rng


def plain_sinkhorn(scores: torch.Tensor, rounds: int) -> torch.Tensor:
    """In the plain domain, element by element, in double precision."""
    code = torch.softmax(scores.double(), dim=1)
    rows, columns = code.shape
    for _ in range(rounds):
        for c in range(columns):
            code[:, c] = code[:, c] / sum(float(code[i, c]) for i in range(rows))
        for i in range(rows):
            code[i] = code[i] / sum(float(code[i, c]) for c in range(columns))
    return code


@pytest.mark.parametrize(
    ("rows", "columns", "rounds"), [(12, 5, 3), (4, 9, 3), (6, 6, 1), (5, 3, 0)]
)
def test_sinkhorn_equals_the_plain_loop(rows, columns, rounds):
    scores = torch.randn(rows, columns, generator=rng()) / 0.3
    expected = plain_sinkhorn(scores, rounds)
    torch.testing.assert_close(sinkhorn(scores, rounds).double(), expected, atol=1e-6, rtol=1e-5)


def test_sinkhorn_assigns_every_view_fully_and_fills_clusters_ever_more_equally():
    scores = torch.randn(60, 10, generator=rng()) / 0.1
    worst = []
    for rounds in (0, 1, 3, 300):
        code = sinkhorn(scores, rounds)
        torch.testing.assert_close(code.sum(1), torch.ones(60))
        worst.append(float((code.sum(0) - 6.0).abs().max()))  # B / C = 6 views per cluster
    assert worst[0] > worst[1] > worst[2] > worst[3]
    assert worst[3] < 0.05


def test_sinkhorn_ignores_a_constant_added_to_a_row_but_not_to_a_column():
    scores = torch.randn(20, 6, generator=rng())
    shifted = scores + torch.linspace(-50, 50, 20)[:, None]
    torch.testing.assert_close(sinkhorn(shifted, 3), sinkhorn(scores, 3), atol=1e-5, rtol=1e-4)
    tilted = scores + torch.linspace(-3, 3, 6)
    assert not torch.allclose(sinkhorn(tilted, 1), sinkhorn(scores, 1), atol=1e-3)


def test_sinkhorn_of_equal_scores_is_uniform():
    torch.testing.assert_close(sinkhorn(torch.zeros(7, 4), 3), torch.full((7, 4), 0.25))


@pytest.mark.parametrize("shape", [(1, 5), (5, 40), (40, 5)])
def test_sinkhorn_is_finite_when_sharp_and_with_more_clusters_than_views(shape):
    scores = ops.unit(torch.randn(*shape, generator=rng())) / 0.01
    for extreme in (scores, torch.randn(*shape, generator=rng()) * 1e4):
        code = sinkhorn(extreme, 3)
        assert code.isfinite().all()
        torch.testing.assert_close(code.sum(1), torch.ones(shape[0]))


def test_sinkhorn_stays_in_single_precision_when_scores_are_halves():
    code = sinkhorn((torch.randn(8, 4, generator=rng()) / 0.05).half(), 3)
    assert code.dtype == torch.float32
    torch.testing.assert_close(code.sum(1), torch.ones(8))
