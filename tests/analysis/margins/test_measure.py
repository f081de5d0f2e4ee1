"""Margins and shares, planted and by hand."""

import json

import numpy as np
import pytest
import torch
from torch import Tensor

from crosstraj.analysis.margins.measure import measure, potentials, summary
from crosstraj.nn import ops
from crosstraj.nn.sinkhorn import log_sinkhorn, sinkhorn
from tests.helpers import rng


def at(*degrees: float) -> Tensor:
    """Vectors in the plane, of different lengths: only their direction may matter."""
    angle = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    length = torch.arange(1, len(degrees) + 1)
    return torch.stack([angle.cos(), angle.sin()], dim=1) * length[:, None]


def test_planted_margins_and_shares_are_found() -> None:
    # Prototypes at 0 and 90 degrees: the border is at 45. Views 45, 25 and 5 degrees away from it.
    views = at(0, 20, 50)
    found = measure(
        torch.eye(2),
        views,
        {"turn": at(10, 44, 40), "none": 7 * views},
        temperature=0.3,
        rounds=3,
        rng=np.random.default_rng(0),
    )
    margin = np.sin(np.deg2rad([45, 25, 5]))  # .7071, .4226, .0872
    assert found.margin["scores"] == pytest.approx(margin)
    # Turned by 10, 24 and 10 degrees: chords of .1743, .4158 and .1743; the third leaves.
    assert found.moved["turn"].change == pytest.approx(2 * np.sin(np.deg2rad([5, 12, 5])))
    assert found.moved["turn"].ratio["scores"] == pytest.approx([0.2465, 0.9839, 2.0], abs=1e-4)
    assert found.moved["turn"].share["scores"] == pytest.approx((2 / 3, 2 / 3))
    assert found.moved["none"].share["scores"] == (1.0, 1.0)
    assert found.used["scores"] == 2


def test_a_view_beyond_its_margin_may_still_keep_its_cluster() -> None:
    # Away from the border: not inside the margin, and yet the same cluster.
    found = measure(
        torch.eye(2),
        at(40, 100),
        {"away": at(10, 100)},
        temperature=0.3,
        rounds=3,
        rng=np.random.default_rng(0),
    )
    assert found.moved["away"].share["scores"] == (0.5, 1.0)


def test_potentials_by_hand() -> None:
    # Rows 2/3, 1/3 and 8/9, 1/9: the columns hold 14/9 and 4/9, and are divided by that.
    scores = torch.tensor([[2.0, 1.0], [8.0, 1.0]]).log()
    found = potentials(scores, rounds=1)
    assert float(found[0] - found[1]) == pytest.approx(np.log(4 / 14), abs=1e-6)


def test_margins_of_codes_are_those_of_sinkhorns_own_clusters() -> None:
    views, prototypes = torch.randn(60, 8, generator=rng(1)), torch.randn(6, 8, generator=rng(2))
    views, prototypes = ops.unit(views + 1), ops.unit(prototypes)
    scores = views @ prototypes.T / 0.1
    code = sinkhorn(scores, 3)
    assert (code.argmax(1) != scores.argmax(1)).any()
    assert ((scores + potentials(scores, 3)).argmax(1) == code.argmax(1)).all()
    found = measure(prototypes, views, {}, temperature=0.1, rounds=3, rng=np.random.default_rng(0))
    assert found.agree == pytest.approx(float((code.argmax(1) == scores.argmax(1)).double().mean()))
    assert found.used["codes"] == len(code.argmax(1).unique())
    # log code_j - log code_k is (score_j - score_k + offsets) / temperature
    log_code = log_sinkhorn(scores, 3).double()
    best = log_code.argmax(1)
    gap = 0.1 * (log_code.max(1, keepdim=True).values - log_code)
    apart = torch.cdist(prototypes.double(), prototypes.double())[best]
    slow = torch.where(apart > 1e-9, gap / apart, torch.inf).min(1).values
    assert found.margin["codes"] == pytest.approx(slow.numpy(), abs=1e-5)


def test_the_summary_holds_plain_numbers() -> None:
    found = measure(
        torch.eye(2), at(0, 80), {"turn": at(1, 80)}, temperature=0.3, rounds=1,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    figures = json.loads(json.dumps(summary(found)))
    assert figures["margin"]["scores"]["50%"] == pytest.approx(
        (np.sin(np.pi / 4) + np.sin(np.deg2rad(35))) / 2
    )
