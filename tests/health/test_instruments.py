"""What codes are about: closed forms, and slow loops over labels."""

import math

import pytest
import torch
from torch import Tensor

from crosstraj.health.instruments import (
    SMOOTHING,
    Play,
    groups_per_cluster,
    known_alone,
    repeated,
    share_about,
    told,
    variance_between,
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


def slow_known_alone(key: list[int], code: Tensor, generator: torch.Generator) -> float:
    order = torch.randperm(len(code), generator=generator).tolist()
    middle = (len(order) + 1) // 2
    halves, losses = (order[:middle], order[middle:]), []
    for fitted, tested in (halves, halves[::-1]):
        mean = sum(code[i] for i in fitted) / len(fitted)
        loss = 0.0
        for i in tested:
            same = [j for j in fitted if key[j] == key[i]]
            row = sum((code[j] for j in same), torch.zeros(code.shape[1])) + SMOOTHING * mean
            loss -= float((code[i] * (row / (len(same) + SMOOTHING)).log()).sum())
        losses.append(loss / len(tested))
    return sum(losses) / 2


def test_the_table_of_a_label_equals_the_slow_loop():
    key = torch.randint(-2, 3, (61,), generator=rng(1))
    code = torch.rand(61, 4, generator=rng(2)).softmax(1)
    slow = slow_known_alone(key.tolist(), code, rng(3))
    assert known_alone(key, code, rng(3)).item() == pytest.approx(slow, rel=1e-5)


def test_a_label_that_is_the_code_predicts_it_and_one_that_is_not_does_not():
    cluster = torch.randint(8, (16000,), generator=rng(1))
    code = one_hot(cluster, 8)
    n = 1000 + SMOOTHING  # a row: a thousand of its own, and 20 imagined of which 1/8 agree
    closed = -math.log((1000 + SMOOTHING / 8) / n)
    assert known_alone(cluster, code, rng()).item() == pytest.approx(closed, rel=0.1)
    other = torch.randint(8, (16000,), generator=rng(2))
    assert known_alone(other, code, rng()).item() == pytest.approx(math.log(8), abs=0.01)


@pytest.mark.parametrize(("stay", "soft"), [(0.3, False), (0.6, False), (0.3, True), (0.6, True)])
def test_who_repeats_the_code_before_is_not_taken_for_worse_than_it_is(stay, soft):
    """64 clusters, 4,096 steps: the code is the one before with probability `stay`, else any.

    The table by label has 32 steps for each of its rows, and is pulled towards the mean.
    """
    g = rng(1)
    first, anew = torch.randint(64, (2, 4096), generator=g)
    second = torch.where(torch.rand(4096, generator=g) < stay, first, anew)
    before, code = one_hot(first, 64), one_hot(second, 64)
    if soft:
        before, code = (0.9 * rows + 0.1 / 64 for rows in (before, code))
    guess = stay * one_hot(first, 64) + (1 - stay) / 64
    truth = -(code * guess.log()).sum(1).mean().item()
    assert repeated(before, code, rng()).item() == pytest.approx(truth, abs=0.03)
    assert known_alone(first, code, rng()).item() > truth + 0.1  # why it is not enough


def test_who_repeats_codes_that_have_nothing_to_do_with_each_other_knows_nothing():
    first, second = torch.randint(8, (2, 4000), generator=rng(1))
    found = repeated(one_hot(first, 8), one_hot(second, 8), rng()).item()
    assert found == pytest.approx(math.log(8), abs=0.01)


def test_play_gives_its_figures_once_and_the_better_guess_by_another_code():
    play = Play(most=100)
    cluster = torch.arange(60) % 4
    before = 0.7 * one_hot(cluster, 4) + 0.3 / 4
    for number in range(2):
        assert not play.full
        play.add(
            code=one_hot(cluster, 4),
            level=torch.arange(60) % 3,
            loss=torch.full((60,), float(number)),
            before=before,
        )
    assert play.full
    figures = play.figures()
    assert set(figures) == {
        *("codes_about_level", "levels_per_cluster", "knowing_all", "knowing_before"),
    }
    assert figures["knowing_all"] == 0.5
    generator, codes, befores = advanced(120, 2), one_hot(cluster, 4), before
    codes, befores = torch.cat([codes, codes]), torch.cat([befores, befores])
    table = known_alone(befores.argmax(1), codes, generator)
    mixture = repeated(befores, codes, generator)
    assert figures["knowing_before"] == torch.minimum(table, mixture)
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
