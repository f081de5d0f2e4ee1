"""Named random streams from one seed; the global generators are never touched."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

STREAMS = ("weights", "acting", "policy", "objective")  # the order is part of every run's identity
# Spawn keys far from those of the streams.
ENVIRONMENTS, EVALUATIONS, BRANCHES, ANALYSES, OBJECTIVES, CLIPS = 100, 200, 300, 400, 500, 600
LEVELS = 700


def derived_seed(seed: int, *path: int) -> int:
    """A seed below 2^31 for one purpose, independent of the seeds of all other paths."""
    sequence = np.random.SeedSequence(seed, spawn_key=path)
    return int(sequence.generate_state(1, np.uint32)[0] >> 1)


def generator(seed: int, *path: int) -> torch.Generator:
    """A generator of its own, for one purpose."""
    sequence = np.random.SeedSequence(seed, spawn_key=path)
    words = sequence.generate_state(2, np.uint32)
    return torch.Generator().manual_seed(int(words[0]) << 32 | int(words[1]))


@contextmanager
def own_global_generator(rng: torch.Generator) -> Iterator[None]:
    """In the block torch's global generator starts from the state of `rng`, and is put back after.

    A plain `nn.Linear` in a person's own objective draws from it. Ours do not, and `rng` itself is
    not moved: without such layers nothing changes.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.set_state(rng.get_state())
        yield


class Streams:
    """One generator per purpose; their states travel in the checkpoint."""

    def __init__(self, seed: int) -> None:
        self.weights, self.acting, self.policy, self.objective = (
            generator(seed, index) for index in range(len(STREAMS))
        )

    def branch(self, seed: int, number: int) -> None:
        """Leave the present course: other random numbers from here on, the same ones each time."""
        for index, name in enumerate(STREAMS):
            getattr(self, name).set_state(generator(seed, BRANCHES, number, index).get_state())

    def state_dict(self) -> dict[str, Tensor]:
        return {name: getattr(self, name).get_state() for name in STREAMS}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name in STREAMS:
            getattr(self, name).set_state(state[name])
