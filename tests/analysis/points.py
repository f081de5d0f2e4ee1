"""Small sets of vectors and labels for the tests of measures."""

import numpy as np


def on_circle(*degrees: float) -> np.ndarray:
    angle = np.radians(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def ints(*values: int) -> np.ndarray:
    return np.array(values)


def blobs(count: int = 40, spread: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Three tight clouds around the axes of a space."""
    rng = np.random.default_rng(3)
    label = np.arange(count * 3) % 3
    return np.eye(8)[label] + spread * rng.standard_normal((count * 3, 8)), label
