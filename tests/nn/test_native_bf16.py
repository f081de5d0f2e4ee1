"""The C kernels in bfloat16 are held to fp32 arithmetic that rounds in the same places."""

import shutil

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj.errors import BadInput
from crosstraj.nn import native
from crosstraj.nn.compiler import has_dot_products
from crosstraj.nn.encoders import SHAPES, EncoderKind, Impala, Residual

needs_bfloat16 = pytest.mark.skipif(
    shutil.which("cc") is None or not has_dot_products(),
    reason="no C compiler, or no AVX512_BF16",
)


class Rounded(torch.autograd.Function):
    """To bfloat16 on the way forward, and nothing on the way back."""

    @staticmethod
    def forward(ctx, x):
        return x.bfloat16().float()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class RoundedGradient(torch.autograd.Function):
    """Nothing on the way forward, to bfloat16 on the way back."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.bfloat16().float()


def convolve(layer: torch.nn.Conv2d, x: Tensor, scale: float = 1.0) -> Tensor:
    weight = Rounded.apply(layer.weight * scale)
    sums = F.conv2d(Rounded.apply(x), weight, layer.bias, layer.stride, padding=1)
    return RoundedGradient.apply(sums)


def rounded_map(encoder: Impala, frames: Tensor) -> Tensor:
    """The encoder's map in fp32, with the kernels' roundings."""
    x = frames.permute(0, 3, 1, 2).float()  # 0 to 255: exact in bfloat16
    for number, layer in enumerate(encoder.stages):
        if isinstance(layer, torch.nn.Conv2d):
            x = Rounded.apply(convolve(layer, x, 1 if number else 1 / 255))
        elif isinstance(layer, Residual):
            inner = convolve(layer.first, F.relu(x))
            x = x + convolve(layer.second, F.relu(inner))
        else:
            x = layer(x)
    return F.relu(x)


@pytest.fixture(params=["impala", "laptop", "slim"])
def encoder(request: pytest.FixtureRequest) -> Impala:
    kind: EncoderKind = request.param
    made = Impala((64, 64, 3), kind, "none", torch.Generator().manual_seed(0))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("bias"):
                parameter.uniform_(-0.1, 0.1, generator=torch.Generator().manual_seed(1))
    made.autocast = True
    made.use_native()
    return made


def frames(count: int, side: int = 64) -> Tensor:
    """Pictures rather than noise: noise hides a gradient that is off by a pixel."""
    generator = torch.Generator().manual_seed(2)
    coarse = torch.rand(count, 3, 9, 9, generator=generator)
    smooth = F.interpolate(coarse, (side, side), mode="bilinear")
    return (255 * smooth).byte().permute(0, 2, 3, 1).contiguous()


def apart(a: Tensor, b: Tensor) -> float:
    return float(((a - b).norm() / b.norm()).detach())


@needs_bfloat16
@pytest.mark.parametrize("count", [1, 5, 17])
def test_values_and_gradients_are_those_of_rounded_arithmetic(encoder, count):
    """To a few in a thousand: sums in another order round to another number now and then."""
    parameters = list(encoder.stages.parameters())
    direction = torch.randn(count, 32, 8, 8, generator=torch.Generator().manual_seed(3))
    mine, slow = encoder.map(frames(count)), rounded_map(encoder, frames(count))
    direction = direction[:, :, : mine.shape[2], : mine.shape[3]]
    assert apart(mine, slow) < 2e-3
    ours = torch.autograd.grad((mine * direction).sum(), parameters)
    theirs = torch.autograd.grad((slow * direction).sum(), parameters)
    for (name, _), a, b in zip(encoder.stages.named_parameters(), ours, theirs, strict=True):
        assert apart(a, b) < 0.02, name


@needs_bfloat16
def test_it_is_as_near_to_fp32_as_torchs_autocast(encoder):
    shown, parameters = frames(8), list(encoder.stages.parameters())
    direction = torch.randn(8, 256, generator=torch.Generator().manual_seed(3))

    def found() -> tuple[Tensor, tuple[Tensor, ...]]:
        features = encoder(shown)
        return features, torch.autograd.grad((features * direction).sum(), parameters)

    ours, own = found()
    encoder.native = None
    torchs, theirs = found()
    encoder.autocast = False
    exact, gradients = found()
    assert apart(ours, exact) < 1.2 * apart(torchs, exact)
    for mine, other, true in zip(own, theirs, gradients, strict=True):
        assert apart(mine, true) < 2 * apart(other, true)


@needs_bfloat16
def test_without_gradient_and_on_any_number_of_threads_the_bits_are_the_same(encoder):
    def bits() -> list[bytes]:
        encoder.zero_grad()
        features = encoder.map(frames(13))
        with torch.no_grad():
            assert torch.equal(encoder.map(frames(13)), features)
        features.square().sum().backward()
        gradients = [p.grad for p in encoder.stages.parameters() if p.grad is not None]
        return [g.contiguous().numpy().tobytes() for g in gradients]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = bits()
        torch.set_num_threads(2)
        assert bits() == alone == bits()
    finally:
        torch.set_num_threads(before)


@needs_bfloat16
def test_it_follows_every_change_of_the_weights(encoder):
    before = encoder.map(frames(2)).detach()
    with torch.no_grad():
        for parameter in encoder.stages.parameters():
            parameter.mul_(0.5)
    after = encoder.map(frames(2)).detach()
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, rounded_map(encoder, frames(2)), atol=2e-3, rtol=2e-2)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ((64, 96, 3), "square frames of three channels"),
        ((64, 64, 6), "square frames of three channels"),
        ((48, 48, 3), "48 x 48 do not fit .* multiples of 32"),
    ],
)
def test_frames_that_do_not_fit_are_refused(image, words):
    with pytest.raises(BadInput, match=words):
        native.prepare_convolutions(SHAPES["slim"], image, bfloat16=True)


def test_a_processor_without_bfloat16_is_told_so(monkeypatch):
    monkeypatch.setattr(native, "has_dot_products", lambda: False)
    with pytest.raises(BadInput, match="need a processor with AVX512_BF16"):
        native.prepare_convolutions(SHAPES["slim"], (64, 64, 3), bfloat16=True)


@needs_bfloat16
@pytest.mark.parametrize("side", [32, 96])
def test_other_square_frames(side):
    encoder = Impala((side, side, 3), "slim", "none", torch.Generator().manual_seed(0))
    encoder.autocast = True
    encoder.use_native()
    shown = frames(3, side)
    assert apart(encoder.map(shown), rounded_map(encoder, shown)) < 2e-3
    parameters = list(encoder.stages.parameters())
    ours = torch.autograd.grad(encoder.map(shown).sum(), parameters)
    theirs = torch.autograd.grad(rounded_map(encoder, shown).sum(), parameters)
    for mine, slow in zip(ours, theirs, strict=True):
        assert apart(mine, slow) < 0.02
