"""Laws of paths against sums over states, and what is proved of them in a sweep."""

from itertools import product

import numpy as np
import pytest
import torch

from crosstraj.objectives.ctrl import CTRL, CTRLConfig
from crosstraj.theory import behaviour, metrics
from crosstraj.theory.behaviour import (
    BEHAVIOUR,
    cluster_law,
    path_distance,
    path_law,
    sweep_behaviour,
)
from crosstraj.theory.decision_processes import random_policy, random_process, with_copies
from crosstraj.theory.prototype_cells import unit
from tests.theory.slow import rng


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


@pytest.mark.parametrize("name", BEHAVIOUR)
def test_no_violation_in_random_processes(name: str) -> None:
    found = sweep_behaviour(name, 5, rng(21))
    assert found.violated == 0
    assert found.held >= 10


def test_the_sweep_would_see_a_premise_that_is_too_weak(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = behaviour._transport
    monkeypatch.setattr(behaviour, "_transport", lambda law, d: 0.2 * exact(law, d))
    assert sweep_behaviour("R1 small transport", 5, rng(21)).violated > 0
