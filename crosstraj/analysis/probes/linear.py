"""The probe: multinomial logistic regression on standardised features, with soft targets.

It is convex, so scipy's L-BFGS from zero finds the one solution: nothing is drawn. All of it is in
float64, and features are standardised by the frames that the probe is fitted on.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

Floats = NDArray[np.float64]

# Half of it times the squared weights is added to the mean cross-entropy; the strongest one first.
RIDGES = tuple(10 ** (1 - half / 2) for half in range(13))  # from 10 to 0.00001


class Probe(NamedTuple):
    centre: Floats  # [D] mean of each feature over the fitted frames
    spread: Floats  # [D] its standard deviation; 1 for a constant feature
    weight: Floats  # [D, K]
    bias: Floats  # [K]

    def log_probs(self, features: Floats) -> Floats:
        """[n, D] -> [n, K]."""
        scaled = (features - self.centre) / self.spread
        return np.asarray(log_softmax(scaled @ self.weight + self.bias, axis=1))


def fit_path(features: Floats, target: Floats, ridges: tuple[float, ...]) -> Iterator[Probe]:
    """One probe per ridge for distributions [n, K]; each starts where the one before ended."""
    centre, spread = features.mean(0), features.std(0)
    # Rounding gives a constant feature a spread of its own, by which it must not be divided.
    spread = np.where(spread > 1e-9 * np.abs(features).max(), spread, 1.0)
    scaled = (features - centre) / spread
    flat = np.zeros((features.shape[1] + 1) * target.shape[1])
    for ridge in ridges:
        flat = _minimise(scaled, target, ridge, flat)
        weight, bias = _unpacked(flat, target.shape[1])
        yield Probe(centre, spread, weight, bias)


def _unpacked(flat: Floats, classes: int) -> tuple[Floats, Floats]:
    rows = flat.reshape(-1, classes)
    return rows[:-1], rows[-1]


def _minimise(scaled: Floats, target: Floats, ridge: float, start: Floats) -> Floats:
    """Weights and, as their last row, biases with the least mean cross-entropy and penalty."""
    count, classes = target.shape

    def loss(flat: Floats) -> tuple[float, Floats]:
        weight, bias = _unpacked(flat, classes)
        log_probs = np.asarray(log_softmax(scaled @ weight + bias, axis=1))
        error = (np.exp(log_probs) - target) / count
        gradient = np.vstack([scaled.T @ error + ridge * weight, error.sum(0)])
        value = -(target * log_probs).sum() / count + ridge / 2 * (weight**2).sum()
        return float(value), gradient.ravel()

    limits = {"maxiter": 2000, "maxfun": 4000, "gtol": 1e-6, "ftol": 1e-10}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=limits)
    return np.asarray(found.x)


def fit(features: Floats, target: Floats, ridge: float) -> Probe:
    return next(fit_path(features, target, (ridge,)))


def choose(features: Floats, target: Floats, held: NDArray[np.bool_]) -> tuple[float, Probe]:
    """The ridge with the least cross-entropy on held-out frames, and its probe of the others."""
    probes = list(fit_path(features[~held], target[~held], RIDGES))
    errors = [cross_entropy(target[held], probe.log_probs(features[held])) for probe in probes]
    best = int(np.argmin(errors))
    return RIDGES[best], probes[best]


def cross_entropy(target: Floats, log_probs: Floats) -> float:
    return float(-(target * log_probs).sum(1).mean())


def divergence(log_target: Floats, log_probs: Floats) -> Floats:
    """KL(target || probe) of each frame in nats, [n, K] and [n, K] or [K] -> [n]."""
    return np.asarray((np.exp(log_target) * (log_target - log_probs)).sum(1))


def hold_out(level: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """The frames of about a quarter of the levels, all frames of each; at least one level."""
    levels = np.unique(level)
    count = max(1, round(len(levels) / 4))
    return np.isin(level, rng.permutation(levels)[:count])
