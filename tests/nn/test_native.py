"""The C kernels are held to torch's: same to rounding; the same bits on any number of threads."""

import copy
import shutil
from pathlib import Path

import pytest
import torch

from crosstraj.errors import BadInput
from crosstraj.nn import native
from crosstraj.nn.encoders import SHAPES, EncoderKind, Impala

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


@pytest.fixture
def forgetful():
    native.library.cache_clear()
    yield
    native.library.cache_clear()


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("CC", "false", "false failed"),
        ("CC", "no-such-compiler", "needs a C compiler"),
        ("XDG_CACHE_HOME", "/dev/null", "Not a directory"),
    ],
)
def test_what_cannot_be_compiled_or_kept_is_one_sentence(variable, value, words, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadInput, match=words):
        encoders("laptop")


@pytest.mark.usefixtures("forgetful")
def test_a_library_that_cannot_be_loaded_is_one_sentence(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "whole"))
    native.library(SHAPES["laptop"])
    (built,) = tmp_path.glob("whole/crosstraj/*.so")
    (tmp_path / "torn" / "crosstraj").mkdir(parents=True)
    (tmp_path / "torn" / "crosstraj" / built.name).write_bytes(b"torn")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "torn"))
    native.library.cache_clear()
    with pytest.raises(BadInput, match=r"use machine\.kernels=torch"):
        native.library(SHAPES["laptop"])
