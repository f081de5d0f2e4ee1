"""Small changes of one frame that leave what happens in it alone, and one large change to compare.

Each takes frames [B, H, W, C] uint8 and a generator, and changes every frame on its own.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from crosstraj.nn import ops

PIXELS = 4  # as DrQ and CURL shift
GAIN = 0.2
NOISE = 8.0  # standard deviation in grey levels, of 255


def shift(frames: Tensor, rng: torch.Generator) -> Tensor:
    """Up to four pixels in each direction; edges are repeated."""
    return ops.random_shift(frames, PIXELS, rng)


def colour(frames: Tensor, rng: torch.Generator) -> Tensor:
    """Each channel brighter or darker by up to a fifth."""
    count, *_, channels = frames.shape
    gain = 1 + GAIN * (2 * torch.rand(count, 1, 1, channels, generator=rng) - 1)
    return (frames * gain).round().clamp(0, 255).to(torch.uint8)


def noise(frames: Tensor, rng: torch.Generator) -> Tensor:
    """Gaussian noise in every pixel and channel."""
    added = NOISE * torch.randn(frames.shape, generator=rng)
    return (frames + added).round().clamp(0, 255).to(torch.uint8)


def exchange(frames: Tensor, rng: torch.Generator) -> Tensor:
    """A frame of another view in its place: what a perturbation is not."""
    step = torch.randint(1, max(2, len(frames)), (len(frames),), generator=rng)
    return frames.index_select(0, (torch.arange(len(frames)) + step) % len(frames))


PERTURBATIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "shift": shift,
    "colour": colour,
    "noise": noise,
    "another frame": exchange,
}
