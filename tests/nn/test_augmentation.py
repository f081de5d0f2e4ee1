"""Frames in other colours: the identity, closed forms, and a draw for each frame."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj.errors import BadInput
from crosstraj.nn.augmentation import (
    YIQ,
    convolved,
    random_colours,
    random_convolution,
    recoloured,
)
from tests.helpers import rng


def frames(count: int = 4, channels: int = 3) -> Tensor:
    """Of middling colours, so that nothing is cut off."""
    return torch.randint(90, 140, (count, 6, 5, channels), generator=rng(), dtype=torch.uint8)


def as_they_are(count: int) -> list[Tensor]:
    return [torch.ones(count), torch.ones(count), torch.ones(count), torch.zeros(count)]


@pytest.mark.parametrize("channels", [3, 6])
def test_factors_of_one_and_a_filter_that_copies_leave_frames_as_they_are(channels):
    shown = frames(channels=channels)
    assert torch.equal(recoloured(shown, *as_they_are(4)), shown)
    copy = torch.zeros(4, 3, 3, 3, 3)
    copy[:, range(3), range(3), 1, 1] = 1
    assert torch.equal(convolved(shown, copy), shown)


def test_each_factor_does_what_it_says_to_its_own_frame():
    shown, factors = frames(), as_they_are(4)
    factors[0][0], factors[1][1], factors[2][2] = 0.5, 0.0, 0.0
    dark, flat, grey, plain = recoloured(shown, *factors).float()
    assert (dark - shown[0] * 0.5).abs().max() <= 0.5  # rounding
    mean = shown[1].float().mean(dim=(0, 1))
    assert (flat - mean).abs().max() <= 0.5
    brightness = shown[2].float() @ torch.tensor(YIQ[0])
    assert (grey - brightness[..., None]).abs().max() <= 0.5
    assert torch.equal(plain, shown[3].float())


def test_a_turn_of_the_hue_keeps_the_brightness_and_leaves_grey_alone():
    shown = frames()
    shown[0] = shown[0, ..., :1]  # grey
    factors = as_they_are(4)
    factors[3].fill_(0.3)
    turned = recoloured(shown, *factors)
    assert torch.equal(turned[0], shown[0])
    assert (turned[1].float() - shown[1]).abs().mean() > 5
    brightness = torch.tensor(YIQ[0])
    assert (turned.float() @ brightness - shown.float() @ brightness).abs().max() <= 1
    factors[3].fill_(1.0)  # the whole circle
    assert torch.equal(recoloured(shown, *factors), shown)


def test_a_convolution_is_torchs_own_frame_by_frame():
    shown, filters = frames(channels=6), torch.randn(4, 3, 3, 3, 3, generator=rng())
    found = convolved(shown, filters)
    for frame, own, result in zip(shown, filters, found, strict=True):
        for place in (slice(0, 3), slice(3, 6)):  # both frames of a stack alike
            image = frame[..., place].permute(2, 0, 1)[None].float()
            slow = F.conv2d(image, own, padding=1)[0].permute(1, 2, 0)
            assert (slow.clamp(0, 255) - result[..., place]).abs().max() <= 0.5 + 1e-3


@pytest.mark.parametrize("draw", [random_colours, random_convolution])
def test_every_frame_has_a_draw_of_its_own_from_the_generator_given(draw):
    same = frames(1).expand(8, -1, -1, -1)
    first = draw(same, rng(1))
    assert (first.dtype, first.shape) == (torch.uint8, same.shape)
    assert len(first.flatten(1).unique(dim=0)) == 8
    assert torch.equal(first, draw(same, rng(1)))
    assert not torch.equal(first, draw(same, rng(2)))


def test_filters_have_xaviers_spread():
    """A frame of one colour far from the border sums 27 terms: sd = 100 sqrt(27 * 2 / 54)."""
    grey = torch.full((4000, 3, 3, 3), 100, dtype=torch.uint8)
    middle = random_convolution(grey, rng())[:, 1, 1, 0].float()
    # Half of a normal distribution is cut at 0; of the rest some at 255.
    assert float((middle > 0).float().mean()) == pytest.approx(0.5, abs=0.03)
    assert float((middle > 100).float().mean()) == pytest.approx(
        0.5 * math.erfc(1 / math.sqrt(2)), abs=0.02
    )


def test_frames_without_colours_are_refused_in_a_sentence():
    with pytest.raises(BadInput, match="frames with 1 channels have no colours to change; use"):
        random_colours(frames(channels=1), rng())
