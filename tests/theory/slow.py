"""Definitions written out: the dual of transport, and processes with a known answer."""

from itertools import product

import numpy as np
from scipy.optimize import linprog

from crosstraj.theory.decision_processes import Process


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def dual(p: np.ndarray, q: np.ndarray, distance: np.ndarray, box: float | None = None) -> float:
    """max (p - q) mu over mu(s) - mu(t) <= d(s, t), and 0 <= mu <= box if there is one."""
    states = len(p)
    rows, limits = [], []
    for s, t in product(range(states), repeat=2):
        rows.append(np.eye(states)[s] - np.eye(states)[t])
        limits.append(distance[s, t])
    found = linprog(-(p - q), A_ub=rows, b_ub=limits, bounds=(0, box))
    assert found.success
    return -float(found.fun)


def absorbing(*rewards: float) -> Process:
    return Process(np.eye(len(rewards))[:, None], np.array(rewards)[:, None])
