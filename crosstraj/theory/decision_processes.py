"""Tabular decision processes, and random ones from a given generator."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Blocks = NDArray[np.int64]  # [S] the number of each state's block


class Process(NamedTuple):
    transition: Array  # [S, A, S], rows sum to one
    reward: Array  # [S, A]


def random_process(
    states: int,
    actions: int,
    rng: np.random.Generator,
    *,
    successors: int | None = None,
    rewards: tuple[float, ...] | None = None,
) -> Process:
    """Dirichlet(1) rows over `successors` random states (all of them, unless given).

    Rewards are uniform on [0, 1], or drawn from a few values so that states may be alike.
    """
    reach = states if successors is None else successors
    order = rng.random((states, actions, states)).argsort(axis=2)
    weight = rng.exponential(size=(states, actions, states)) * (order < reach)
    reward = (
        rng.random((states, actions))
        if rewards is None
        else rng.choice(np.asarray(rewards), (states, actions))
    )
    return Process(weight / weight.sum(2, keepdims=True), reward)


def with_copies(process: Process, copies: int, rng: np.random.Generator) -> tuple[Process, Blocks]:
    """Each state in several copies that behave alike, and the original state of each.

    The mass that a copy sends to a state is split at random over that state's copies: copies are
    bisimilar, yet no two of them have the same transition probabilities.
    """
    states, actions = process.reward.shape
    original = np.repeat(np.arange(states), copies)
    split = rng.dirichlet(np.ones(copies), (states * copies, actions, states))
    transition = process.transition[original][:, :, :, None] * split
    return (
        Process(transition.reshape(states * copies, actions, -1), process.reward[original]),
        original,
    )


def random_policy(states: int, actions: int, rng: np.random.Generator) -> Array:
    """[S, A] action probabilities, Dirichlet(1)."""
    return rng.dirichlet(np.ones(actions), states)


def follow(process: Process, policy: Array) -> Process:
    """The chain that a policy [S, A] makes of a process: one action that is no choice."""
    transition = np.einsum("sa,sat->st", policy, process.transition)
    return Process(transition[:, None], np.einsum("sa,sa->s", policy, process.reward)[:, None])


def optimal_values(process: Process, discount: float, tolerance: float = 1e-12) -> Array:
    """V* by value iteration (V of the policy, for a chain)."""
    value = np.zeros(len(process.reward))
    while True:
        improved = (process.reward + discount * process.transition @ value).max(1)
        if np.abs(improved - value).max() <= tolerance * (1 - discount):
            return improved
        value = improved
