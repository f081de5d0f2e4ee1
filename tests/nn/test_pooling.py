"""Our max pooling is held to torch's: the same values, winners and gradients in bfloat16."""

import shutil

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj.nn.encoders import Impala
from crosstraj.nn.pooling import MaxPool

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc is not there")


def ours() -> MaxPool:
    pool = MaxPool()
    pool.use_native()
    return pool


def images(*shape: int, seed: int = 0) -> Tensor:
    """Channels-last, in bfloat16; many values are equal, so that order decides who wins."""
    rng = torch.Generator().manual_seed(seed)
    whole = torch.randint(-4, 5, shape, generator=rng).to(torch.bfloat16)
    return whole.to(memory_format=torch.channels_last).requires_grad_()


@pytest.mark.parametrize(
    "shape", [(5, 16, 64, 64), (3, 32, 16, 8), (1, 48, 2, 2), (2, 16, 2, 6), (2, 16, 6, 2)]
)
def test_values_and_gradients_equal_torchs(shape):
    mine, theirs = images(*shape), images(*shape)
    got, wanted = ours()(mine), F.max_pool2d(theirs, 3, 2, 1)
    assert torch.equal(got, wanted)
    # Small whole numbers: sums of four are exact in bfloat16, however they are rounded.
    direction = images(*wanted.shape, seed=1).detach()
    got.backward(direction)
    wanted.backward(direction)
    assert torch.equal(mine.grad, theirs.grad)


def test_a_gradient_from_several_windows_is_rounded_once_and_to_even():
    """The pixel between four windows wins in all of them; 256 and three small numbers by hand."""
    for parts, total in (((256, 1, 1, 1), 260), ((256, 1, 0, 0), 256), ((258, 1, 0, 0), 260)):
        x = torch.zeros(1, 16, 4, 4, dtype=torch.bfloat16)
        x[..., 1, 1] = 1
        x.requires_grad_()
        pooled = ours()(x)
        grad = torch.tensor(parts, dtype=torch.bfloat16).view(1, 1, 2, 2).expand_as(pooled)
        pooled.backward(grad)
        assert x.grad[0, :, 1, 1].unique().tolist() == [total]
        assert x.grad.sum() == 16 * total


def test_what_is_not_finite_wins_or_loses_as_in_torch():
    x = images(2, 16, 8, 8).detach().clone()
    x[0, :, 3, 3], x[0, :, 6, 0] = float("nan"), -float("nan")
    x[1, :, 1, 1], x[1, :, 4:, 4:] = float("inf"), -float("inf")
    with torch.no_grad():
        torch.testing.assert_close(ours()(x), F.max_pool2d(x, 3, 2, 1), equal_nan=True)


def test_bits_do_not_depend_on_threads_nor_on_whether_a_gradient_follows():
    before, found = torch.get_num_threads(), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        x = images(7, 16, 16, 16)
        pooled = ours()(x)
        pooled.backward(images(*pooled.shape, seed=2).detach())
        with torch.no_grad():
            found.append((pooled.detach(), ours()(x), x.grad))
    torch.set_num_threads(before)
    assert torch.equal(found[0][0], found[0][1])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(1, 16, 6, 6),
        torch.ones(1, 16, 5, 6).bfloat16(),
        torch.ones(1, 3, 6, 6).bfloat16(),
    ],
)
def test_what_ours_is_not_made_for_goes_to_torchs(x):
    assert torch.equal(ours()(x), F.max_pool2d(x, 3, 2, 1))


@pytest.mark.parametrize("kind", ["impala", "laptop", "slim"])
def test_an_encoder_in_bfloat16_gives_the_same_features_and_nearly_the_same_gradients(kind):
    """Values to the bit; gradients differ by the rounding of sums of at most four."""
    frames = torch.randint(256, (6, 64, 64, 3), generator=torch.Generator().manual_seed(2)).byte()
    found = []
    for native in (False, True):
        encoder = Impala((64, 64, 3), kind, "none", torch.Generator().manual_seed(0))
        encoder.autocast = True
        if native:
            encoder.use_native()
        features = encoder(frames)
        features.square().sum().backward()
        found.append((features, [p.grad for p in encoder.parameters()]))
    (wanted, theirs), (got, mine) = found
    assert torch.equal(got, wanted)
    for one, other in zip(mine, theirs, strict=True):
        assert float((one - other).norm() / other.norm()) < 0.01
    assert not torch.equal(mine[0], theirs[0])  # ours was at work
