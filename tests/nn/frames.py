"""Random frames for the tests of networks."""

import torch

from tests.helpers import rng


def frames(count: int, side: int = 64, seed: int = 1) -> torch.Tensor:
    return torch.randint(256, (count, side, side, 3), generator=rng(seed), dtype=torch.uint8)
