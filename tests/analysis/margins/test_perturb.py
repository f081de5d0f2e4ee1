"""Perturbations of frames: colour, noise, exchange."""

import pytest
import torch

from crosstraj.analysis.margins.perturb import colour, exchange, noise
from tests.helpers import rng


def test_colour_scales_each_channel_of_each_frame_by_at_most_a_fifth() -> None:
    frames = torch.full((50, 3, 3, 3), 100, dtype=torch.uint8)
    changed = colour(frames, rng(4))
    assert changed.dtype == torch.uint8
    assert (changed == changed[:, :1, :1]).all()  # all pixels of a frame alike
    assert 80 <= int(changed.min()) < 85
    assert 115 < int(changed.max()) <= 120
    assert (changed[:, 0, 0, 0] != changed[:, 0, 0, 1]).any()
    assert (colour(torch.full_like(frames, 255), rng(4)) > 200).all()  # no overflow


def test_noise_has_its_spread_and_stays_in_range() -> None:
    frames = torch.full((20, 16, 16, 3), 128, dtype=torch.uint8)
    added = noise(frames, rng(5)).double() - 128
    assert float(added.std()) == pytest.approx(8, rel=0.05)
    assert abs(float(added.mean())) < 0.2
    assert int(noise(torch.zeros_like(frames), rng(5)).max()) < 60  # no wrap below 0


def test_exchange_never_gives_a_frame_back() -> None:
    frames = torch.arange(40, dtype=torch.uint8).view(-1, 1, 1, 1)
    assert (exchange(frames, rng(6)) != frames).all()
