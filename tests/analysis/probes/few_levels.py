"""Frames of a few levels, for intervals over levels."""

import numpy as np


def frames_of_levels() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    level = np.concatenate([np.arange(12), rng.integers(0, 12, 200)])
    score = rng.integers(0, 9, len(level)) + 0.3 * level  # with ties
    return level, score, rng.random(len(level)) < 0.4, rng.random(len(level))
