"""Optimisers: moments, bounds of the gradient, and what is not finite."""

import pytest
import torch
from torch import nn

from crosstraj.errors import NonFinite
from crosstraj.learning.optimiser import Averages, Optimiser


def test_a_parameter_without_a_gradient_does_not_move_and_a_bound_holds():
    a, b = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    optimiser = Optimiser(({"a": a, "b": b}, 0.1), epsilon=1e-5, max_norm=0.5)
    for _ in range(3):
        optimiser.zero()
        (a * torch.tensor([3.0, 0.0, 4.0])).sum().backward()
        norm = optimiser.step()
        assert float(norm) == pytest.approx(5.0)
        assert a.grad is not None
        assert float(a.grad.norm()) == pytest.approx(0.5, rel=1e-4)
    assert torch.equal(b, torch.ones(3))
    assert not torch.equal(a, torch.ones(3))


def test_a_state_from_before_the_first_step_takes_the_moments_away():
    a = torch.nn.Parameter(torch.ones(2))
    optimiser = Optimiser(({"a": a}, 0.1), epsilon=1e-5, max_norm=0.5)
    fresh = optimiser.state_dict()
    a.sum().backward()
    optimiser.step()
    assert optimiser.state_dict()["a"]
    optimiser.load_state_dict(fresh)
    assert optimiser.state_dict() == {"a": {}}


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_never_reaches_the_weights(poison):
    a = torch.nn.Parameter(torch.ones(2))
    optimiser = Optimiser(({"layer.a": a}, 0.1), epsilon=1e-5, max_norm=0.5)
    (a * poison).sum().backward()
    with pytest.raises(NonFinite, match=r"layer\.a"):
        optimiser.step()
    assert torch.equal(a, torch.ones(2))


def test_averages_are_means_and_refuse_what_is_not_finite():
    averages = Averages()
    for value in (1.0, 2.0, 6.0):
        averages.add(loss=torch.tensor(value))
    averages.add(once=torch.tensor(5.0))
    assert averages.numbers() == {"loss": 3.0, "once": 5.0}
    averages.add(loss=torch.tensor(float("nan")))
    with pytest.raises(NonFinite, match="loss"):
        averages.numbers()


def test_what_was_measured_in_some_minibatches_is_averaged_over_these():
    averages = Averages()
    for ratio, scale in ((2.0, 1.0), (float("nan"), float("nan")), (4.0, float("nan"))):
        averages.add_known(ratio=torch.tensor(ratio), scale=torch.tensor(scale))
    averages.add_known(never=torch.tensor(float("nan")))
    assert averages.numbers() == {"ratio": 3.0, "scale": 1.0}
    averages.add_known(ratio=torch.tensor(float("inf")))
    with pytest.raises(NonFinite, match="ratio"):
        averages.numbers()


def test_a_trial_step_is_adams_without_momentum_and_leaves_no_trace():
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimiser = Optimiser(({"x": parameter}, 0.1), epsilon=1e-8, max_norm=1e9)
    for gradient in ([1.0, 2.0], [3.0, 0.5]):
        parameter.grad = torch.tensor(gradient)
        optimiser.step()
    kept = parameter.detach().clone()
    # v after two steps: .001 (.999 g1^2 + g2^2), over 1 - .999^2.
    scale = [((0.999 * a * a + b * b) / 1.999) ** 0.5 for a, b in ((1, 3), (2, 0.5))]
    with optimiser.tried({"x": torch.tensor([4.0, 1.0])}):
        moved_by = (parameter - kept).tolist()
    assert moved_by == pytest.approx([-0.1 * 4 / scale[0], -0.1 * 1 / scale[1]], rel=1e-4)
    assert torch.equal(parameter, kept)


def test_bounding_the_gradient_is_that_of_torch() -> None:
    g = torch.Generator().manual_seed(0)
    ours, theirs = (
        {name: nn.Parameter(torch.ones(5)) for name in ("with", "without")} for _ in range(2)
    )
    optimiser = Optimiser((ours, 0.1), epsilon=1e-5, max_norm=0.5)
    adam = torch.optim.Adam(theirs.values(), 0.1, eps=1e-5)
    for _ in range(3):
        gradient = torch.randn(5, generator=g)
        ours["with"].grad, theirs["with"].grad = gradient.clone(), gradient.clone()
        norm = nn.utils.clip_grad_norm_(theirs.values(), 0.5)
        adam.step()
        assert torch.equal(optimiser.step(), norm)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
