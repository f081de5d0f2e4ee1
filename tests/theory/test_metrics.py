"""Bisimulation metrics against closed forms and slow definitions."""

from itertools import product

import numpy as np
import pytest
import torch

from crosstraj.objectives import pse
from crosstraj.theory import metrics
from crosstraj.theory.decision_processes import Process, follow, random_policy, random_process
from tests.theory.slow import absorbing, dual, rng

# --- Transport


def test_transport_on_a_line_is_the_area_between_the_cumulative_laws() -> None:
    place = np.array([0.0, 1.0, 3.0, 7.0])
    distance = np.abs(place[:, None] - place)
    p, q = np.array([0.5, 0.25, 0.25, 0.0]), np.array([0.0, 0.25, 0.25, 0.5])
    by_hand = np.abs(np.cumsum(p - q)[:-1]) @ np.diff(place)
    assert by_hand == 3.5
    assert metrics.wasserstein(p, q, distance) == pytest.approx(3.5, abs=1e-12)


def test_transport_equals_its_dual_linear_programme() -> None:
    g = rng(1)
    for _ in range(20):
        points = g.normal(size=(6, 2))
        distance = np.linalg.norm(points[:, None] - points[None], axis=2)
        p, q = g.dirichlet(np.ones(6), 2)
        assert metrics.wasserstein(p, q, distance) == pytest.approx(dual(p, q, distance), abs=1e-9)


def test_rounding_in_the_masses_is_forgiven() -> None:
    p, q = np.array([0.1 * 3, 0.7]), np.array([0.7 + 1e-12, 0.3])
    assert metrics.wasserstein(p, q, 1 - np.eye(2)) == pytest.approx(0.4, abs=1e-9)


# --- Fixed points


def test_one_step_is_the_definition_for_every_ordered_pair() -> None:
    process = random_process(4, 2, rng(2), successors=3)
    points = rng(3).normal(size=(4, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    local = np.abs(process.reward[:, None] - process.reward[None]).transpose(2, 0, 1)
    found = metrics.step(distance, local, process.transition, 0.7)
    for s, t in product(range(4), repeat=2):
        by_action = []
        for a in range(2):
            moved = dual(process.transition[s, a], process.transition[t, a], distance)
            by_action.append(abs(process.reward[s, a] - process.reward[t, a]) + 0.7 * moved)
        assert found[s, t] == pytest.approx(max(by_action), abs=1e-9)


def test_two_absorbing_states_are_apart_by_a_geometric_series() -> None:
    process = absorbing(0.0, 1.0)
    d = metrics.ferns(process, 0.1, 0.9)
    assert d == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-7)  # .1 / (1 - .9)
    assert metrics.ferns(process, 0.5, 0.75)[0, 1] == pytest.approx(2.0, abs=1e-7)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.99])
def test_the_iterations_reach_the_tolerance_and_no_fewer_would(discount: float) -> None:
    for tolerance, largest in ((1e-3, 1.0), (1e-6, 0.1), (1.0, 1e-9)):
        count = metrics.iterations_for(tolerance, discount, largest)
        assert discount**count * largest / (1 - discount) <= tolerance * (1 + 1e-9)
        if count > 1:
            assert discount ** (count - 1) * largest / (1 - discount) > tolerance


def test_the_largest_action_decides_and_transport_uses_the_distance_of_the_step_before() -> None:
    # From 0 and 1 action 0 leads to 2 and 3, which differ by 1 in reward; action 1 stays at home.
    transition = np.zeros((4, 2, 4))
    transition[0, 0, 2] = transition[1, 0, 3] = 1
    transition[:, 1] = np.eye(4)
    transition[2:, 0] = np.eye(4)[2:]
    reward = np.array([[0, 0], [0, 0.2], [0, 0], [1, 1]], float)
    d = metrics.ferns(Process(transition, reward), 0.5, 0.5)
    assert d[2, 3] == pytest.approx(1.0, abs=1e-7)  # .5 / (1 - .5)
    # action 0: .5 * d(2, 3) = .5; action 1: .5 * .2 + .5 d(0, 1): the first is larger.
    assert d[0, 1] == pytest.approx(0.5, abs=1e-7)


def test_on_a_deterministic_chain_policy_similarity_is_the_sum_over_two_walks() -> None:
    g, states, discount = rng(3), 7, 0.8
    process = Process(np.eye(states)[g.integers(states, size=(states, 2))], np.zeros((states, 2)))
    policy = np.eye(2)[g.integers(2, size=states)]  # one action in each state: a walk
    d = metrics.policy_similarity(process, policy, discount)
    follow_up = follow(process, policy).transition[:, 0].argmax(1)
    for start in product(range(states), repeat=2):
        s, t = start
        by_hand = 0.0
        for step in range(200):
            by_hand += discount**step * float((policy[s] != policy[t]).any())
            s, t = follow_up[s], follow_up[t]
            if s == t:
                break
        assert d[start] == pytest.approx(by_hand, abs=1e-7)
    assert 0 < d.max() < 5


def test_of_two_walks_it_is_the_recursion_that_pse_learns_from() -> None:
    # Two levels of 4 and 6 steps that end in states which act alike: what waits costs nothing.
    policy = random_policy(10, 3, rng(4))
    policy[3] = policy[9]
    following = np.array([1, 2, 3, 3, 5, 6, 7, 8, 9, 9])
    process = Process(np.eye(10)[following][:, None].repeat(3, axis=1), np.zeros((10, 3)))
    cost = np.abs(policy[:4, None] - policy[None, 4:]).sum(2) / 2
    expected = pse.policy_similarity(torch.from_numpy(cost), 0.8).numpy()
    assert expected.min() == 0
    found = metrics.policy_similarity(process, policy, 0.8)[:4, 4:]
    assert found == pytest.approx(expected, abs=1e-7)


def test_policy_similarity_of_random_actions_is_half_the_sum_of_differences() -> None:
    policy = np.array([[0.5, 0.5], [0.9, 0.1]])
    process = Process(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))  # what comes next is the same
    assert metrics.policy_similarity(process, policy, 0.9)[0, 1] == pytest.approx(0.4, abs=1e-9)


def test_the_on_policy_metric_sees_one_policy_where_ferns_sees_all() -> None:
    process = Process(np.full((2, 2, 2), 0.5), np.array([[1.0, 0.0], [1.0, 1.0]]))
    same = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert metrics.on_policy(process, same, 0.9)[0, 1] == 0.0
    assert metrics.ferns(process, 1.0, 0.9)[0, 1] == pytest.approx(1.0, abs=1e-7)
    # and an average of rewards hides what single actions show
    mixed = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert metrics.on_policy(process, mixed, 0.9)[0, 1] == 0.0


def test_the_labelled_metric_is_the_base_where_nothing_moves() -> None:
    base = np.array([[0.0, 0.3, 1.0], [0.3, 0.0, 0.7], [1.0, 0.7, 0.0]])
    still = np.eye(3)[:, None]
    assert metrics.labelled(still, base, 0.9) == pytest.approx(base, abs=1e-7)
