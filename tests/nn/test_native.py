"""The C kernels are held to torch's: same to rounding; the same bits on any number of threads."""

import copy
import shutil

import pytest
import torch

from crosstraj.errors import BadInput
from crosstraj.nn.encoders import EncoderKind, Impala

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc is not there")


def encoders(kind: EncoderKind) -> tuple[Impala, Impala]:
    """The same weights twice: torch's kernels, ours."""
    pair = tuple(
        Impala((64, 64, 3), kind, "none", torch.Generator().manual_seed(0)) for _ in range(2)
    )
    for encoder in pair:
        with torch.no_grad():
            for name, parameter in encoder.named_parameters():
                if name.endswith("bias"):
                    parameter.uniform_(-0.1, 0.1, generator=torch.Generator().manual_seed(1))
    pair[1].use_native()
    return pair[0], pair[1]


@pytest.fixture(params=["impala", "laptop", "slim"])
def kind(request: pytest.FixtureRequest) -> EncoderKind:
    return request.param


def frames(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randint(256, (count, 64, 64, 3), generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("count", [1, 5, 16])
def test_native_values_and_gradients_equal_torchs(count, kind):
    plain, native = encoders(kind)
    direction = torch.randn(count, 256, generator=torch.Generator().manual_seed(3))
    results = []
    for encoder in (plain, native):
        features = encoder(frames(count))
        (features * direction).sum().backward()
        results.append(features)
    torch.testing.assert_close(results[1], results[0], atol=1e-4, rtol=1e-4)
    for (name, mine), theirs in zip(native.named_parameters(), plain.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        scale = float(theirs.grad.abs().max())
        torch.testing.assert_close(mine.grad, theirs.grad, atol=2e-4 * scale, rtol=1e-3, msg=name)


SIZES = {  # height, width, channels: small, wide, stacked, grey
    "impala": [(8, 8, 3), (16, 40, 3), (72, 24, 6), (56, 88, 1)],
    "laptop": [(16, 16, 3), (48, 80, 12), (96, 32, 1)],
    "slim": [(8, 8, 1), (24, 104, 9), (84 + 4, 16, 4)],
}


@pytest.mark.parametrize(
    ("kind", "image"), [(kind, image) for kind, images in SIZES.items() for image in images]
)
def test_any_size_that_fits_gives_torchs_values_and_gradients(kind, image):
    plain = Impala(image, kind, "none", torch.Generator().manual_seed(0), "mean")
    native = copy.deepcopy(plain)
    native.use_native()
    rng = torch.Generator().manual_seed(4)
    shown = torch.randint(256, (3, *image), generator=rng, dtype=torch.uint8)
    maps = [encoder.map(shown) for encoder in (plain, native)]
    torch.testing.assert_close(maps[1], maps[0], atol=1e-4, rtol=1e-4)
    direction = torch.randn(maps[0].shape, generator=rng)
    for spatial in maps:
        (spatial * direction).sum().backward()
    for (name, mine), theirs in zip(
        native.stages.named_parameters(), plain.stages.parameters(), strict=True
    ):
        scale = float(theirs.grad.abs().max())
        torch.testing.assert_close(mine.grad, theirs.grad, atol=2e-4 * scale, rtol=1e-3, msg=name)


@pytest.mark.parametrize(
    ("kind", "image", "words"),
    [
        ("impala", (84, 84, 4), "frames of 84 x 84 do not fit .* multiples of 8"),
        ("laptop", (72, 72, 3), "frames of 72 x 72 do not fit .* multiples of 16"),
    ],
)
def test_a_size_that_does_not_fit_is_refused_in_words(kind, image, words):
    with pytest.raises(BadInput, match=words):
        Impala(image, kind, "none", torch.Generator().manual_seed(0)).use_native()


@pytest.mark.parametrize("pooling", ["mean", "pyramid"])
def test_native_maps_are_pooled_as_torchs_are(pooling, kind):
    plain = Impala((64, 64, 3), kind, "none", torch.Generator().manual_seed(0), pooling)
    native = copy.deepcopy(plain)
    native.use_native()
    results = [encoder(frames(3)) for encoder in (plain, native)]
    for features in results:
        features.square().sum().backward()
    torch.testing.assert_close(results[1], results[0], atol=1e-4, rtol=1e-4)
    theirs, mine = plain.stages[0].weight.grad, native.stages[0].weight.grad
    torch.testing.assert_close(mine, theirs, atol=2e-4 * float(theirs.abs().max()), rtol=1e-3)


def test_native_without_gradient_gives_the_same_features(kind):
    _, native = encoders(kind)
    with torch.no_grad():
        without = native(frames(6))
    assert torch.equal(without, native(frames(6)))
    assert not without.requires_grad


def test_native_bits_do_not_depend_on_the_number_of_threads(kind):
    def bits() -> list[bytes]:
        _, native = encoders(kind)
        native.map(frames(13)).square().sum().backward()
        parameters = native.stages.parameters()
        return [p.grad.contiguous().numpy().tobytes() for p in parameters if p.grad is not None]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = bits()
        torch.set_num_threads(2)
        assert bits() == alone == bits()
    finally:
        torch.set_num_threads(before)


def test_native_follows_every_change_of_the_weights(kind):
    """By an optimiser, by loading, after acting in inference mode, and in a copy."""
    plain, native = encoders(kind)
    with torch.inference_mode():
        native(frames(2))
    adam = torch.optim.Adam(native.parameters(), lr=0.01)
    native(frames(2)).sum().backward()
    adam.step()
    twin = copy.deepcopy(native)
    plain.load_state_dict(native.state_dict())
    torch.testing.assert_close(native(frames(2)), plain(frames(2)), atol=1e-4, rtol=1e-4)
    native.load_state_dict({name: 0.5 * value for name, value in plain.state_dict().items()})
    torch.testing.assert_close(twin(frames(2)), plain(frames(2)), atol=1e-4, rtol=1e-4)
    plain.load_state_dict(native.state_dict())
    torch.testing.assert_close(native(frames(2)), plain(frames(2)), atol=1e-4, rtol=1e-4)
