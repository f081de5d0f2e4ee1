"""Bisimulation metrics against closed forms and slow definitions; the proved statements swept."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from crosstraj.cli.main import main
from crosstraj.objectives import pse
from crosstraj.objectives.ctrl import CTRL, CTRLConfig
from crosstraj.theory import behaviour, metrics, statements
from crosstraj.theory.behaviour import (
    BEHAVIOUR,
    cluster_law,
    path_distance,
    path_law,
    sweep_behaviour,
)
from crosstraj.theory.decision_processes import (
    Process,
    follow,
    optimal_values,
    random_policy,
    random_process,
    with_copies,
)
from crosstraj.theory.geometry import GEOMETRY, sweep_geometry
from crosstraj.theory.partition import bisimilar, refine
from crosstraj.theory.prototype_cells import assign, margins, rotations, unit
from crosstraj.theory.rates import RATES
from crosstraj.theory.sweep import Sweep


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


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


def absorbing(*rewards: float) -> Process:
    return Process(np.eye(len(rewards))[:, None], np.array(rewards)[:, None])


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


def test_values_of_an_absorbing_state_are_a_geometric_series() -> None:
    assert optimal_values(absorbing(0.0, 1.0), 0.9) == pytest.approx([0, 10], abs=1e-9)


# --- Partitions


def test_refinement_finds_the_coarsest_of_all_partitions_that_are_bisimulations() -> None:
    g, sizes = rng(5), set()
    for _ in range(30):
        base = random_process(3, 2, g, successors=1, rewards=(0.0, 1.0))
        process, _ = with_copies(base, 2, g)
        process = Process(process.transition[:5, :, :5], process.reward[:5])
        lost = 1 - process.transition.sum(2)  # what led to the state cut off stays where it is
        process.transition[np.arange(5), :, np.arange(5)] += lost
        fitting = [blocks for blocks in partitions(5) if is_bisimulation(process, np.array(blocks))]
        coarsest = min(fitting, key=lambda blocks: max(blocks))
        assert bisimilar(process).tolist() == list(coarsest)
        sizes.add(max(coarsest) + 1)
    assert len(sizes) >= 3  # from few classes to many


def partitions(states: int) -> list[tuple[int, ...]]:
    """All partitions, each with its blocks numbered in order of appearance."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(states):
        found = [(*blocks, b) for blocks in found for b in range(max(blocks, default=-1) + 2)]
    return found


def is_bisimulation(process: Process, blocks: np.ndarray) -> bool:
    """The definition, word for word, with classes where the paper prints states."""
    for s, t in product(range(len(blocks)), repeat=2):
        if blocks[s] != blocks[t]:
            continue
        for a in range(process.reward.shape[1]):
            if process.reward[s, a] != process.reward[t, a]:
                return False
            for block in set(blocks.tolist()):
                inside = blocks == block
                mass_s = process.transition[s, a, inside].sum()
                if abs(mass_s - process.transition[t, a, inside].sum()) > 1e-10:
                    return False
    return True


def test_copies_are_bisimilar_and_no_others() -> None:
    process, original = with_copies(random_process(4, 2, rng(6)), 3, rng(7))
    assert bisimilar(process).tolist() == original.tolist()
    assert np.abs(process.transition[0] - process.transition[1]).max() > 0.01


def test_labels_split_what_dynamics_alone_would_not() -> None:
    transition = random_process(4, 2, rng(8)).transition
    assert refine(transition, np.zeros(4)).tolist() == [0, 0, 0, 0]
    assert len(set(refine(transition, np.array([0, 0, 0, 1])).tolist())) == 4


def test_generators_give_processes_and_the_same_ones_for_a_seed() -> None:
    process = random_process(6, 2, rng(9), successors=3)
    assert process.transition.sum(2) == pytest.approx(np.ones((6, 2)))
    assert ((process.transition > 0).sum(2) == 3).all()
    again = random_process(6, 2, rng(9), successors=3)
    assert (process.transition == again.transition).all()
    assert random_policy(6, 2, rng(9)).sum(1) == pytest.approx(np.ones(6))


# --- Cells and paths


def test_margins_of_two_orthogonal_prototypes_by_hand() -> None:
    corners = np.eye(2)
    v = np.array([[2.0, 0.0], [1.0, 0.9], [0.0, 3.0]])
    assert assign(corners, v).tolist() == [0, 0, 1]
    assert margins(corners, v) == pytest.approx(np.array([2, 0.1, 3]) / np.sqrt(2))
    assert margins(corners, v, order=1) == pytest.approx(np.array([2, 0.1, 3]) / 2)
    # an offset of .5 to the second cluster takes the second view
    assert assign(corners, v, np.array([0, 0.5])).tolist() == [0, 1, 1]
    expected = np.array([1.5, 0.4, 3.5]) / np.sqrt(2)
    assert margins(corners, v, np.array([0, 0.5])) == pytest.approx(expected)
    assert rotations(corners, unit(v)) == pytest.approx(np.arcsin(margins(corners, unit(v))))


def test_a_prototype_twice_has_no_border_with_itself() -> None:
    twice = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert margins(twice, np.array([[1.0, 0.0]])) == pytest.approx(1 / np.sqrt(2))


def test_the_law_of_paths_equals_a_sum_over_states() -> None:
    process, policy = random_process(3, 2, rng(10)), random_policy(2, 2, rng(11))
    labels = np.array([0, 1, 1])
    law = path_law(process.transition, labels, policy[labels], steps=2)
    slow = np.zeros((3, 2, 2, 2, 2))
    for s, a, t, b in product(range(3), range(2), range(3), range(2)):
        chance = policy[labels[s], a] * process.transition[s, a, t] * policy[labels[t], b]
        slow[s, labels[s], a, labels[t], b] += chance
    assert law == pytest.approx(slow.reshape(3, -1))


def test_the_distance_of_paths_is_a_discounted_sum() -> None:
    base = np.abs(rng(12).random(3)[:, None] - rng(13).random(3))
    found = path_distance(base, 3)
    for p, q in ((0, 26), (5, 19), (14, 14), (25, 1)):
        steps = zip(np.unravel_index(p, (3, 3, 3)), np.unravel_index(q, (3, 3, 3)), strict=True)
        slow = sum(0.5 * 0.5**t * base[s, other] for t, (s, other) in enumerate(steps))
        assert found[p, q] == pytest.approx(slow)


# --- What docs/theory.md proves


def test_r3_for_the_views_and_clusters_of_ctrl_itself() -> None:
    # Three states in two copies each; the first and second look alike, and lead elsewhere.
    process, original = with_copies(random_process(3, 2, rng(14)), 2, rng(15))
    labels = np.array([0, 0, 1])[original]
    policy = random_policy(2, 2, rng(16))[labels]
    law = path_law(process.transition, labels, policy, steps=2)
    config = CTRLConfig(clusters=6, width=4, head_norm="none")
    method = CTRL(config, 256, 2, torch.Generator().manual_seed(0))
    clustering = method.clustering()
    look = torch.randn(2, 256, generator=torch.Generator().manual_seed(1))
    path = torch.cartesian_prod(*[torch.arange(2)] * 4)  # label, action, label, action
    with torch.no_grad():
        v = clustering.embed(look[path[:, ::2]], path[:, 1::2]).double().numpy()
    scores = unit(v) @ method.prototypes.detach().double().numpy().T
    found = cluster_law(law, (scores + 0.1 * rng(17).normal(size=6)).argmax(1), 6)
    assert found[::2] == pytest.approx(found[1::2], abs=1e-12)  # copies
    assert metrics.total_variation(found[0], found[2]) > 1e-3  # alike to look at, not to follow
    assert metrics.total_variation(found[0], found[4]) > 1e-3


@pytest.mark.parametrize("name", GEOMETRY)
def test_no_violation_among_cells(name: str) -> None:
    found = sweep_geometry(name, 10, rng(20))
    assert found.violated == 0
    assert found.held >= 1000


@pytest.mark.parametrize("name", BEHAVIOUR)
def test_no_violation_in_random_processes(name: str) -> None:
    found = sweep_behaviour(name, 5, rng(21))
    assert found.violated == 0
    assert found.held >= 10


def test_the_sweep_would_see_a_premise_that_is_too_weak(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = behaviour._transport
    monkeypatch.setattr(behaviour, "_transport", lambda law, d: 0.2 * exact(law, d))
    assert sweep_behaviour("R1 small transport", 5, rng(21)).violated > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GEOMETRY, *BEHAVIOUR])
def test_no_violation_in_a_large_sweep(name: str) -> None:
    large = sweep_geometry(name, 500, rng(22)) if name in GEOMETRY else None
    found = large or sweep_behaviour(name, 200, rng(23))
    assert found.violated == 0


def test_a_sweep_counts_only_failures_under_the_premise() -> None:
    held, failed = np.array([True, True, False]), np.array([True, False, True])
    assert Sweep.of(held, failed) == Sweep(tried=3, held=2, violated=1)


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SETS", "PROCESSES", "RATE_SETS"):
        monkeypatch.setattr(statements, name, 1)


def test_the_command_prints_every_statement_and_the_same_for_a_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small(monkeypatch)
    said = []
    for _ in range(2):
        assert main(["theory", "--seed", "3"]) == 0
        said.append(capsys.readouterr().out)
    assert all(name in said[0] for name in (*GEOMETRY, *BEHAVIOUR, *RATES))
    assert said[0] == said[1]


def test_the_command_finds_a_statement_that_is_false(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small(monkeypatch)
    monkeypatch.setitem(GEOMETRY, "T1 cone", RATES["F1 aligned with one, leaves; step 0.3"])
    assert main(["theory"]) == 1
    assert "a proved statement was violated: T1 cone" in capsys.readouterr().err


def test_the_command_refuses_a_scale_below_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "--scale", "0"]) == 2
    assert capsys.readouterr().err == "crosstraj: --scale=0: must be at least 1\n"


def test_the_page_names_checks_that_exist_and_every_statement_of_the_sweep() -> None:
    tests = Path(__file__).parents[1]
    page = (tests.parent / "docs" / "theory.md").read_text()
    code = "".join(
        path.read_text()
        for path in (*(tests / "theory").glob("*.py"), tests / "objectives" / "test_situations.py")
    )
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 30
    assert [name for name in sorted(named) if f"def {name}(" not in code] == []
    swept = re.findall(r"^(\w\d .*?)\s{2,}[\d,]+\s+[\d,]+\s+0$", page, re.MULTILINE)
    assert swept == [*GEOMETRY, *BEHAVIOUR]
