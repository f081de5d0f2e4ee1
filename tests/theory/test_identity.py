"""What codes are about (docs/theory.md, S1-S7): the statements in numbers, and learnt in small."""

import math
from collections.abc import Callable
from functools import cache, partial
from itertools import combinations, product

import pytest
import torch
from torch import Tensor

from crosstraj.cli.main import main
from crosstraj.nn import ops
from crosstraj.nn.sinkhorn import sinkhorn
from crosstraj.theory import code_variants, identity
from crosstraj.theory.code_variants import NEAR_CENTRED, ROWS, VARIANTS
from crosstraj.theory.identity import (
    Found,
    Net,
    Setting,
    Variant,
    information,
    learn,
    pair_loss,
    share_between,
    told_of_stretch,
)
from crosstraj.theory.walks import draw_looks, draw_walks
from tests.helpers import rng

learnt = cache(learn)  # for tests that change nothing


def random_code(shape: tuple[int, ...], sharp: float, seed: int) -> Tensor:
    return (sharp * torch.randn(shape, generator=rng(seed), dtype=torch.float64)).softmax(-1)


def any_pair_loss(code: Tensor, log_prediction: Tensor) -> Tensor:
    """Both steps drawn from the whole stretch, on their own: they may be the same one."""
    return -(code.mean(1) * log_prediction.mean(1)).sum(1).mean()


def told(code: Tensor) -> Tensor:
    """H(C), of the mean code."""
    return ops.entropy(code.mean((0, 1)))


# --- The figures


def test_the_loss_equals_a_slow_loop_over_pairs_and_looks_ahead() -> None:
    code, log_p = random_code((3, 5, 4), 1, 0), random_code((3, 5, 4), 1, 1).log()
    for near in (True, False):
        terms = [
            -float((code[g, j] * log_p[g, i]).sum())
            for g in range(3)
            for i, j in product(range(5), repeat=2)
            if (j == i + 1 if near else j != i)
        ]
        assert float(pair_loss(code, log_p, near)) == pytest.approx(sum(terms) / len(terms))


def test_information_by_hand() -> None:
    a = torch.tensor([0, 0, 1, 1, 2, 2])
    assert information(a, a) == pytest.approx(math.log(3))
    assert information(a, torch.tensor([0, 1, 0, 1, 0, 1])) == pytest.approx(0, abs=1e-12)
    assert information(a, torch.tensor([0, 0, 0, 0, 1, 1])) == pytest.approx(
        math.log(3) - 2 / 3 * math.log(2)
    )


def test_the_share_between_labels_by_hand() -> None:
    features = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
    assert share_between(features, torch.tensor([0, 0, 1, 1])) == pytest.approx(100 / 104)


def test_untrained_features_have_three_quarters_of_their_variance_between_levels() -> None:
    assert learn(ROWS["additive: near, centred"].setting, 0, updates=0).share == pytest.approx(
        0.75, abs=0.01
    )


def test_one_seed_gives_one_result() -> None:
    setting = ROWS["additive: near, centred"].setting
    assert learn(setting, 5, updates=5) == learn(setting, 5, updates=5)


# --- S1, S2: what the loss of uniform partners asks for


def test_s1_no_codes_and_predictions_beat_what_codes_tell_of_the_stretch() -> None:
    for seed in range(300):
        shape = (4, 2 + seed % 7, 3)
        sharp = 10.0 ** (seed % 4 - 1)
        code = random_code(shape, sharp, seed)
        own = random_code(shape, sharp, seed + 1000).log()
        best = code.mean(1, keepdim=True).expand(shape).log()
        bound = told(code) - told_of_stretch(code)
        assert any_pair_loss(code, own) >= bound - 1e-12
        assert any_pair_loss(code, best) == pytest.approx(float(bound), abs=1e-12)


def test_s1_the_bound_is_loose_by_how_far_predictions_are_from_the_mean_code() -> None:
    code, log_p = random_code((5, 6, 4), 2, 0), random_code((5, 6, 4), 2, 1).log()
    mean = code.mean(1, keepdim=True)
    divergence = (mean * (mean.log() - log_p)).sum(2).mean()
    gap = any_pair_loss(code, log_p) - told(code) + told_of_stretch(code)
    assert float(gap) == pytest.approx(float(divergence))


def test_s1_what_codes_tell_of_the_inside_is_paid_nat_by_nat() -> None:
    for seed in range(100):
        code = random_code((4, 6, 5), 3, seed)
        inside = (ops.entropy(code.mean(1)) - ops.entropy(code).mean(1)).mean()
        log_p = random_code((4, 6, 5), 3, seed + 1000).log()
        assert any_pair_loss(code, log_p) >= inside + ops.entropy(code).mean() - 1e-12


def test_s2_with_spare_clusters_the_loss_does_not_care_what_they_hold() -> None:
    # Two stretches of three steps and six clusters: three clusters are each stretch's own.
    by_step = torch.eye(6, dtype=torch.float64).view(2, 3, 6)
    by_nothing = by_step.mean(1, keepdim=True).expand(2, 3, 6)
    prediction = by_nothing.clamp(min=1e-30).log()
    for code in (by_step, by_nothing):
        torch.testing.assert_close(code.mean((0, 1)), torch.full((6,), 1 / 6).double())
        assert float(any_pair_loss(code, prediction)) == pytest.approx(math.log(6) - math.log(2))
    hard = by_step.argmax(2).flatten()
    assert information(hard, torch.arange(3).repeat(2)) == pytest.approx(math.log(3))


def test_s2_three_stretches_in_two_clusters_must_split_one() -> None:
    steps = torch.linspace(0, 1, 41, dtype=torch.float64)
    first, second = (axis.flatten() for axis in torch.meshgrid(steps, steps, indexing="ij"))
    third = 1.5 - first - second
    weight = torch.stack([first, second, third])[:, (third >= 0) & (third <= 1)]
    loss = ops.entropy(torch.stack([weight, 1 - weight], 2)).mean(0)
    assert float(loss.min()) == pytest.approx(math.log(2) / 3)
    assert sorted(weight[:, loss.argmin()].tolist()) == pytest.approx([0, 0.5, 1])


# --- S3: the leaks


def test_s3_drawn_without_replacement_steps_tell_of_each_other() -> None:
    for length in (2, 3, 8):
        code = torch.eye(length, dtype=torch.float64)[None].expand(3, -1, -1)  # which step it is
        others = (1 - code) / (length - 1)
        loss = pair_loss(code, others.clamp(min=1e-30).log(), near=False)
        leak = math.log(length / (length - 1))
        assert float(told(code) - loss) == pytest.approx(leak)  # attained
        assert float(told_of_stretch(code)) == pytest.approx(0, abs=1e-12)
    for seed in range(200):
        shape = (4, 2 + seed % 5, 3)
        code, log_p = (random_code(shape, 3, seed + more) for more in (0, 1000))
        gained = told(code) - pair_loss(code, log_p.log(), near=False)
        assert gained <= told_of_stretch(code) + math.log(shape[1] / (shape[1] - 1)) + 1e-12


@pytest.mark.parametrize(("length", "keypoints"), [(2, 1), (5, 1), (4, 2), (6, 2), (6, 3)])
def test_s3_the_leak_of_keypoint_sets_is_total_at_twice_their_size(length, keypoints) -> None:
    sets = list(combinations(range(length), keypoints))
    pairs = [(i, j) for i, j in product(range(len(sets)), repeat=2) if not {*sets[i]} & {*sets[j]}]
    leak = information(*torch.tensor(pairs).T)
    apart = math.comb(length - keypoints, keypoints)
    assert leak == pytest.approx(math.log(len(sets) / apart))
    if length == 2 * keypoints:
        assert leak == pytest.approx(math.log(len(sets)))  # all that there is to know


@pytest.mark.parametrize("length", [2, 3, 8, 24])
def test_s3_centred_vectors_of_a_stretch_are_correlated_and_opposite_in_twos(length) -> None:
    group = torch.arange(5).repeat_interleave(length)
    x = torch.randn(5 * length, 3, generator=rng(), dtype=torch.float64)
    found = ops.centred(x, group, 5).view(5, length, 3)
    product_of_all = torch.einsum("g i d, g j d -> g i j", found, found)
    own = product_of_all.diagonal(dim1=1, dim2=2).sum(1) / length
    others = (product_of_all.sum((1, 2)) - length * own) / (length * (length - 1))
    torch.testing.assert_close(others / own, torch.full((5,), -1 / (length - 1)).double())
    if length == 2:
        torch.testing.assert_close(found[:, 0], -found[:, 1])


# --- S5: what centring removes, and what it does not


def test_s5_codes_of_centred_frames_do_not_see_what_a_level_adds() -> None:
    walks = draw_walks("additive", draw_looks(rng()), 12, 10, rng(1))
    other = draw_walks("additive", draw_looks(rng(2)), 12, 10, rng(1))
    assert torch.equal(walks.place, other.place)
    for nonlinear in (False, True):
        net = Net(8, nonlinear, rng(3))
        for centred in (True, False):
            codes = [net(w, Variant(near=True, centred=centred))[0] for w in (walks, other)]
            assert torch.allclose(*codes, atol=1e-4) == centred


def test_s5_affine_predictions_of_centred_features_gain_nothing_from_uniform_partners() -> None:
    for seed in range(200):
        features = torch.randn(24, 3, generator=rng(seed), dtype=torch.float64)
        features = features * torch.arange(4).repeat_interleave(6)[:, None]  # levels differ in size
        found = ops.centred(features, torch.arange(4).repeat_interleave(6), 4)
        weight = torch.randn(3, 5, generator=rng(seed + 1000), dtype=torch.float64)
        bias = torch.randn(5, generator=rng(seed + 2000), dtype=torch.float64)
        code = random_code((4, 6, 5), 3, seed + 3000)
        affine = (found @ weight + bias).log_softmax(1).view(4, 6, 5)
        assert any_pair_loss(code, affine) >= told(code) - 1e-12


def test_s5_the_size_of_a_centred_feature_tells_the_level() -> None:
    # 1[level = j] * position, with positions that are as often on one side as on the other.
    position = torch.tensor([1.0, -1.0, 2.0, -2.0]).double()
    level = torch.eye(3, dtype=torch.float64)
    found = torch.einsum("t, j d -> j t d", position, level)
    torch.testing.assert_close(found.sum(1), torch.zeros(3, 3).double())  # centring changes nothing
    code = level[:, None].expand(3, 4, 3)
    by_size = (40 * found.abs()).log_softmax(2)
    assert float(any_pair_loss(code, by_size)) < 1e-6 < float(told(code))


# --- S6, S7: the action in the code, and balance within the stretch


def test_s6_a_code_that_is_the_partners_action_gives_no_gradient() -> None:
    # Every view meets every action of its partner equally often; the prediction is the mean code.
    action = torch.arange(6).repeat(24)
    features = torch.randn(24, 4, generator=rng()).repeat_interleave(6, 0)
    weight = torch.zeros(4, 6, requires_grad=True)
    code = torch.eye(6)[action]
    loss = -(code * (features @ weight).log_softmax(1)).sum(1).mean()
    loss.backward()
    assert loss.item() == pytest.approx(math.log(6))
    assert weight.grad is not None
    assert float(weight.grad.abs().max()) < 1e-6


def test_s7_balance_within_stretches_tells_nothing_of_them_and_asks_much_of_short_ones() -> None:
    scores = torch.randn(4, 5, 20, generator=rng()) / 0.05
    code = torch.stack([sinkhorn(stretch, 2000) for stretch in scores]).double()
    assert float(told_of_stretch(code)) < 1e-3
    log_p = random_code((4, 5, 20), 2, 1).log()
    assert float(ops.entropy(code).min()) > math.log(20 / 5) - 1e-2
    for near in (True, False):
        assert float(pair_loss(code, log_p, near)) > math.log(20 / 5) - 1e-2


# --- Learnt: each row comes out as proved, and would not if a part of it were broken


@pytest.mark.parametrize("name", ROWS)
def test_codes_become_what_is_proved(name: str) -> None:
    setting, expected = ROWS[name]
    found = learnt(setting, 0)
    assert expected(found), found
    if not setting.variant.near:
        assert found.predicted <= found.stretch + math.log(setting.steps / (setting.steps - 1))


def test_s1_the_bound_is_nearly_attained_and_holds_for_uniform_partners_alone() -> None:
    uniform, near = (
        learnt(ROWS[f"additive: {v}"].setting, 0) for v in ("uniform", "near, centred")
    )
    assert uniform.predicted > 0.9 * uniform.stretch
    assert near.predicted > 3 * near.stretch


Loss = Callable[[Tensor, Tensor, bool], Tensor]


def uncentred(x: Tensor, group: Tensor, groups: int) -> Tensor:
    return x


def centred_over_the_batch(x: Tensor, group: Tensor, groups: int) -> Tensor:
    return x - x.mean(0)


def no_action(net: Net, u: Tensor, action: Tensor) -> Tensor:
    return u


def near_taken_for_uniform(exact: Loss) -> Loss:
    return lambda code, log_prediction, near: exact(code, log_prediction, not near)


def looking_back(exact: Loss) -> Loss:
    return lambda code, log_prediction, near: exact(code.flip(1), log_prediction.flip(1), near)


BROKEN: dict[str, tuple[object, str, object]] = {
    "no centring": (ops, "centred", uncentred),
    "centred over the batch": (ops, "centred", centred_over_the_batch),
    "no action to predict with": (Net, "with_action", no_action),
    "uniform for near": (identity, "pair_loss", near_taken_for_uniform(pair_loss)),
    "the earlier code from the later view": (identity, "pair_loss", looking_back(pair_loss)),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_part_is_seen(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, wrong = BROKEN[broken]
    monkeypatch.setattr(place, attribute, wrong)
    setting, expected = ROWS["additive: near, centred"]
    assert not expected(learn(setting, 0))


def test_no_variant_passes_for_the_one_that_works() -> None:
    _, expected = ROWS["additive: near, centred"]
    for name in ("uniform", "near", "uniform, centred", "near, centred, action in code"):
        assert not expected(learnt(ROWS[f"additive: {name}"].setting, 0)), name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ROWS if "action" not in name])
def test_three_times_as_long_changes_nothing(name: str) -> None:
    setting, expected = ROWS[name]
    assert expected(learn(setting, 0, updates=600))


@pytest.mark.slow
def test_s6_the_action_is_left_in_time_for_it_is_no_optimum() -> None:
    setting, expected = ROWS["interacting: near, centred, action in code"]
    found = learn(setting, 0, updates=600)
    assert found.predicted > 0.3
    assert not expected(found)


# --- The command


def test_the_command_prints_a_row_each_and_the_same_for_a_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(code_variants, "SEEDS", 1)
    monkeypatch.setattr(code_variants, "learn", partial(learn, updates=1))
    rows = {name: row._replace(expected=lambda f: True) for name, row in ROWS.items()}
    monkeypatch.setattr(code_variants, "ROWS", rows)
    said = []
    for _ in range(2):
        assert main(["theory", "situations", "--seed", "3"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert [line[:47].strip() for line in said[0].splitlines()[1:]] == list(ROWS)


def test_the_command_fails_where_a_row_is_not_as_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unlearnt(setting: Setting, seed: int) -> Found:
        return learn(setting, seed, updates=0)

    monkeypatch.setattr(code_variants, "learn", unlearnt)
    rows = {"additive: near, centred": ROWS["additive: near, centred"]}
    monkeypatch.setattr(code_variants, "ROWS", rows)
    assert main(["theory", "situations"]) == 1
    assert "a proved statement was violated: additive: near, centred" in capsys.readouterr().err


def test_every_variant_is_tried_on_both_processes() -> None:
    for process in ("additive", "interacting"):
        tried = [
            row.setting.variant for name, row in ROWS.items() if name.startswith(f"{process}:")
        ]
        assert tried == list(VARIANTS.values())
    assert Variant(near=True, centred=True, action_in_code=False) == NEAR_CENTRED
