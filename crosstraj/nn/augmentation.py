"""Frames in other colours: what a policy must not mind (each function draws for each frame).

A random shift, Procgen's "crop", is in `ops`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj.errors import BadInput

JITTER = 0.4  # brightness, contrast and saturation are drawn from 1 - .4 to 1 + .4 (auto-drac)
TURN = 0.5 * 255 / 360  # of the hue, as a share of the circle, either way (auto-drac)
# From red, green and blue to brightness and two colour axes; grey is 0 on both of these.
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


def random_colours(frames: Tensor, rng: torch.Generator) -> Tensor:
    """Each uint8 frame [B, H, W, C] in its own brightness, contrast, saturation and hue."""
    factor = 1 + JITTER * (2 * torch.rand(3, len(frames), generator=rng) - 1)
    turn = TURN * (2 * torch.rand(len(frames), generator=rng) - 1)
    brightness, contrast, saturation = factor.to(frames.device)
    return recoloured(frames, brightness, contrast, saturation, turn.to(frames.device))


def random_convolution(frames: Tensor, rng: torch.Generator) -> Tensor:
    """Each uint8 frame [B, H, W, C] under 3 x 3 filters of its own, Xavier (Lee et al., 2020)."""
    spread = math.sqrt(2 / (2 * 3 * 3 * 3))
    filters = spread * torch.randn(len(frames), 3, 3, 3, 3, generator=rng)
    return convolved(frames, filters.to(frames.device))


def recoloured(
    frames: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, turn: Tensor
) -> Tensor:
    """Colours under factors [B], and hues turned by shares of the circle [B]; contrast comes last.

    Saturation scales the colour axes and the hue turns them, so that both are one matrix.
    """
    angle = 2 * math.pi * turn
    along, across = saturation * angle.cos(), saturation * angle.sin()
    one, zero = torch.ones_like(turn), torch.zeros_like(turn)
    rows = (one, zero, zero), (zero, along, -across), (zero, across, along)
    inside = torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)  # [B, 3, 3]
    yiq = torch.tensor(YIQ, device=frames.device)
    matrix = brightness[:, None, None] * (yiq.inverse() @ inside @ yiq)
    changed = torch.einsum("b i j, b h w g j -> b h w g i", matrix, colours(frames))
    mean = changed.mean(dim=(1, 2), keepdim=True)
    return pixels_of(mean + contrast[:, None, None, None, None] * (changed - mean))


def convolved(frames: Tensor, filters: Tensor) -> Tensor:
    """Frames, each under filters of its own [B, 3, 3, 3, 3]: to colour, from colour, 3 x 3."""
    count = len(frames)
    stacked = colours(frames).permute(3, 0, 4, 1, 2).flatten(1, 2)  # [G, B * 3, H, W]
    changed = F.conv2d(stacked, filters.flatten(0, 1), padding=1, groups=count)
    return pixels_of(changed.unflatten(1, (count, 3)).permute(1, 3, 4, 0, 2))


def colours(frames: Tensor) -> Tensor:
    """[B, H, W, C] uint8 -> [B, H, W, G, 3] float, of G stacked frames."""
    channels = frames.shape[-1]
    if channels % 3:
        raise BadInput(
            f"frames with {channels} channels have no colours to change; use "
            "objective.augmentation=crop"
        )
    return frames.float().unflatten(-1, (channels // 3, 3))


def pixels_of(changed: Tensor) -> Tensor:
    """[B, H, W, G, 3] float -> [B, H, W, C] uint8, cut to what a pixel can show."""
    return changed.round().clamp(0, 255).to(torch.uint8).flatten(-2).contiguous()
