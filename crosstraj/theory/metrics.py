"""Bisimulation metrics on tabular processes: one fixed point, four choices of what differs now.

    d(s, t) = max_a [ local_a(s, t) + discount * W1^d(P(s, a), P(t, a)) ]

local = c_R |R(s, a) - R(t, a)| is the metric of Ferns et al. (2004); with the chain of a policy it
is the on-policy metric (Castro, 2020); the distance of the policies' actions instead of rewards
gives the policy similarity metric (Agarwal et al., 2021); a pseudo-metric on labels gives one that
needs no reward and is not zero. W1 is exact (network simplex, by POT).
"""

import math

import numpy as np
import ot

from crosstraj.theory.decision_processes import Array, Process, follow


def wasserstein(p: Array, q: Array, distance: Array) -> float:
    """The least mean distance over all couplings of two laws on the same states."""
    if np.array_equal(p, q):
        return 0.0
    p, q = p / p.sum(), q / q.sum()  # POT wants equal masses; rounding must not decide
    if max(p.max(), q.max()) == 1.0:  # a point mass: there is but one coupling
        return float(p @ distance @ q)
    # Its own check of the masses and the centring of potentials would take most of the time.
    quick = {"check_marginals": False, "center_dual": False}
    return float(ot.emd2(p, q, distance, numItermax=1_000_000, **quick))


def iterations_for(tolerance: float, discount: float, largest: float) -> int:
    """How often to apply the operator, from d = 0, until no distance can still grow by more.

    After n steps the error is at most discount^n |F(0)| / (1 - discount).
    """
    if largest == 0 or discount == 0:
        return 1
    return max(1, math.ceil(math.log(tolerance * (1 - discount) / largest) / math.log(discount)))


def step(distance: Array, local: Array, transition: Array, discount: float) -> Array:
    """One application of the operator: local [A, S, S], transition [S, A, S]."""
    states, actions, _ = transition.shape
    result = np.zeros((states, states))
    for s in range(states):
        for t in range(s):
            result[s, t] = result[t, s] = max(
                local[a, s, t]
                + discount * wasserstein(transition[s, a], transition[t, a], distance)
                for a in range(actions)
            )
    return result


def fixed_point(local: Array, transition: Array, discount: float, tolerance: float = 1e-8) -> Array:
    """The one solution d [S, S], from below, to within `tolerance`; 0 <= discount < 1."""
    distance = np.zeros(local.shape[1:])
    for _ in range(iterations_for(tolerance, discount, float(local.max()))):
        distance = step(distance, local, transition, discount)
    return distance


def ferns(process: Process, reward_weight: float, discount: float) -> Array:
    """The metric whose zeros are exactly the bisimilar pairs (both weights above 0)."""
    local = np.abs(process.reward[:, None] - process.reward[None]).transpose(2, 0, 1)
    return fixed_point(reward_weight * local, process.transition, discount)


def on_policy(process: Process, policy: Array, discount: float) -> Array:
    """Rewards and transitions of one policy, reward weight 1."""
    return ferns(follow(process, policy), 1.0, discount)


def policy_similarity(process: Process, policy: Array, discount: float) -> Array:
    """Total variation of the actions now, plus transport of what comes next; no rewards."""
    apart = total_variation(policy[:, None], policy[None])
    return fixed_point(apart[None], follow(process, policy).transition, discount)


def labelled(transition: Array, base: Array, discount: float) -> Array:
    """(1 - discount) base + discount max_a W1: reward-free, and zero only if `base` [S, S] is."""
    local = np.broadcast_to((1 - discount) * base, (transition.shape[1], *base.shape))
    return fixed_point(local, transition, discount)


def total_variation(p: Array, q: Array) -> Array:
    """Half the sum of absolute differences along the last axis."""
    return np.abs(p - q).sum(-1) / 2
