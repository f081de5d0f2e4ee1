"""IMPALA's convolutions in C (impala.c): in float32 nearer to a processor's limit than torch's.

Compiled for each size of frames when first asked for. Images are split among threads; gradients are
summed in a fixed order, so that results do not depend on how many threads there are.
"""

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from crosstraj.errors import BadInput
from crosstraj.nn.compiler import compiled

SOURCE = Path(__file__).with_name("impala.c")
Image = tuple[int, int, int]  # height, width, channels
PARTS = 16  # of a batch: shared among threads, and their gradients summed in order


class Shape(NamedTuple):
    """What IMPALA and its cheaper relatives differ in."""

    stride: int  # of the first convolution: 1 or 2
    channels: tuple[int, int, int]  # of the three stages: 16, 16 or 32, 32
    blocks: int  # residual blocks in each stage

    def flags(self) -> tuple[str, ...]:
        """The same for the C compiler."""
        first, second, third = self.channels
        assert (first, third) == (16, 32), "the kernels are written for these"
        return f"-DSTRIDE={self.stride}", f"-DMIDDLE={second}", f"-DBLOCKS={self.blocks}"

    def side(self, pixels: int) -> int:
        """How much of a side is left in the last map."""
        return pixels // (8 * self.stride)


def keep_memory() -> None:
    """Let the process keep memory that it frees, for the sake of speed; glibc only.

    Otherwise the memory of large tensors goes back to the system each time, and every page of it is
    faulted in and zeroed anew: hundreds of faults per training frame.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-4, 0)  # M_MMAP_MAX: never a mapping of its own for a large block
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: never give the top of the heap back


def prepare_convolutions(shape: Shape, image: Image) -> None:
    """Compile the kernels for this image, or say in one sentence why that cannot be."""
    library(shape, image)


def library(shape: Shape, image: Image) -> ctypes.CDLL:
    """The compiled kernels."""
    height, width, channels = image
    step = 8 * shape.stride
    if height % step or width % step:
        raise BadInput(
            f"frames of {height} x {width} do not fit our kernels for this encoder: "
            f"they take multiples of {step}"
        )
    size = (f"-DHEIGHT={height}", f"-DWIDTH={width}", f"-DCHANNELS={channels}")
    return compiled(SOURCE, (*shape.flags(), *size))


def _pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _packed(weight: Tensor) -> Tensor:
    """[co, ci, 3, 3] -> [co/16][ky][kx][ci][16], flat: the order in which the kernel reads."""
    return weight.unflatten(0, (-1, 16)).permute(0, 3, 4, 2, 1).reshape(-1)


def _flat(weights: list[Tensor], biases: list[Tensor]) -> Tensor:
    pairs = zip(weights, biases, strict=True)
    return torch.cat([part for pair in pairs for part in pair])


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, shape: Shape, keep: bool, frames: Tensor, flat: Tensor, *params: Tensor
    ) -> Tensor:
        size, *image = frames.shape
        height, width, channels = image
        lib = library(shape, (height, width, channels))
        out = torch.empty(size, shape.side(height), shape.side(width), 32)
        kept = torch.empty(size, lib.kept()) if keep else None
        given = [_pointer(x) for x in (frames, flat, kept, out)]
        lib.forward(torch.get_num_threads(), size, *given)
        ctx.lib = lib
        if kept is not None:
            ctx.save_for_backward(frames, kept, out, *params)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        frames, kept, out, *params = ctx.saved_tensors
        weights, biases = params[::2], params[1::2]
        # The first layer's input needs no gradient, so nothing is turned there.
        turned = [_packed(w.flip(2, 3).transpose(0, 1)) for w in weights[1:]]
        flat = _flat([weights[0].reshape(-1), *turned], biases)
        sums, grad = torch.zeros(PARTS, len(flat)), grad.contiguous()
        given = [_pointer(x) for x in (frames, flat, kept, out, grad, sums)]
        ctx.lib.backward(torch.get_num_threads(), PARTS, len(frames), *given, len(flat))
        parts = sums.sum(0).split([p.numel() for p in params])
        gradients = [_as(p, part) for p, part in zip(params, parts, strict=True)]
        return None, None, None, None, *gradients


def _as(parameter: Tensor, gradient: Tensor) -> Tensor:
    """[ky][kx][ci][co], flat -> [co, ci, 3, 3]; a bias as it is."""
    if parameter.ndim == 1:
        return gradient
    out, inputs = parameter.shape[:2]
    return gradient.view(3, 3, inputs, out).permute(3, 2, 0, 1)


class Trunk:
    """Frames [B, H, W, C] uint8 -> relu of IMPALA's last map, [B, 32, h, w] channels-last.

    parameters: weight and bias of each convolution, in order. They are laid out as the kernels read
    them only when they have changed, not at every step of acting.
    """

    def __init__(self, parameters: Iterable[Tensor], shape: Shape, image: Image) -> None:
        self.parameters, self.shape = list(parameters), shape
        prepare_convolutions(
            shape, image
        )  # compiled now, or refused, and not amid the first rollout
        self.versions: list[int] = []
        self.flat = torch.empty(0)

    def __call__(self, frames: Tensor) -> Tensor:
        if self.versions != (now := [p._version for p in self.parameters]):
            weights, biases = self.parameters[::2], self.parameters[1::2]
            with torch.inference_mode(False), torch.no_grad():  # acting and learning share it
                self.flat = _flat([_packed(w) for w in weights], biases)
            self.versions = now
        keep = torch.is_grad_enabled()
        result = _Convolve.apply(self.shape, keep, frames.contiguous(), self.flat, *self.parameters)
        assert isinstance(result, Tensor)
        return result.permute(0, 3, 1, 2)
