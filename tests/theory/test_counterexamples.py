"""Where the paper's theory fails as printed, each with its numbers (docs/theory.md)."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from crosstraj.nn.sinkhorn import log_sinkhorn, sinkhorn
from crosstraj.objectives.ctrl import CTRL, CTRLConfig
from crosstraj.theory.behaviour import path_law
from crosstraj.theory.decision_processes import Process, optimal_values, random_process, with_copies
from crosstraj.theory.metrics import ferns, labelled, step, total_variation, wasserstein
from crosstraj.theory.partition import refine
from crosstraj.theory.prototype_cells import assign, margins, rotations, unit
from tests.theory.slow import absorbing, dual


def cell(prototypes: np.ndarray, *v: float) -> int:
    return int(assign(prototypes, np.array([v]))[0])


# --- Background: the definition and the linear programme


def test_d1_with_states_in_the_place_of_classes_copies_are_told_apart() -> None:
    process, original = with_copies(
        random_process(2, 1, np.random.default_rng(0)), 2, np.random.default_rng(1)
    )
    first, copy = process.transition[0, 0], process.transition[1, 0]
    into_classes = [np.bincount(original, row) for row in (first, copy)]
    assert into_classes[0] == pytest.approx(into_classes[1], abs=1e-12)
    assert np.abs(first - copy).max() > 0.1  # "for every c in S", read as states, refuses the pair


def test_d2_with_a_strict_inequality_the_programme_has_no_solution() -> None:
    # mu(s) - mu(s) < d(s, s) reads 0 < 0; with any slack at all the solver finds it infeasible.
    slack = 1e-6
    rows = [[0.0, 0.0], [1.0, -1.0], [-1.0, 1.0]]
    found = linprog([1.0, -1.0], A_ub=rows, b_ub=[0 - slack, 1 - slack, 1 - slack])
    assert found.status == 2
    assert linprog([1.0, -1.0], A_ub=rows, b_ub=[0.0, 1.0, 1.0], bounds=(0, 1)).success


def test_d3_the_box_halves_a_distance_of_two() -> None:
    p, q = np.eye(2)
    distance = 2 * (1 - np.eye(2))
    assert wasserstein(p, q, distance) == 2.0
    assert dual(p, q, distance) == pytest.approx(2.0)
    assert dual(p, q, distance, box=1.0) == pytest.approx(1.0)


def test_b1_without_transport_the_zeros_are_no_bisimulation() -> None:
    # 0 and 1 earn the same now, and lead to 2 and 3, which do not.
    process = Process(np.eye(4)[[2, 3, 2, 3]][:, None], np.array([[0.0], [0.0], [0.0], [1.0]]))
    assert ferns(process, 1.0, 0.0)[0, 1] == 0.0
    assert ferns(process, 1.0, 0.5)[0, 1] == pytest.approx(1.0, abs=1e-7)  # .5 * 1 / (1 - .5)


def test_b2_the_value_bound_needs_a_discount_of_at_most_c_t() -> None:
    process = absorbing(0.0, 1.0)
    d = ferns(process, 0.5, 0.5)[0, 1]
    assert d == pytest.approx(1.0, abs=1e-7)
    assert 0.5 * optimal_values(process, 0.5)[1] == pytest.approx(1.0, abs=1e-9)  # met exactly
    assert 0.5 * optimal_values(process, 0.75)[1] == pytest.approx(2.0, abs=1e-9)  # broken


# --- The perturbation theorem


def test_f1_alignment_with_one_difference_is_not_enough() -> None:
    e = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    v, delta = np.array([1.0, 0.9]), np.array([0.1, 10.0])
    assert cell(e, *v) == 0
    assert (e[0] - e[2]) @ delta == pytest.approx(0.2)
    assert cell(e, *(v + delta)) == 1


def test_f2_the_rest_of_the_coordinates_may_not_be_left_free() -> None:
    # Two prototypes: "for some j'" and "for every j'" are the same here, and both fail.
    e = np.array([[0.8, 0.6], [0.6, 0.8]])
    v, delta = np.array([1.0, 0.5]), np.array([1.0, 5.0])
    assert e @ v == pytest.approx([1.1, 1.0])
    assert (e[0] - e[1])[0] * delta[0] == pytest.approx(0.2)  # the first block is aligned
    assert e @ (v + delta) == pytest.approx([4.9, 5.6])
    # with nothing in the rest the view stays, as T2 says
    assert e @ (v + np.array([1.0, 0.0])) == pytest.approx([1.9, 1.6])


def test_f3_the_condition_called_necessary_is_empty_as_printed_and_false_without_j() -> None:
    # Two prototypes: over j' other than j a supremum and a minimum are the same.
    e, v, delta = np.eye(2), np.array([2.0, 0.0]), np.array([-1.0, 0.0])
    assert cell(e, *v) == cell(e, *(v + delta)) == 0
    for i in range(2):  # the supremum includes j' = j, whose term is 0: true for any step at all
        assert max((e[0, i] - e[k, i]) * delta[i] for k in (0, 1)) >= 0
    assert (e[0, 0] - e[1, 0]) * delta[0] == -1.0  # over other clusters only: violated
    assert (e[0] - e[1]) @ delta == -1.0  # and so is its sum over coordinates


def test_f4_on_the_sphere_with_potentials_an_aligned_step_can_leave() -> None:
    e = np.eye(3)[:2]
    offsets = np.array([0.0, 0.5])  # beta log w
    v = np.array([1.0, 0.0, 0.0])
    for delta in (np.array([0.0, 0.0, 5.0]), np.array([0.1, 0.0, 5.0])):  # weakly, and strictly
        assert (e[0] - e[1]) @ delta >= 0
        assert assign(e, np.array([v, v + delta]), offsets).tolist() == [0, 0]
        after = unit(v + delta)
        assert assign(e, after[None], offsets).tolist() == [1]
    after = unit(v + np.array([0.0, 0.0, 5.0]))
    assert (e[0] - e[1]) @ after == pytest.approx(26**-0.5)  # .196 < .5


def test_f4_an_aligned_step_leaves_the_cluster_that_sinkhorn_gives_in_a_batch() -> None:
    e, rest = np.eye(3)[:2], [[1.0, 0.0, 1.0]] * 7

    def clusters(*v: float) -> list[int]:
        """Of the first view: by its scores, and by its code among the others."""
        scores = unit(np.array([v, *rest])) @ e.T
        code = sinkhorn(torch.from_numpy(scores / 0.1), 3)
        return [int(scores[0].argmax()), int(code[0].argmax())]

    assert clusters(1.0, 0.0, 0.0) == [0, 0]
    assert clusters(1.1, 0.0, 5.0) == [0, 1]  # delta = (.1, 0, 5): <e_1 - e_2, delta> = .1
    assert clusters(11.0, 0.0, 0.0) == [0, 0]  # a longer one that only stretches the view


def test_f4_another_view_of_the_batch_moves_a_view_that_did_not_change() -> None:
    first = [2.0, 1.0]
    for second, expected in (([1.0, 2.0], Fraction(2, 3)), ([8.0, 1.0], Fraction(4, 11))):
        code = sinkhorn(torch.tensor([first, second]).log(), rounds=1)
        assert code[0].tolist() == pytest.approx([float(expected), 1 - float(expected)], abs=1e-6)

    # 2/3 of the view in the first cluster, then 4/11: its cluster has changed, its scores have not


def test_f5_one_frame_moves_every_coordinate_of_a_view() -> None:
    method = CTRL(CTRLConfig(head_norm="none"), 256, 3, torch.Generator().manual_seed(0))
    features = torch.randn(1, 2, 256, generator=torch.Generator().manual_seed(1))
    other = features.clone()
    other[0, 0] += 0.1
    embed, action = method.clustering().embed, torch.zeros(1, 2, dtype=torch.int64)
    with torch.no_grad():
        assert ((embed(features, action) - embed(other, action)).abs() > 1e-7).all()


def test_t3_the_radius_on_the_sphere_is_larger_than_the_margin() -> None:
    # e = (1, 0), (0, 1), v = e_1: the border is 45 degrees away.
    e, v = np.eye(2), np.eye(2)[:1]
    assert margins(e, v) == pytest.approx(0.5**0.5)
    angle = rotations(e, v)
    assert angle == pytest.approx(np.pi / 4)
    assert 2 * np.sin(angle / 2) == pytest.approx(0.7653668647)  # as a chord: more than .7071
    # An offset of .5: cos x - sin x = .5 where x + 45 degrees has a cosine of .5 / sqrt(2).
    assert np.rad2deg(rotations(e, v, np.array([0, 0.5]))) == pytest.approx(24.2951889)
    # An offset so low that no direction prefers the second: nothing to leave for.
    assert rotations(e, v, np.array([0, -1.5])) == np.inf


# --- The bisimulation proposition


def test_p0_without_rewards_every_state_is_bisimilar_to_every_other() -> None:
    process = random_process(4, 2, np.random.default_rng(2))
    silent = process._replace(reward=np.zeros_like(process.reward))
    assert not ferns(silent, 1.0, 0.9).any()
    assert not refine(silent.transition, silent.reward).any()
    others = ~np.eye(4, dtype=bool)
    assert ferns(process, 0.2, 0.8)[others].min() > 0.01
    # labels bring the distances back without any reward
    assert labelled(silent.transition, 1 - np.eye(4), 0.8)[others].min() >= 0.2


def test_p0_two_absorbing_states_fall_together_as_powers_of_the_discount() -> None:
    transition, d = np.eye(2)[:, None], 1 - np.eye(2)
    for _ in range(50):
        d = step(d, np.zeros((1, 2, 2)), transition, 0.9)
    assert d[0, 1] == pytest.approx(0.9**50)
    assert d[0, 1] == pytest.approx(0.00515, abs=1e-5)


def test_p0_only_a_collapsed_batch_puts_all_views_into_one_cluster() -> None:
    same = torch.tensor([[3.0, 1.0, -2.0]]).repeat(4, 1)
    assert sinkhorn(same, 3) == pytest.approx(1 / 3)  # ties: no cluster at all
    lifted = same + torch.tensor([[0.0], [5.0], [-1.0], [2.0]])  # differences alone count
    assert sinkhorn(lifted, 3) == pytest.approx(1 / 3)
    one_differs = same + 0.01 * torch.eye(4, 3)
    assert len(log_sinkhorn(one_differs, 3).argmax(1).unique()) >= 2


def test_p1_normalising_a_signed_view_loses_its_cluster() -> None:
    v = np.array([1.0, -1.0])
    opposite = unit(np.array([v, -v]))
    assert v.sum() == 0  # dividing by the sum: impossible
    assert cell(opposite, *v) == 0
    assert cell(opposite, *-v) == 1
    absolute = [np.abs(x) / np.abs(x).sum() for x in (v, -v)]
    assert wasserstein(*absolute, 1 - np.eye(2)) == 0.0  # by absolute values: W1 = 0
    # by softmax: adding 2 everywhere changes nothing in the law, and the cluster
    e = np.array([[1.0, 0.0], [-1.0, 0.0]])
    a, b = np.array([1.0, 0.0]), np.array([-1.0, -2.0])
    laws = [np.exp(x) / np.exp(x).sum() for x in (a, b)]
    assert laws[0] == pytest.approx(laws[1], abs=1e-15)
    assert (cell(e, *a), cell(e, *b)) == (0, 1)


def test_p2_views_of_one_cluster_need_not_have_ordered_margins() -> None:
    e, v, other = np.eye(2), np.array([1.0, 0.0]), np.array([2.0, 0.0])
    assert cell(e, *v) == cell(e, *other) == 0
    assert ((e[0] - e[1]) @ v, (e[0] - e[1]) @ other) == (1.0, 2.0)  # the proof asks for 1 >= 2
    # unit vectors too: (.8, .6) is in the same cluster as (1, 0), and .2 >= 1 is asked for
    assert cell(e, 0.8, 0.6) == 0
    assert (e[0] - e[1]) @ np.array([0.8, 0.6]) == pytest.approx(0.2)


def test_p3_no_threshold_on_transport_decides_the_cluster() -> None:
    e, ground = np.eye(2), 1 - np.eye(2)
    near = np.array([0.51, 0.49]), np.array([0.49, 0.51])
    far = np.array([1.0, 0.0]), np.array([0.51, 0.49])
    assert wasserstein(*near, ground) == pytest.approx(0.02)
    assert wasserstein(*far, ground) == pytest.approx(0.49)
    assert cell(e, *near[0]) != cell(e, *near[1])  # closer, and apart
    assert cell(e, *far[0]) == cell(e, *far[1])  # further, and together


@pytest.mark.parametrize("transport", [1e-1, 1e-4, 1e-9])
def test_p3_however_small_the_transport_clusters_may_differ(transport: float) -> None:
    e, ground, half = np.eye(2), 1 - np.eye(2), transport / 2
    v, other = np.array([0.5 + half, 0.5 - half]), np.array([0.5 - half, 0.5 + half])
    assert wasserstein(v, other, ground) == pytest.approx(transport)
    assert cell(e, *v) != cell(e, *other)


def test_p3_a_minimum_over_some_potentials_says_nothing_about_the_maximum_over_all() -> None:
    # Potentials 0 <= mu <= 1 that are 1-Lipschitz; the laws differ, one potential does not see it.
    ground = 1 - np.eye(3)
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.0, 0.5])
    family = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert (family @ (p - q)).tolist() == [0.0, -0.5]  # the minimum is even negative
    assert wasserstein(p, q, ground) == 0.5


def test_p4_the_bound_on_differences_is_wrong_and_the_set_of_potentials_may_be_empty() -> None:
    e = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert np.abs(e[0] - e[1]).max() == 2.0  # not at most 1
    assert not potentials_of(e, 0)
    assert not potentials_of(e, 1)
    # At most 1 everywhere, and still empty: without negative entries no difference is >= 0.
    e = unit(np.random.default_rng(6).random((200, 3)))
    assert np.abs(e[:, None] - e).max() <= 1
    assert not any(potentials_of(e, j) for j in range(200))
    # It can be otherwise: (0, 1) - (-1, 0) = (1, 1).
    assert potentials_of(np.array([[0.0, 1.0], [-1.0, 0.0]]), 0) == [1]


def potentials_of(e: np.ndarray, j: int) -> list[int]:
    """The k other than j with 0 <= e_j - e_k <= 1 in every coordinate."""
    difference = e[j] - e
    return [k for k, w in enumerate(difference) if k != j and w.min() >= 0 and w.max() <= 1]


def test_p5_the_distance_on_coordinates_is_none_and_the_last_line_says_x_at_most_half_x() -> None:
    e = np.array([0.8, 0.6])
    assert np.linalg.norm(e) == pytest.approx(1.0)
    distance = e[:, None] - e  # |e_j| (E_ij - E_i'j), as its use in the proof requires
    assert distance[0, 1] == pytest.approx(0.2)
    assert distance[1, 0] == pytest.approx(-0.2)
    x = e[0] - e[1]
    assert not x <= 0.5 * x


# --- The limits of what is proved instead


def test_r2_a_constant_embedding_puts_distant_laws_into_one_cluster() -> None:
    p, q = np.eye(2)
    f = np.ones((2, 3))
    e = unit(np.random.default_rng(3).normal(size=(4, 3)))
    assert cell(e, *(p @ f)) == cell(e, *(q @ f))
    assert wasserstein(p, q, 1 - np.eye(2)) == 1.0


def test_r2_an_isometric_embedding_of_states_is_not_enough() -> None:
    # Three places on a line, f(x) = x (with a constant beside it): |f(s) - f(t)| = d(s, t).
    place = np.array([-1.0, 0.0, 1.0])
    d = np.abs(place[:, None] - place)
    f = np.column_stack([place, np.ones(3)])
    still, spread = np.array([0.0, 1.0, 0.0]), np.array([0.5, 0.0, 0.5])
    assert (still @ f).tolist() == (spread @ f).tolist() == [0.0, 1.0]
    assert wasserstein(still, spread, d) == 1.0


def test_r2_with_independent_features_transport_is_bounded_by_the_distance_of_the_means() -> None:
    # One-hot features: the mean embedding is the law itself; W1 <= TV diam = |p - q|_1 / 2.
    rng = np.random.default_rng(4)
    for _ in range(50):
        p, q = rng.dirichlet(np.ones(5), 2)
        distance = 1 - np.eye(5)
        bound = np.sqrt(5) / 2 * np.linalg.norm(p - q)
        assert wasserstein(p, q, distance) <= bound + 1e-12


def fork() -> tuple[np.ndarray, np.ndarray]:
    """s forks before the second step, t after it: 0 s, 1 t, 2 x, 3 y, 4 z, 5 end B, 6 end C."""
    transition = np.zeros((7, 1, 7))
    transition[0, 0, [2, 3]] = 0.5
    transition[1, 0, 4] = 1
    transition[2, 0, 5] = transition[3, 0, 6] = 1
    transition[4, 0, [5, 6]] = 0.5
    transition[5, 0, 5] = transition[6, 0, 6] = 1
    return transition, np.array([0, 0, 1, 1, 1, 2, 3])


def test_r3_has_no_converse_equal_laws_of_paths_without_bisimilarity() -> None:
    transition, labels = fork()
    law = path_law(transition, labels, np.ones((7, 1)), steps=4)
    assert (law[0] == law[1]).all()
    blocks = refine(transition, labels)
    assert blocks[0] != blocks[1]
    d = labelled(transition, (labels[:, None] != labels).astype(float), 0.5)
    # x and z differ by half a chance of B against C, one step on: .5 * .5; s and t by .5 of that.
    assert d[2, 4] == pytest.approx(0.25, abs=1e-7)
    assert d[0, 1] == pytest.approx(0.125, abs=1e-7)


def test_r3_fails_for_a_policy_that_sees_more_than_the_label() -> None:
    transition, labels = np.eye(2)[:, None].repeat(2, axis=1), np.zeros(2, dtype=np.int64)
    assert refine(transition, labels).tolist() == [0, 0]
    law = path_law(transition, labels, np.eye(2), steps=1)
    assert law.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_r5_the_bound_is_attained() -> None:
    # V stays at e_1, .7071 from the border; V' is just beyond it with probability .3.
    e, r = np.eye(2), 0.5**0.5 - 1e-9
    views = np.array([[1.0, 0.0], [0.5 - 1e-9, 0.5 + 1e-9]])
    law, other = np.array([1.0, 0.0]), np.array([0.7, 0.3])
    assert assign(e, views).tolist() == [0, 1]
    apart = total_variation(law @ np.eye(2), other @ np.eye(2))
    assert apart == pytest.approx(0.3)
    distance = np.linalg.norm(views[:, None] - views, axis=2)
    assert margins(e, views)[0] > r  # so that P(margin <= r) = 0
    assert wasserstein(law, other, distance) / r == pytest.approx(0.3, abs=1e-8)
