"""The shared maths against hand values, closed forms and slow loops."""

import math

import pytest
import torch
import torch.nn.functional as F
from scipy.linalg import svdvals
from scipy.stats import entropy
from torch import nn

from crosstraj.nn import ops
from crosstraj.nn.ops import feature_health, sample
from tests.helpers import rng

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


def slow_centred(features: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    rows = []
    for i in range(len(features)):
        own = [features[j] for j in range(len(features)) if group[j] == group[i]]
        rows.append(features[i] - sum(own) / len(own))
    return torch.stack(rows)


@pytest.mark.parametrize(
    "group", [[0, 0, 0, 1, 1, 3, 4, 4], [4, 0, 3, 0, 1, 4, 0, 1], [2, 2, 2, 2, 2, 2, 2, 2]]
)
def test_centring_equals_a_slow_loop_forward_and_backward(group):
    group = torch.tensor(group)  # group 2 is empty in the first two, group 3 has one row
    features = torch.randn(8, 3, generator=rng(), dtype=torch.float64, requires_grad=True)
    found, expected = ops.centred(features, group, 5), slow_centred(features, group)
    torch.testing.assert_close(found, expected)
    weight = torch.randn(8, 3, generator=rng(1), dtype=torch.float64)
    slope, slow = (torch.autograd.grad((x * weight).sum(), features)[0] for x in (found, expected))
    torch.testing.assert_close(slope, slow)


def test_centred_rows_of_a_group_sum_to_zero_and_forget_what_is_added_to_the_group():
    group = torch.arange(6).repeat_interleave(5)
    features = torch.randn(30, 4, generator=rng())
    found = ops.centred(features, group, 6)
    torch.testing.assert_close(found.view(6, 5, 4).sum(1), torch.zeros(6, 4), atol=1e-5, rtol=0)
    added = 10 * torch.randn(6, 4, generator=rng(1))
    torch.testing.assert_close(
        ops.centred(features + added.repeat_interleave(5, 0), group, 6), found, atol=1e-5, rtol=0
    )


def test_centring_on_two_threads_is_the_same_each_time_forward_and_backward():
    threads = torch.get_num_threads()
    group = torch.randint(64, (2048,), generator=rng()).sort().values
    features = torch.randn(2048, 256, generator=rng(1), requires_grad=True)
    weight = torch.randn(2048, 256, generator=rng(2))
    try:
        torch.set_num_threads(2)
        for repeat in range(20):
            found = ops.centred(features, group, 64)
            (slope,) = torch.autograd.grad((found * weight).sum(), features)
            if repeat == 0:
                first, first_slope = found.detach(), slope
            assert torch.equal(found, first)
            assert torch.equal(slope, first_slope)
    finally:
        torch.set_num_threads(threads)


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


def test_the_gradient_of_the_effective_rank_is_right_and_finite_where_features_are_dead():
    matrix = torch.randn(7, 4, generator=rng(), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ops.effective_rank, (matrix,))
    for dead in (torch.zeros(7, 4), torch.eye(7, 4) * torch.tensor([2.0, 1.0, 0.0, 0.0])):
        dead.requires_grad_()
        ops.effective_rank(dead).log().backward()
        assert dead.grad is not None
        assert dead.grad.isfinite().all()
    broken = torch.tensor([[1.0, math.inf], [0.0, 1.0]], requires_grad=True)
    rank = ops.effective_rank(broken)
    rank.backward()
    assert rank.isnan()
    assert broken.grad is not None
    assert broken.grad.isnan().all()  # so that the guard before the step sees it


def test_info_nce_by_hand_blind_and_certain():
    scores = torch.tensor([[2.0, 0.0], [1.0, 3.0]])
    # -log of e^2 / (e^2 + e^0) and of e^3 / (e^3 + e^1): both e^2 against 1.
    assert float(ops.info_nce(scores)) == pytest.approx(math.log(1 + math.exp(-2)))
    assert float(ops.info_nce(torch.ones(7, 7))) == pytest.approx(math.log(7))
    assert float(ops.info_nce(100 * torch.eye(7))) == pytest.approx(0.0, abs=1e-6)
    wrong_way = torch.tensor([[0.0, 5.0], [0.0, 0.0]])  # rows are the askers, not columns
    expected = (math.log(1 + math.exp(5)) + math.log(2)) / 2
    assert float(ops.info_nce(wrong_way)) == pytest.approx(expected)


def test_top_one_counts_the_rows_that_find_their_own():
    scores = torch.tensor([[3.0, 1.0, 0.0], [5.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    assert float(ops.top_one(scores)) == pytest.approx(2 / 3)


def test_a_follower_is_the_closed_form_of_its_moving_average():
    target, online = nn.Linear(2, 2), nn.Linear(2, 2)
    start = target.weight.detach().clone()
    for _ in range(5):
        ops.follow(target, online, 0.9)
    expected = 0.9**5 * start + (1 - 0.9**5) * online.weight
    torch.testing.assert_close(target.weight, expected)
    ops.follow(target, online, 0.0)
    assert torch.equal(target.bias, online.bias)
    before = target.weight.detach().clone()
    ops.follow(target, nn.Linear(2, 2), 1.0)
    assert torch.equal(target.weight, before)


def test_a_follower_copies_counters_and_averages_statistics():
    target, online = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    online.running_mean += 4.0
    online.num_batches_tracked += 9
    ops.follow(target, online, 0.5)
    assert target.running_mean.tolist() == [2.0, 2.0]
    assert int(target.num_batches_tracked) == 9


@pytest.mark.parametrize("pad", [1, 4])
def test_a_shift_is_a_crop_of_the_frame_with_its_border_repeated(pad):
    frames = torch.randint(256, (200, 5, 7, 3), generator=rng(1), dtype=torch.uint8)
    shifted = ops.random_shift(frames, pad, rng(2))
    assert shifted.dtype == torch.uint8
    padded = F.pad(frames.permute(0, 3, 1, 2).float(), (pad,) * 4, mode="replicate")
    padded = padded.permute(0, 2, 3, 1).to(torch.uint8)
    used = set()
    for image in range(200):
        crops = {
            (i, j): padded[image, i : i + 5, j : j + 7]
            for i in range(2 * pad + 1)
            for j in range(2 * pad + 1)
        }
        matches = [place for place, crop in crops.items() if torch.equal(crop, shifted[image])]
        assert matches
        used.update(matches)
    assert len(used) > 0.8 * (2 * pad + 1) ** 2  # rows and columns move each by its own draw


def test_no_shift_and_no_intensity_change_nothing():
    frames = torch.randint(256, (4, 5, 5, 3), generator=rng(), dtype=torch.uint8)
    assert torch.equal(ops.random_shift(frames, 0, rng()), frames)
    assert torch.equal(ops.random_intensity(frames, 0.0, rng()), frames)


def test_intensity_scales_each_frame_by_one_factor_near_one():
    frames = torch.full((500, 2, 2, 3), 100, dtype=torch.uint8)
    scaled = ops.random_intensity(frames, 0.05, rng())
    assert (scaled.flatten(1) == scaled[:, :1, :1, :1].flatten(1)).all()
    values = scaled[:, 0, 0, 0].float()
    assert float(values.min()) == 90.0  # cut at two standard deviations
    assert float(values.max()) == 110.0
    assert float(values.mean()) == pytest.approx(100, abs=1)
    bright = ops.random_intensity(torch.full((50, 1, 1, 1), 250, dtype=torch.uint8), 0.5, rng())
    assert int(bright.max()) == 255  # not wrapped round


def test_min_max_scales_each_sample_and_makes_a_constant_one_zero():
    x = torch.tensor([[[1.0, 3.0], [2.0, 5.0]], [[7.0, 7.0], [7.0, 7.0]]])
    assert ops.min_max(x).tolist() == [[[0.0, 0.5], [0.25, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]


def test_the_mean_cosine_of_one_vector_is_a_number():
    assert float(ops.mean_cosine(torch.ones(1, 3))) == pytest.approx(0.0, abs=1e-6)


def test_effective_rank_is_that_of_scipys_singular_values():
    matrix = torch.randn(50, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = math.exp(entropy(svdvals(matrix.numpy())))
    assert float(ops.effective_rank(matrix)) == pytest.approx(expected)


def test_a_sample_of_a_rollout_is_from_all_over_it():
    steps = torch.arange(256 * 32)
    for count in (128, 1024):
        chosen = sample(steps, count)
        assert len(chosen.unique()) == count
        assert len((chosen % 32).unique()) >= 28  # environments
        assert len((chosen // 1024).unique()) == 8  # and times
    assert torch.equal(sample(steps[:5], 256).sort().values, steps[:5])


def test_feature_health_of_known_features():
    g = torch.Generator().manual_seed(0)
    features = torch.randn(4096, 8, generator=g) * 2
    features[:, 6:] = 0.0
    figures = feature_health(features)
    assert float(figures["feature_std"]) == pytest.approx(2 * 6 / 8, rel=0.05)
    assert float(figures["dead_features"]) == 0.25
    assert float(figures["feature_rank"]) == pytest.approx(6.0, rel=0.02)
    for constant in (0.0, 3.0):  # dead altogether, which is a figure and no error
        figures = feature_health(torch.full((64, 8), constant))
        assert float(figures["dead_features"]) == 1.0
        assert float(figures["feature_rank"]) == pytest.approx(1.0, abs=1e-2)
