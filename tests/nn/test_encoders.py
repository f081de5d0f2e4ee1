"""Shapes, initialisation, cost and the piecewise encoder."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from crosstraj.nn.encoders import Encode, Impala, Residual, pool
from crosstraj.nn.heads import FiLM, projection
from crosstraj.policies.ppo import PPOAgent
from tests.helpers import rng
from tests.nn.frames import frames


def impala(kind="impala", norm="none", image=(64, 64, 3), pooling="none") -> Impala:
    return Impala(image, kind, norm, rng(), pooling)


def cost(encoder: nn.Module, side: int = 64) -> float:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        encoder(frames(4, side))
    return counter.get_total_flops() / 4


def test_impala_has_the_parameters_and_the_cost_of_the_reference():
    encoder = impala()
    assert sum(p.numel() for p in encoder.parameters()) == 622_144
    assert cost(encoder) == pytest.approx(61.2e6, rel=0.01)
    assert encoder(frames(2)).shape == (2, 256)
    agent = PPOAgent((64, 64, 3), 15, encoder="impala", feature_norm="none", context=0, rng=rng())
    assert sum(p.numel() for p in agent.parameters()) == 622_144 + 3_855 + 257


def test_the_laptop_encoder_costs_a_quarter():
    assert 0.2 < cost(impala("laptop")) / cost(impala()) < 0.3


def convolutions(*sides_and_channels: tuple[int, int, int]) -> int:
    """Operations of 3x3 convolutions, each by the side of its result and its channels."""
    return sum(2 * 9 * side**2 * ins * outs for side, ins, outs in sides_and_channels)


def test_the_slim_encoder_keeps_the_resolution_and_costs_42_percent():
    encoder = impala("slim")
    first = convolutions((64, 3, 16), (32, 16, 16), (32, 16, 16))
    second = convolutions((32, 16, 16), (16, 16, 16), (16, 16, 16))
    third = convolutions((16, 16, 32), (8, 32, 32), (8, 32, 32))
    assert cost(encoder) == first + second + third + 2 * 2048 * 256 == 25_821_184
    assert round(cost(encoder) / cost(impala()), 2) == 0.42
    assert encoder.map(frames(2)).shape == (2, 32, 8, 8)
    assert sum(isinstance(module, Residual) for module in encoder.modules()) == 3


@pytest.mark.parametrize("kind", ["impala", "slim", "laptop"])
def test_a_forward_pass_costs_what_the_page_on_performance_says(kind):
    costs = [cost(impala(kind, pooling=pooling)) / 1e6 for pooling in ("none", "mean", "pyramid")]
    share = costs[0] * 1e6 / cost(impala())
    row = " | ".join([f"`{kind}`", *(f"{value:.1f}" for value in costs), f"{share:.0%}"])
    assert f"| {row.replace('%', ' %')} |" in Path("docs/performance.md").read_text()


@pytest.mark.parametrize("pooling", ["none", "mean", "pyramid"])
@pytest.mark.parametrize("image", [(210, 160, 3), (32, 32, 1), (7, 9, 2), (64, 64, 12)])
@pytest.mark.parametrize("kind", ["impala", "laptop", "slim"])
def test_images_of_any_size_are_encoded(image, kind, pooling):
    encoder = impala(kind, image=image, pooling=pooling)
    pixels = torch.randint(256, (3, *image), generator=rng(), dtype=torch.uint8)
    assert encoder(pixels).shape == (3, 256)


def test_weights_are_xavier_and_orthogonal_with_zero_bias_and_small_policy():
    agent = PPOAgent((64, 64, 3), 15, encoder="impala", feature_norm="none", context=0, rng=rng())
    for module in agent.modules():
        if isinstance(module, nn.Conv2d):
            fan = 9 * (module.in_channels + module.out_channels)
            bound = math.sqrt(6 / fan)
            assert float(module.weight.detach().abs().max()) <= bound
            assert float(module.weight.detach().std()) == pytest.approx(
                bound / math.sqrt(3), rel=0.15
            )
        if isinstance(module, nn.Conv2d | nn.Linear):
            assert not module.bias.any()
    last = agent.encoder.last.weight
    torch.testing.assert_close(last @ last.T, 2 * torch.eye(256), atol=1e-4, rtol=0)
    policy, value = agent.policy.weight, agent.value.weight
    torch.testing.assert_close(policy @ policy.T, 1e-4 * torch.eye(15), atol=1e-8, rtol=0)
    assert float(value.detach().norm()) == pytest.approx(1.0)


def test_the_skip_path_is_not_rectified():
    block = impala().stages[2]
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.zero_()
    x = -torch.ones(1, 16, 4, 4)
    assert torch.equal(block(x), x)


def test_building_networks_leaves_the_global_generator_alone_and_obeys_its_own():
    before = torch.get_rng_state()
    first, second = impala(), impala()
    projection(8, 8, "batch", rng())
    FiLM(3, 8, rng())
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.last.weight, second.last.weight)
    assert not torch.equal(
        first.last.weight, Impala((64, 64, 3), "impala", "none", rng(1)).last.weight
    )


def test_features_with_layer_norm_have_one_scale_and_nothing_to_learn_it_away():
    features = impala(norm="layer")(frames(3))
    torch.testing.assert_close(features.mean(1), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(features.std(1, correction=0), torch.ones(3), atol=1e-3, rtol=0)
    assert not list(impala(norm="layer").norm.parameters())


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("piece", [3, 5, 100])
def test_encoding_in_pieces_gives_the_values_and_gradients_of_the_whole(piece, low_memory):
    encoder, batch = impala("laptop"), frames(10)
    whole = encoder(batch)
    direction = torch.randn(whole.shape, generator=rng())
    (whole * direction).sum().backward()
    expected = {name: p.grad.clone() for name, p in encoder.named_parameters()}
    encoder.zero_grad()
    encode = Encode(encoder, live=True, piece=piece, low_memory=low_memory)
    pieces = encode(batch)
    torch.testing.assert_close(pieces, whole, atol=1e-5, rtol=1e-4)
    (pieces * direction).sum().backward()
    for name, parameter in encoder.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], atol=1e-4, rtol=1e-3)


def test_a_gradient_free_encoder_gives_features_without_a_graph():
    assert not Encode(impala("laptop"), live=False, piece=4)(frames(6)).requires_grad
    assert Encode(impala("laptop"), live=True, piece=4)(frames(6)).requires_grad


@pytest.mark.parametrize("low_memory", [False, True])
def test_the_map_and_the_last_layer_together_are_the_encoder(low_memory):
    encoder, batch = impala("laptop", norm="layer"), frames(10)
    encode = Encode(encoder, live=True, piece=4, low_memory=low_memory)
    spatial = encode.map(batch)
    assert spatial.shape == (10, 32, 4, 4)
    torch.testing.assert_close(encode.project(spatial), encode(batch))
    encode.project(spatial).sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


def test_a_gradient_free_last_layer_passes_the_gradient_to_its_input_and_keeps_none():
    encoder = impala("laptop")
    encode = Encode(encoder, live=False, piece=4)
    assert not encode.map(frames(6)).requires_grad
    imagined = torch.rand(2, 32, 4, 4, generator=rng(), requires_grad=True)
    features = encode.project(imagined)
    torch.testing.assert_close(features, encoder.project(imagined))
    features.sum().backward()
    assert imagined.grad is not None
    assert imagined.grad.any()
    assert all(p.grad is None for p in encoder.parameters())
    assert all(p.requires_grad for p in encoder.parameters())  # as it was


def test_a_target_is_encoded_by_its_own_network_without_a_gradient():
    online, target = impala("laptop"), Impala((64, 64, 3), "laptop", "none", rng(5))
    seen = Encode(online, live=True, piece=4).on(target)(frames(6))
    torch.testing.assert_close(seen, target(frames(6)).detach())
    assert not seen.requires_grad


def test_a_map_is_pooled_over_all_of_it_and_by_quarters():
    spatial = torch.arange(32.0).view(1, 2, 4, 4)  # two channels, the second 16 above the first
    quarters = [2.5, 4.5, 10.5, 12.5]  # top left, top right, bottom left, bottom right
    higher = [value + 16 for value in quarters]
    assert pool(spatial, "none").tolist() == [list(range(32))]
    assert pool(spatial, "mean").tolist() == [[7.5, 23.5]]
    assert pool(spatial, "pyramid").tolist() == [[*quarters, *higher, 7.5, 23.5]]


@pytest.mark.parametrize(("pooling", "reads"), [("none", 2048), ("mean", 32), ("pyramid", 160)])
@pytest.mark.parametrize("kind", ["impala", "slim"])
def test_pooling_stands_between_the_map_and_the_last_layer(kind, pooling, reads):
    encoder, plain = impala(kind, pooling=pooling), impala(kind)
    spatial = encoder.map(frames(3))
    assert torch.equal(spatial, plain.map(frames(3)))  # the convolutions are drawn first
    assert encoder.last.weight.shape == (256, reads)
    expected = torch.relu(pool(spatial, pooling) @ encoder.last.weight.T)
    torch.testing.assert_close(encoder(frames(3)), expected)
    encoder(frames(3)).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in encoder.stages.parameters())
