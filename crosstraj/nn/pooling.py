"""Max pooling between the stages of an encoder: torch's, or ours in C (pooling.c) for bfloat16.

In bfloat16 torch's takes a fifth of an encoder's time, because its convolutions are fast there.
Ours gives the same values to the bit. The gradient of a pixel that won in several windows is
rounded once, after its sum.
"""

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crosstraj.nn.compiler import compiled

SOURCE = Path(__file__).with_name("pooling.c")


class MaxPool(nn.MaxPool2d):
    """3x3 with stride 2 and a border of one pixel."""

    def __init__(self) -> None:
        super().__init__(3, stride=2, padding=1)
        self.native = False

    def use_native(self) -> None:
        """Ours from now on, for what it is made for."""
        prepare_pooling()  # or refused, now and not amid the first rollout
        self.native = True

    def forward(self, x: Tensor) -> Tensor:
        if not (self.native and x.dtype == torch.bfloat16 and fits(x.shape)):
            return super().forward(x)
        result = _MaxPool.apply(x, torch.is_grad_enabled() and x.requires_grad)
        assert isinstance(result, Tensor)
        return result


def prepare_pooling() -> None:
    """Compile it, or say in one sentence why that cannot be."""
    compiled(SOURCE)


def fits(shape: torch.Size) -> bool:
    """Even sides, and channels in groups of 16."""
    _, channels, height, width = shape
    return height % 2 == 0 and width % 2 == 0 and channels % 16 == 0


def _pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _room(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype, memory_format=torch.channels_last)


class _MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: bool) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        size, channels, height, width = x.shape
        half = (size, channels, height // 2, width // 2)
        out, won = _room(half, x.dtype), _room(half, torch.int16) if keep else None
        sides = (height // 2, width // 2, channels)
        threads = torch.get_num_threads()
        compiled(SOURCE).pool(threads, size, _pointer(x), *sides, _pointer(out), _pointer(won))
        if won is not None:
            ctx.save_for_backward(won)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (won,) = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        size, channels, height, width = grad.shape
        out = _room((size, channels, 2 * height, 2 * width), grad.dtype)
        given = (_pointer(grad), _pointer(won), height, width, channels, _pointer(out))
        compiled(SOURCE).back(torch.get_num_threads(), size, *given)
        return out, None
