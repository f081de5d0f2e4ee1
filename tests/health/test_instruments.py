"""What codes are about: closed forms, and slow loops over labels."""

import math

import pytest
import torch
from torch import Tensor

from crosstraj.health.instruments import (
    SMOOTHINGS,
    Play,
    groups_per_cluster,
    known_alone,
    known_by_code,
    moments,
    repeated,
    share_about,
    told,
    variance_between,
    worth_of_view,
)
from crosstraj.nn import ops
from tests.helpers import rng


def one_hot(labels: Tensor, count: int) -> Tensor:
    return torch.eye(count)[labels]


def test_the_variance_between_groups_by_hand():
    """Groups {0, 2} and {4, 6}: within 2 + 2 over 4 - 2, in all 20 over 3."""
    features = torch.tensor([[0.0], [2.0], [4.0], [6.0]])
    group = torch.tensor([7, 7, -3, -3])
    assert variance_between(features, group).item() == pytest.approx(1 - 2 / (20 / 3))


def test_features_that_are_constant_in_groups_vary_between_them_alone_and_random_ones_do_not():
    group = torch.arange(300) % 30
    levels = torch.randn(30, 8, generator=rng())
    assert variance_between(levels[group], group).item() == pytest.approx(1.0)
    random = torch.randn(300, 64, generator=rng(1))
    # Uncorrected this would be about 29 / 299 = .097.
    assert abs(variance_between(random, group).item()) < 0.02


def test_codes_that_are_the_group_tell_all_of_it():
    group = torch.arange(400) % 8
    code = one_hot(group, 8)
    assert told(code, group).item() == pytest.approx(math.log(8), rel=1e-5)
    assert share_about(code, group, rng()).item() == pytest.approx(1.0, rel=1e-5)


def test_codes_told_by_half_by_the_group():
    """A code of 2 x 2: its first half is the group, its second a coin: ln 2 of ln 4."""
    group, coin = torch.arange(8000) % 2, torch.randint(2, (8000,), generator=rng())
    code = one_hot(2 * group + coin, 4)
    assert told(code, group).item() == pytest.approx(math.log(2), abs=2e-3)
    assert share_about(code, group, rng()).item() == pytest.approx(0.5, abs=3e-3)


def test_codes_that_have_nothing_to_do_with_many_small_groups_say_nothing_about_them():
    group = torch.arange(1000) % 100  # ten views each: uncorrected, they seem to tell much
    code = one_hot(torch.randint(16, (1000,), generator=rng()), 16)
    assert told(code, group).item() > 0.5
    assert abs(share_about(code, group, rng(1)).item()) < 0.03


def test_a_cluster_of_one_group_and_one_that_spans_all():
    group = torch.arange(4000) % 8
    alone = groups_per_cluster(one_hot(group, 8), group, rng()).item()
    assert alone == pytest.approx(1 / 8, rel=0.02)  # permuted: nearly all eight
    anywhere = one_hot(torch.randint(8, (4000,), generator=rng()), 8)
    assert groups_per_cluster(anywhere, group, rng(1)).item() == pytest.approx(1.0, abs=0.01)


def slow_known_alone(keys: list[list[int]], code: Tensor, generator: torch.Generator) -> float:
    """The least over labellings and smoothings, step by step."""
    order, clusters = torch.randperm(len(code), generator=generator).tolist(), code.shape[1]
    middle = (len(order) + 1) // 2
    halves, found = (order[:middle], order[middle:]), []
    for key in keys:
        for smoothing in SMOOTHINGS:
            loss = 0.0
            for fitted, tested in (halves, halves[::-1]):
                anything = torch.full((clusters,), 1 / clusters)  # one imagined step
                mean = sum((code[i] for i in fitted), anything) / (len(fitted) + 1)
                for i in tested:
                    same = [j for j in fitted if key[j] == key[i]]
                    row = sum((code[j] for j in same), smoothing * mean) / (len(same) + smoothing)
                    loss -= float((code[i] * row.log()).sum())
            found.append(loss / len(order))
    return min(found)


@pytest.mark.parametrize("told_by", [0, 1])
def test_the_best_table_of_labels_equals_the_slow_loop(told_by):
    keys = torch.randint(-2, 3, (61, 2), generator=rng(1))
    noise = torch.rand(61, 5, generator=rng(2)).softmax(1)
    code = 0.5 * one_hot(keys[:, told_by] + 2, 5) + 0.5 * noise
    slow = slow_known_alone(keys.T.tolist(), code, rng(3))
    assert known_alone(keys, code, rng(3)).item() == pytest.approx(slow, rel=1e-5)
    alone = known_alone(keys[:, told_by], code, rng(3)).item()
    assert alone == pytest.approx(slow, rel=1e-5)  # the other label is of no use
    assert known_alone(keys[:, 1 - told_by], code, rng(3)).item() > alone + 0.05


def test_a_label_that_is_the_code_predicts_it_and_one_that_is_not_does_not():
    cluster = torch.randint(8, (16000,), generator=rng(1))
    code = one_hot(cluster, 8)
    n = 1000 + SMOOTHINGS[0]  # a row: a thousand of its own, and 2 imagined of which 1/8 agree
    closed = -math.log((1000 + SMOOTHINGS[0] / 8) / n)
    assert known_alone(cluster, code, rng()).item() == pytest.approx(closed, rel=0.1)
    other = torch.randint(8, (16000,), generator=rng(2))
    assert known_alone(other, code, rng()).item() == pytest.approx(math.log(8), abs=0.01)


def test_a_cluster_that_nobody_uses_or_one_step_alone_leaves_every_loss_finite():
    """A hard code has zeros, and 0 log 0 is 0; the lone step costs ln(2000 * 4) or so, no more."""
    cluster = torch.arange(4000) % 3
    cluster[7] = 3  # in one half of the steps only
    for count in (4, 5):  # the fifth cluster: in none
        code, gap = one_hot(cluster, count), torch.ones(4000, dtype=torch.int64)
        for found in (
            known_alone(torch.zeros(4000, dtype=torch.int64), code, rng()),
            repeated(code.roll(1, 0), gap, code, rng()),
        ):
            assert found.item() == pytest.approx(math.log(3), abs=0.01)


# --- Where in the stretch, when in the game

STEPS, CLUSTERS, LONGEST = 4096, 64, 4


def pairs() -> tuple[Tensor, Tensor, Tensor]:
    """Place in a stretch of 32, time in an episode, and the gap to the later frame."""
    place = torch.randint(28, (STEPS,), generator=rng(11))
    time = (torch.rand(STEPS, generator=rng(12)) * 255).long()
    return place, time, 2 ** torch.randint(3, (STEPS,), generator=rng(15))


def told_by_label(label: Tensor, parts: int, sure: float) -> tuple[Tensor, float]:
    """Codes in the label's part of all clusters with probability `sure`, else any; H(C | label)."""
    own, anywhere = torch.randint(CLUSTERS, (2, STEPS), generator=rng(13))
    size = CLUSTERS // parts
    chosen = torch.rand(STEPS, generator=rng(14)) < sure
    cluster = torch.where(chosen, label * size + own % size, anywhere)
    inside, outside = sure / size + (1 - sure) / CLUSTERS, (1 - sure) / CLUSTERS
    entropy = -size * inside * math.log(inside)
    entropy -= (CLUSTERS - size) * outside * math.log(outside) if outside else 0.0
    return one_hot(cluster, CLUSTERS), entropy


@pytest.mark.parametrize("sure", [1.0, 0.9])
@pytest.mark.parametrize("of", ["half", "quarter", "log time"])
def test_codes_of_the_place_or_of_the_time_are_found(of, sure):
    place, time, gap = pairs()
    log_time = (time + 1).float().log2().long()  # 0 to 7
    label, parts = {
        "half": (place // 16, 2),
        "quarter": (place // 8, 4),
        "log time": (log_time, 8),
    }[of]
    code, truth = told_by_label(label, parts, sure)
    found = known_alone(moments(place, time, gap, LONGEST), code, rng()).item()
    assert found == pytest.approx(truth, abs=0.15)
    assert found > truth - 0.03  # of the sample: an upper bound, else
    joint = known_alone(place * 32 + log_time, code, rng()).item()
    assert joint > truth + 0.3  # why the finest label alone would not do


def test_codes_that_have_nothing_to_do_with_the_time_stay_at_knowing_nothing():
    nothing = torch.zeros(STEPS, dtype=torch.int64)
    for seed in range(5):
        cluster = torch.randint(CLUSTERS, (STEPS,), generator=rng(20 + seed))
        code = one_hot(cluster, CLUSTERS)
        blind = known_alone(nothing, code, rng(seed)).item()
        found = known_alone(moments(*pairs(), LONGEST), code, rng(seed)).item()
        assert found == pytest.approx(blind, abs=0.02)


def test_a_pair_has_the_same_labels_whatever_else_is_in_its_minibatch():
    place, time, gap = pairs()
    near = gap == 1  # a minibatch without the longest gap
    alone = moments(place[near], time[near], gap[near], LONGEST)
    assert alone.equal(moments(place, time, gap, LONGEST)[near])


# --- The code before


def staying(rates: dict[int, float]) -> tuple[Tensor, Tensor, Tensor]:
    """Codes before, gaps, and codes: the same with the rate of the gap, else any."""
    first, anew = torch.randint(CLUSTERS, (2, STEPS), generator=rng(1))
    gap = torch.tensor(list(rates))[torch.randint(len(rates), (STEPS,), generator=rng(2))]
    rate = sum((gap == steps) * stay for steps, stay in rates.items())
    second = torch.where(torch.rand(STEPS, generator=rng(3)) < rate, first, anew)
    return one_hot(first, CLUSTERS), gap, one_hot(second, CLUSTERS)


def entropy_of_staying(stay: float) -> float:
    """H(C | C before) where it is the same with this rate, else any of 64."""
    same, other = stay + (1 - stay) / CLUSTERS, (1 - stay) / CLUSTERS
    return -same * math.log(same) - (CLUSTERS - 1) * other * math.log(other)


@pytest.mark.parametrize(("stay", "soft"), [(0.3, False), (0.6, False), (0.3, True), (0.6, True)])
def test_who_repeats_the_code_before_is_not_taken_for_worse_than_it_is(stay, soft):
    """The table by label has 32 steps for each of its rows, and is pulled towards the mean."""
    hard, gap, code = staying({1: stay})
    guess, before = stay * hard + (1 - stay) / CLUSTERS, hard
    if soft:
        before, code = (0.9 * rows + 0.1 / CLUSTERS for rows in (hard, code))
    truth = -(code * guess.log()).sum(1).mean().item()
    assert repeated(before, gap, code, rng()).item() == pytest.approx(truth, abs=0.03)
    assert known_alone(hard.argmax(1), code, rng()).item() > truth + 0.1  # why it is not enough


def test_who_repeats_the_code_before_knows_how_long_ago_it_was():
    """By hand: the entropies of rates .7, .45 and .2 have the mean 2.848; of .45, 2.933."""
    rates = {1: 0.7, 2: 0.45, 4: 0.2}
    before, gap, code = staying(rates)
    by_gap = sum(entropy_of_staying(stay) for stay in rates.values()) / 3
    pooled = entropy_of_staying(sum(rates.values()) / 3)
    assert (by_gap, pooled) == (pytest.approx(2.848, abs=1e-3), pytest.approx(2.933, abs=1e-3))
    # The sample has its own share of each gap and of steps that stay: the same guesses, on it.
    rate = sum((gap == steps) * stay for steps, stay in rates.items())[:, None]
    guess = rate * before + (1 - rate) / CLUSTERS
    truth = -(code * guess.log()).sum(1).mean().item()
    found = repeated(before, gap, code, rng()).item()
    assert found == pytest.approx(truth, abs=0.02)
    assert repeated(before, torch.zeros_like(gap), code, rng()).item() > found + 0.05
    assert known_by_code(before, gap, code, rng()).item() == pytest.approx(truth, abs=0.02)


def test_codes_that_move_on_round_a_ring_are_known_by_a_table_where_none_repeats():
    """To one of the next three: ln 3, of which repeating finds nothing."""
    first = torch.randint(CLUSTERS, (STEPS,), generator=rng(1))
    ahead = torch.randint(1, 4, (STEPS,), generator=rng(2))
    code, gap = one_hot((first + ahead) % CLUSTERS, CLUSTERS), torch.ones_like(first)
    before = one_hot(first, CLUSTERS)
    assert repeated(before, gap, code, rng()).item() == pytest.approx(math.log(64), abs=0.03)
    assert known_by_code(before, gap, code, rng()).item() == pytest.approx(math.log(3), abs=0.12)


def test_who_repeats_codes_that_have_nothing_to_do_with_each_other_knows_nothing():
    first, second = torch.randint(8, (2, 4000), generator=rng(1))
    before, code = one_hot(first, 8), one_hot(second, 8)
    gap = torch.randint(3, (4000,), generator=rng(2))
    for found in (repeated(before, gap, code, rng()), known_by_code(before, gap, code, rng())):
        assert found.item() == pytest.approx(math.log(8), abs=0.01)


def test_a_view_is_worth_all_of_the_loss_of_strangers_where_it_tells_the_code_and_else_nothing():
    """By hand: sure by .9 of 4 clusters, a view that tells is worth 3/4 of ln(.9 / (.1 / 3))."""
    cluster, other = torch.randint(4, (2, 8000), generator=rng(1))
    code = one_hot(cluster, 4)
    telling, blind = (0.9 * one_hot(c, 4) + 0.1 / 3 * (1 - one_hot(c, 4)) for c in (cluster, other))
    expected = 0.75 * math.log(0.9 / (0.1 / 3))
    assert worth_of_view(code, telling.log()).item() == pytest.approx(expected, rel=0.02)
    assert worth_of_view(code, blind.log()).item() == pytest.approx(0, abs=0.06)


def test_play_gives_its_figures_once():
    play = Play(most=100)
    cluster, gap = torch.arange(60) % 4, torch.arange(60) % 2
    time = torch.stack([gap, cluster // 2], 1)
    before = 0.7 * one_hot(cluster, 4) + 0.3 / 4
    for number in range(2):
        assert not play.full
        play.add(
            code=one_hot(cluster, 4),
            level=torch.arange(60) % 3,
            loss=torch.full((60,), float(number)),
            before=before,
            gap=gap,
            time=time,
        )
    assert play.full
    figures = play.figures()
    assert set(figures) == {
        *("codes_about_level", "levels_per_cluster"),
        *("knowing_all", "knowing_before", "knowing_time"),
    }
    assert figures["knowing_all"] == 0.5
    generator = advanced(120, 2)
    code, before, gap, time = (torch.cat([x, x]) for x in (one_hot(cluster, 4), before, gap, time))
    assert figures["knowing_before"] == known_by_code(before, gap, code, generator)
    assert figures["knowing_time"] == known_alone(time, code, generator)
    assert play.figures() == {}


def advanced(count: int, permutations: int) -> torch.Generator:
    """The stream of `Play.figures` after its two figures of levels."""
    generator = rng()
    for _ in range(permutations):
        torch.randperm(count, generator=generator)
    return generator


def test_entropy_bounds_what_is_told():
    code = torch.rand(200, 6, generator=rng()).softmax(1)
    group = torch.arange(200) % 5
    everything = ops.entropy(code.mean(0)) - ops.entropy(code).mean()
    assert 0 <= told(code, group) <= everything
