"""Does an objective learn across the end of an episode? Asked by poisoning what comes after it.

Every frame of a made-up rollout is one colour of its own, by which it is known again. In one
environment an episode ends in the middle. If the frame after that end is replaced, the gradient at
the features of frames before it must stay as it was. Where a minibatch is compared with itself
(contrasts, batch norm) all frames are moved; then those before the end must not be moved much more
than those of other environments, in every draw of partners. Batch norm can hide the fault.
"""

from typing import Any

import torch
from torch import Tensor, nn

from crosstraj.data.rollout import Rollout
from crosstraj.learning.learner import Learner
from crosstraj.nn.encoders import Encode
from crosstraj.nn.memory import Frames, pixels

Colour = tuple[int, ...]
POISON = 7  # in the third channel, where good frames have GOOD
GOOD = 128
NEAR = 1e-4  # of the largest gradient: below it lies what rounding does
DRAWS = 3
MUCH = 3.0  # times what the frames of other environments are moved


class Watched(Encode):
    """An encoder that remembers what it read, to ask for gradients there."""

    def __init__(self, encode: Encode) -> None:
        super().__init__(encode.encoder, live=True, piece=encode.piece)
        self.read: list[tuple[Tensor, Tensor]] = []

    def __call__(self, frames: Frames) -> Tensor:
        return self._kept(pixels(frames), super().__call__(frames))

    def map(self, frames: Tensor) -> Tensor:
        return self._kept(frames, super().map(frames))

    def on(self, target: nn.Module) -> Encode:
        return Encode(target, live=False, piece=self.piece)

    def _kept(self, frames: Tensor, features: Tensor) -> Tensor:
        if features.requires_grad:
            features.retain_grad()
            self.read.append((frames, features))
        return features

    def gradients(self) -> dict[Colour, Tensor]:
        """By the colour of a frame."""
        found: dict[Colour, Tensor] = {}
        for frames, features in self.read:
            grad = torch.zeros_like(features) if features.grad is None else features.grad
            for colour, row in zip(frames[:, 0, 0].tolist(), grad.flatten(1), strict=True):
                key = tuple(colour)
                found[key] = found.get(key, torch.zeros_like(row)) + row
        return found


def across_ends(learner: Learner, rollout: Rollout) -> str:
    """The fault in words; empty where there is none to be seen."""
    fault = (
        "episode ends: frames after `done` change what is learnt from frames before it, and they "
        "are another level's; leave out pairs and windows with a `done` inside "
        "(crosstraj/data/within_episodes.py has some that do)"
    )
    half = len(rollout.done) // 2
    ended = torch.zeros_like(rollout.done)
    ended[half - 1, 0] = True
    painted = rollout._replace(obs=colours(rollout.obs), done=ended)
    poisoned = painted._replace(obs=painted.obs.clone())
    poisoned.obs[half, 0, ..., 2] = POISON
    before = [tuple(colour) for colour in painted.obs[:half, 0, 0, 0].tolist()]
    others = [tuple(colour) for colour in painted.obs[:, 1:, 0, 0].flatten(0, 1).tolist()]
    for seed in range(DRAWS):
        one, two = taught(learner, painted, seed), taught(learner, poisoned, seed)
        moved = {key: float((one[key] - two[key]).norm()) for key in one.keys() & two.keys()}
        least = NEAR * max((float(row.norm()) for row in one.values()), default=0.0)
        here, there = (max(moved.get(key, 0.0) for key in keys) for keys in (before, others))
        if here <= least or here <= MUCH * there:
            return ""
    return fault


def colours(obs: Tensor) -> Tensor:
    """Frames of one colour each, all different."""
    steps, envs = obs.shape[:2]
    number = torch.arange(steps * envs, device=obs.device).view(steps, envs, 1, 1)
    painted = torch.full_like(obs, GOOD)
    painted[..., 0], painted[..., 1] = number // 256, number % 256
    return painted


def taught(learner: Learner, rollout: Rollout, seed: int) -> dict[Colour, Tensor]:
    """The gradient at the features of each frame; the same for a seed each time."""
    rng, found = torch.Generator().manual_seed(seed), dict[Colour, Tensor]()
    learner.objective.gather(rng)
    count = learner.config.representation.minibatches
    batch: Any
    for batch in learner.objective.minibatches(rollout, count, rng):
        encode = Watched(learner.live_encode(True))
        loss, _ = learner.objective.loss(encode, batch, rng)
        if loss.requires_grad:
            loss.backward()
        for colour, row in encode.gradients().items():
            found[colour] = found.get(colour, torch.zeros_like(row)) + row
    return found
