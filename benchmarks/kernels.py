"""What binds: the convolution kernels alone, without anything around them, against the same limit.

IMPALA is convolutions. If these reach x % of the matrix-multiplication rate, no loop built on them
can reach more. Torch's are timed layer by layer: the weight gradient is the slow one on processors
without AVX-512. Ours go through all layers at once, pooling and relu among them.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from crosstraj.nn.encoders import Impala


class Kernel(NamedTuple):
    flops: float  # of one pass
    forward: float  # seconds
    data: float  # gradient by the input; 0 for the first layer, whose input needs none
    weight: float  # gradient by the weights


def layers(piece: int) -> list[tuple[nn.Conv2d, tuple[int, ...]]]:
    """Every convolution of IMPALA with the shape of its input."""
    encoder = Impala((64, 64, 3), "impala", "none", torch.Generator().manual_seed(0))
    found: list[tuple[nn.Conv2d, tuple[int, ...]]] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(module, nn.Conv2d)
        found.append((module, tuple(inputs[0].shape)))

    for module in encoder.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(note)
    with torch.no_grad():
        encoder(torch.zeros(piece, 64, 64, 3, dtype=torch.uint8))
    return found


def seconds(run: Callable[[], Any], repeats: int = 5) -> float:
    run()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def time_layer(layer: nn.Conv2d, shape: tuple[int, ...], first: bool) -> Kernel:
    channels_last = torch.channels_last
    x = torch.randn(shape).contiguous(memory_format=channels_last)
    w, b = layer.weight.detach(), layer.bias
    assert b is not None
    bias = b.detach()
    y = torch.nn.functional.conv2d(x, w, bias, padding=1)
    dy = torch.randn(y.shape).contiguous(memory_format=channels_last)

    def backward(*mask: bool) -> Any:
        geometry = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
        return torch.ops.aten.convolution_backward(dy, x, w, [w.shape[0]], *geometry, list(mask))

    with torch.no_grad():
        return Kernel(
            flops=2.0 * y.numel() * w[0].numel(),
            forward=seconds(lambda: torch.nn.functional.conv2d(x, w, bias, padding=1)),
            data=0.0 if first else seconds(lambda: backward(True, False, False)),
            weight=seconds(lambda: backward(False, True, True)),
        )


def ceiling(piece: int, limit: Callable[[], float]) -> dict[str, float]:
    """Fractions of the limit that the kernels reach: each kind, acting, and training as a whole."""
    rates = [limit()]
    kernels = []
    for index, (layer, shape) in enumerate(layers(piece)):
        kernels.append(time_layer(layer, shape, first=index == 0))
        rates.append(limit())
    rate = statistics.median(rates)
    flops = sum(k.flops for k in kernels)
    inner = flops - kernels[0].flops
    times = [sum(getattr(k, kind) for k in kernels) for kind in ("forward", "data", "weight")]
    work = (flops, inner, flops)
    return {
        "forward": flops / times[0] / rate,
        "data gradient": inner / times[1] / rate,
        "weight gradient": flops / times[2] / rate,
        "training": sum(work) / sum(times) / rate,
    }


def our_ceiling(piece: int, limit: Callable[[], float]) -> dict[str, float]:
    """The same of our own kernels: acting on 32 frames, forward and back in pieces."""
    shapes = layers(1)
    flops = sum(2.0 * shape[2] * shape[3] * layer.weight.numel() for layer, shape in shapes)
    first, shape = shapes[0]
    back = 2 * flops - 2.0 * shape[2] * shape[3] * first.weight.numel()
    encoder = Impala((64, 64, 3), "impala", "none", torch.Generator().manual_seed(0))
    encoder.use_native()
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(256, (piece, 64, 64, 3), dtype=torch.uint8, generator=generator)
    ends = [torch.ones_like(encoder.map(frames))]

    @torch.no_grad()
    def act() -> None:
        encoder.map(frames[:32])

    def forward() -> None:
        ends[:] = [encoder.map(frames)]

    times, rates = dict[str, list[float]](acting=[], forward=[], backward=[]), []
    for _ in range(5):
        rates.append(limit())
        times["acting"].append(seconds(act))
        times["forward"].append(seconds(forward))
        began = time.perf_counter()
        ends[0].backward(torch.ones_like(ends[0]))
        times["backward"].append(time.perf_counter() - began)
    spent = {kind: statistics.median(values) for kind, values in times.items()}
    rate = statistics.median(rates)
    training = piece * (flops + back) / (spent["forward"] + spent["backward"]) / rate
    return {
        "acting": 32 * flops / spent["acting"] / rate,
        "forward": piece * flops / spent["forward"] / rate,
        "backward": piece * back / spent["backward"] / rate,
        "training": training,
    }
