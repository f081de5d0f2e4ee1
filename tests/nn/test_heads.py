"""Heads: FiLM, projections, residual layers, and readers of keypoints."""

import pytest
import torch
from torch import nn

from crosstraj.nn.heads import FiLM, Recurrent, ResidualMLP, projection, view_encoder
from tests.helpers import rng


def test_film_scales_and_shifts_by_the_action_of_each_frame():
    film = FiLM(4, 6, rng())
    features = torch.randn(5, 6, generator=rng(1))
    action = torch.tensor([0, 3, 3, 1, 0])
    result = film(features, action)
    for i in range(5):
        onehot = torch.zeros(4)
        onehot[action[i]] = 1.0
        out = film.net(onehot)
        torch.testing.assert_close(result[i], (1 + out[:6]) * features[i] + out[6:])
    with torch.no_grad():
        film.net[2].weight.zero_()
    torch.testing.assert_close(film(features, action), features)  # zero scale and shift: identity


@pytest.mark.parametrize(("norm", "kind"), [("batch", nn.BatchNorm1d), ("layer", nn.LayerNorm)])
def test_projection_heads_normalise_between_their_layers_when_asked(norm, kind):
    assert isinstance(projection(6, 4, norm, rng())[1], kind)
    plain = projection(6, 4, "none", rng())
    x = torch.randn(3, 6, generator=rng(1))
    hidden = (x @ plain[0].weight.T).relu()
    torch.testing.assert_close(plain(x), hidden @ plain[3].weight.T)


def test_a_residual_mlp_adds_a_linear_and_a_rectified_path():
    block, x = ResidualMLP(3, 4, rng()), torch.randn(5, 3, generator=rng(1))
    rectified = torch.relu(x @ block.hidden.weight.T) @ block.out.weight.T
    torch.testing.assert_close(block(x), x @ block.skip.weight.T + rectified)


@pytest.mark.parametrize("keypoints", [1, 3])
def test_the_recurrent_reader_is_a_gru_over_keypoints_in_time_order(keypoints):
    """The equations of a GRU (Cho et al., 2014) as torch has them, one step and gate at a time."""
    reader = Recurrent(keypoints, 256, 6, rng())
    with torch.no_grad():
        for index, p in enumerate(reader.parameters()):
            p.copy_(0.3 * torch.randn(p.shape, generator=rng(index)))
    u = torch.randn(5, keypoints * 256, generator=rng(9))
    found = reader(u)
    cell = reader.cell
    into, within = cell.weight_ih_l0.chunk(3), cell.weight_hh_l0.chunk(3)
    bias_into, bias_within = cell.bias_ih_l0.chunk(3), cell.bias_hh_l0.chunk(3)
    for row in range(5):
        h = torch.zeros(6)
        for t in range(keypoints):
            x = u[row, 256 * t : 256 * (t + 1)]
            a = [into[g] @ x + bias_into[g] for g in range(3)]
            b = [within[g] @ h + bias_within[g] for g in range(3)]
            reset, update = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
            new = torch.tanh(a[2] + reset * b[2])
            h = (1 - update) * new + update * h
        torch.testing.assert_close(found[row], h)


def test_view_encoders_draw_from_their_own_generator_alone():
    before = torch.random.get_rng_state()
    for kind in ("mlp", "rnn"):
        first, second = (view_encoder(kind, 2, 256, 8, "none", rng(4)) for _ in range(2))
        other = view_encoder(kind, 2, 256, 8, "none", rng(5))
        pairs = zip(first.parameters(), second.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
        assert any(
            not torch.equal(a, b)
            for a, b in zip(first.parameters(), other.parameters(), strict=True)
        )
        assert first(torch.randn(3, 512, generator=rng())).shape == (3, 8)
    assert torch.equal(torch.random.get_rng_state(), before)
    gates = Recurrent(2, 256, 8, rng()).cell.weight_hh_l0.chunk(3)
    for gate in gates:
        torch.testing.assert_close(gate @ gate.T, torch.eye(8), atol=1e-5, rtol=0)
