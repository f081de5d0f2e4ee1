"""IMPALA's convolutions in C: in fp32 (impala.c), or in bfloat16 with fp32 sums (impala_bf16.c).

Compiled for each size of frames when first asked for. Images are split among threads; gradients are
summed in a fixed order, so that results do not depend on how many threads there are.
"""

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj.errors import BadInput
from crosstraj.nn.compiler import compiled, has_dot_products, kept

HERE = Path(__file__).parent
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


def prepare_convolutions(shape: Shape, image: Image, *, bfloat16: bool = False) -> str:
    """Compile the kernels for this image, and say where they are; or why that cannot be."""
    return kept(library(shape, image, bfloat16))


def library(shape: Shape, image: Image, bfloat16: bool) -> ctypes.CDLL:
    """The compiled kernels."""
    height, width, channels = image
    step = (32 if bfloat16 else 8) * shape.stride
    if height % step or width % step:
        raise BadInput(
            f"frames of {height} x {width} do not fit our kernels for this encoder: "
            f"they take multiples of {step}"
        )
    if not bfloat16:
        size = (f"-DHEIGHT={height}", f"-DWIDTH={width}", f"-DCHANNELS={channels}")
        return compiled(HERE / "impala.c", flags=(*shape.flags(), *size))
    if height != width or channels != 3:
        raise BadInput("our kernels in bfloat16 take square frames of three channels")
    if not has_dot_products():
        raise BadInput("our kernels in bfloat16 need a processor with AVX512_BF16")
    files = (HERE / "impala_bf16.c", HERE / "layers_bf16.h")
    return compiled(*files, flags=(*shape.flags(), f"-DSIDE={height}"))


def _pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _packed(weight: Tensor) -> Tensor:
    """[co, ci, 3, 3] -> [co/16][ky][kx][ci][16], flat: the order in which the kernel reads."""
    return weight.unflatten(0, (-1, 16)).permute(0, 3, 4, 2, 1).reshape(-1)


def _paired(weight: Tensor) -> Tensor:
    """[co, ci, 3, 3] -> [co/16][ky][kx, ci by twos][16][2], flat, in bfloat16.

    The first layer has nine numbers in a row, hence a tenth that counts for nothing; and it reads
    pixels from 0 to 255.
    """
    inputs = weight.shape[1]
    rows = _packed(weight).view(-1, 3, 3 * inputs, 16)
    if inputs == 3:
        rows = F.pad(rows / 255, (0, 0, 0, 1))
    return rows.unflatten(2, (-1, 2)).transpose(-1, -2).to(torch.bfloat16).reshape(-1)


def _laid_out(weights: list[Tensor], biases: list[Tensor], bfloat16: bool) -> Tensor:
    """All parameters in the order in which the kernels read them."""
    if bfloat16:
        return torch.cat([*(b.view(torch.bfloat16) for b in biases), *map(_paired, weights)])
    pairs = zip(map(_packed, weights), biases, strict=True)
    return torch.cat([part for pair in pairs for part in pair])


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, shape: Shape, keep: bool, frames: Tensor, flat: Tensor, *params: Tensor
    ) -> Tensor:
        size, *image = frames.shape
        height, width, channels = image
        lib = library(shape, (height, width, channels), flat.dtype == torch.bfloat16)
        out = torch.empty(size, shape.side(height), shape.side(width), 32)
        kept = torch.empty(size, lib.kept(), dtype=flat.dtype) if keep else None
        given = [_pointer(x) for x in (frames, flat, kept, out)]
        lib.forward(torch.get_num_threads(), size, *given)
        ctx.lib = lib
        if kept is not None:
            ctx.save_for_backward(frames, kept, out, *params)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        frames, kept, out, *params = ctx.saved_tensors
        # The first layer's input needs no gradient, so nothing is turned there.
        turned = [params[0], *(w.flip(2, 3).transpose(0, 1) for w in params[2::2])]
        flat = _laid_out(turned, params[1::2], kept.dtype == torch.bfloat16)
        sizes = [p.numel() for p in params]
        sums, grad = torch.zeros(PARTS, sum(sizes)), grad.contiguous()
        given = [_pointer(x) for x in (frames, flat, kept, out, grad, sums)]
        ctx.lib.backward(torch.get_num_threads(), PARTS, len(frames), *given, sum(sizes))
        parts = sums.sum(0).split(sizes)
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
    bfloat16: what enters a convolution is rounded to it; sums and gradients of weights are fp32.
    """

    def __init__(
        self, parameters: Iterable[Tensor], shape: Shape, image: Image, *, bfloat16: bool = False
    ) -> None:
        self.parameters, self.shape, self.bfloat16 = list(parameters), shape, bfloat16
        # Compiled now, or refused, and not amid the first rollout.
        prepare_convolutions(shape, image, bfloat16=bfloat16)
        self.versions: list[int] = []
        self.flat = torch.empty(0)

    def __call__(self, frames: Tensor) -> Tensor:
        if self.versions != (now := [p._version for p in self.parameters]):
            weights, biases = self.parameters[::2], self.parameters[1::2]
            with torch.inference_mode(False), torch.no_grad():  # acting and learning share it
                self.flat = _laid_out(weights, biases, self.bfloat16)
            self.versions = now
        keep = torch.is_grad_enabled()
        result = _Convolve.apply(self.shape, keep, frames.contiguous(), self.flat, *self.parameters)
        assert isinstance(result, Tensor)
        return result.permute(0, 3, 1, 2)
