"""Clustering, neighbours and health figures against hand values, closed forms and slow loops."""

import math

import pytest
import torch

from crosstraj import ops


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plain_sinkhorn(scores: torch.Tensor, rounds: int) -> torch.Tensor:
    """In the plain domain, element by element, in double precision."""
    code = torch.softmax(scores.double(), dim=1)
    rows, columns = code.shape
    for _ in range(rounds):
        for c in range(columns):
            code[:, c] = code[:, c] / sum(float(code[i, c]) for i in range(rows))
        for i in range(rows):
            code[i] = code[i] / sum(float(code[i, c]) for c in range(columns))
    return code


@pytest.mark.parametrize(
    ("rows", "columns", "rounds"), [(12, 5, 3), (4, 9, 3), (6, 6, 1), (5, 3, 0)]
)
def test_sinkhorn_equals_the_plain_loop(rows, columns, rounds):
    scores = torch.randn(rows, columns, generator=rng()) / 0.3
    expected = plain_sinkhorn(scores, rounds)
    torch.testing.assert_close(
        ops.sinkhorn(scores, rounds).double(), expected, atol=1e-6, rtol=1e-5
    )


def test_sinkhorn_assigns_every_view_fully_and_fills_clusters_ever_more_equally():
    scores = torch.randn(60, 10, generator=rng()) / 0.1
    worst = []
    for rounds in (0, 1, 3, 300):
        code = ops.sinkhorn(scores, rounds)
        torch.testing.assert_close(code.sum(1), torch.ones(60))
        worst.append(float((code.sum(0) - 6.0).abs().max()))  # B / C = 6 views per cluster
    assert worst[0] > worst[1] > worst[2] > worst[3]
    assert worst[3] < 0.05


def test_sinkhorn_ignores_a_constant_added_to_a_row_but_not_to_a_column():
    scores = torch.randn(20, 6, generator=rng())
    shifted = scores + torch.linspace(-50, 50, 20)[:, None]
    torch.testing.assert_close(
        ops.sinkhorn(shifted, 3), ops.sinkhorn(scores, 3), atol=1e-5, rtol=1e-4
    )
    tilted = scores + torch.linspace(-3, 3, 6)
    assert not torch.allclose(ops.sinkhorn(tilted, 1), ops.sinkhorn(scores, 1), atol=1e-3)


def test_sinkhorn_of_equal_scores_is_uniform():
    torch.testing.assert_close(ops.sinkhorn(torch.zeros(7, 4), 3), torch.full((7, 4), 0.25))


@pytest.mark.parametrize("shape", [(1, 5), (5, 40), (40, 5)])
def test_sinkhorn_is_finite_when_sharp_and_with_more_clusters_than_views(shape):
    scores = ops.unit(torch.randn(*shape, generator=rng())) / 0.01
    for extreme in (scores, torch.randn(*shape, generator=rng()) * 1e4):
        code = ops.sinkhorn(extreme, 3)
        assert code.isfinite().all()
        torch.testing.assert_close(code.sum(1), torch.ones(shape[0]))


def test_sinkhorn_stays_in_single_precision_when_scores_are_halves():
    code = ops.sinkhorn((torch.randn(8, 4, generator=rng()) / 0.05).half(), 3)
    assert code.dtype == torch.float32
    torch.testing.assert_close(code.sum(1), torch.ones(8))


# On a circle, the neighbours of a direction are known by their angle.
CIRCLE = torch.tensor([[math.cos(a), math.sin(a)] for a in (0.0, 0.2, 0.5, 2.0, 3.1)])
ALL = torch.ones(5, dtype=torch.bool)


def test_neighbours_are_the_nearest_in_order_and_never_oneself():
    near, exists = ops.neighbour_clusters(CIRCLE, ALL, 3, "nearest")
    assert near.tolist() == [[1, 2, 3], [0, 2, 3], [1, 0, 3], [4, 2, 1], [3, 2, 1]]
    assert exists.all()


def test_farthest_neighbours_are_the_other_end_of_the_same_order():
    far, _ = ops.neighbour_clusters(CIRCLE, ALL, 2, "farthest")
    assert far.tolist() == [[4, 3], [4, 3], [4, 3], [0, 1], [0, 1]]


def test_empty_clusters_are_nobodys_neighbours():
    occupied = torch.tensor([True, False, True, False, True])
    near, exists = ops.neighbour_clusters(CIRCLE, occupied, 3, "nearest")
    for row in range(5):
        found = near[row][exists[row]].tolist()
        assert set(found) <= {0, 2, 4} - {row}
        assert len(found) == (2 if row in (0, 2, 4) else 3)
    assert near[0][exists[0]].tolist() == [2, 4]


def test_more_neighbours_than_clusters_is_no_error():
    near, exists = ops.neighbour_clusters(CIRCLE[:2], ALL[:2], 3, "nearest")
    assert near.tolist() == [[1], [0]]
    assert exists.all()


def test_members_are_drawn_uniformly_and_never_from_the_own_fragment():
    #                        0  1  2  3  4  5  6  7
    cluster = torch.tensor([0, 1, 1, 1, 1, 1, 2, 2])
    fragment = torch.tensor([0, 0, 1, 1, 2, 3, 0, 0])
    draws = 6000
    wanted = torch.ones(draws, 1, dtype=torch.int64)
    own = torch.ones(draws, dtype=torch.int64)  # fragment 1: views 2 and 3 are its own
    member, valid = ops.draw_members(cluster, fragment, wanted, own, rng())
    assert valid.all()
    counts = torch.bincount(member.flatten(), minlength=8)
    assert counts[[0, 2, 3, 6, 7]].sum() == 0
    # Three members, each with probability 1/3: five standard deviations of a binomial count.
    spread = 5 * math.sqrt(draws / 3 * 2 / 3)
    assert (counts[[1, 4, 5]] - draws / 3).abs().max() < spread


def test_members_of_the_own_fragment_are_drawn_when_allowed():
    cluster, fragment = torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1])
    wanted = torch.ones(4000, 1, dtype=torch.int64)
    member, _ = ops.draw_members(cluster, fragment, wanted, None, rng())
    counts = torch.bincount(member.flatten(), minlength=4)
    assert counts[0] == 0
    assert (counts[1:] - 4000 / 3).abs().max() < 5 * math.sqrt(4000 / 3 * 2 / 3)


def test_a_cluster_with_nobody_to_offer_is_marked():
    cluster, fragment = torch.tensor([0, 1, 1]), torch.tensor([0, 5, 5])
    wanted = torch.tensor([[1, 2], [1, 0]])
    _, valid = ops.draw_members(cluster, fragment, wanted, torch.tensor([5, 0]), rng())
    assert valid.tolist() == [[False, False], [True, False]]


def test_drawing_members_equals_a_slow_loop_over_who_may_be_drawn():
    cluster = torch.randint(6, (80,), generator=rng(1))
    fragment = torch.randint(5, (80,), generator=rng(2))
    wanted = torch.randint(7, (400, 3), generator=rng(3))
    own = torch.randint(5, (400,), generator=rng(4))
    member, valid = ops.draw_members(cluster, fragment, wanted, own, rng(5))
    for n in range(400):
        for k in range(3):
            allowed = [i for i in range(80) if cluster[i] == wanted[n, k] and fragment[i] != own[n]]
            assert bool(valid[n, k]) == bool(allowed)
            if allowed:
                assert int(member[n, k]) in allowed


def test_squared_distance_of_unit_vectors_is_two_minus_two_cosines():
    a, b = (ops.unit(torch.randn(9, 4, generator=rng(s))) for s in (0, 1))
    torch.testing.assert_close(ops.squared_distance(a, b), 2 - 2 * (a * b).sum(-1))
    hand = ops.squared_distance(torch.tensor([1.0, 2.0]), torch.tensor([4.0, -2.0]))
    assert float(hand) == 25.0


def test_mean_cosine_equals_the_loop_over_pairs_and_ignores_length():
    x = torch.randn(7, 3, generator=rng()) * torch.arange(1, 8)[:, None]
    pairs = [
        float(torch.cosine_similarity(x[i], x[j], dim=0))
        for i in range(7)
        for j in range(7)
        if i != j
    ]
    assert float(ops.mean_cosine(x)) == pytest.approx(sum(pairs) / len(pairs), abs=1e-6)
    assert float(ops.mean_cosine(torch.ones(5, 4))) == pytest.approx(1.0)


def test_entropy_of_known_distributions():
    table = torch.tensor([[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    expected = torch.tensor([math.log(4), 0.0, math.log(2)])
    torch.testing.assert_close(ops.entropy(table), expected)


def test_effective_rank_of_known_matrices():
    assert float(ops.effective_rank(torch.eye(6))) == pytest.approx(6.0, rel=1e-5)
    one_direction = torch.outer(torch.arange(1.0, 9.0), torch.ones(5))
    assert float(ops.effective_rank(one_direction)) == pytest.approx(1.0, abs=1e-2)
    # Singular values 3 and 1: exp of the entropy of (3/4, 1/4).
    expected = math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert float(ops.effective_rank(torch.diag(torch.tensor([3.0, 1.0])))) == pytest.approx(
        expected
    )
