"""Prioritised level replay: its probabilities, scores, ages, decisions and figures, by hand."""

import math
from typing import Any

import pytest
import torch

from crosstraj.data.level_replay import LevelReplay, ReplayConfig, replay_probabilities
from crosstraj.envs import Levels
from crosstraj.errors import BadInput
from crosstraj.runs.codec import decode, encode, pack, unpack
from tests.helpers import rng

FIVE = Levels(40, 5)


def replay(levels: Levels = FIVE, seed: int = 0, **values: Any) -> LevelReplay:
    return LevelReplay(levels, ReplayConfig(levels=True, **values), rng(seed))


def learnt(chooser: LevelReplay, *steps: tuple[int, float]) -> dict[str, float]:
    """Scores from steps of (level, advantage)."""
    levels, advantages = zip(*steps, strict=True)
    return chooser.learn(torch.tensor(levels), torch.tensor(advantages))


# ---- probabilities ----

SCORE = torch.tensor([0.2, 0.8, 0.0, 0.5, 0.5], dtype=torch.float64)
SEEN = torch.tensor([True, True, False, True, True])
AGE = torch.tensor([3, 1, 9, 0, 6])
# With temperature 1/2 the weights are 1 / rank^2: 1, 1/4, 1/9 and 1/16 for levels 1, 3, 4 and 0;
# over 144 they are 144, 36, 16 and 9, which sum to 205. The ages of seen levels sum to 10.
BY_SCORE = [9 / 205, 144 / 205, 0, 36 / 205, 16 / 205]
BY_AGE = [0.3, 0.1, 0, 0, 0.6]


@pytest.mark.parametrize("staleness", [0.0, 0.1, 0.7, 1.0])
def test_probabilities_are_those_of_the_table(staleness: float) -> None:
    found = replay_probabilities(SCORE, SEEN, AGE, temperature=0.5, staleness=staleness)
    table = [
        (1 - staleness) * score + staleness * age
        for score, age in zip(BY_SCORE, BY_AGE, strict=True)
    ]
    assert found.tolist() == pytest.approx(table, abs=1e-12)


def test_the_temperature_of_the_paper_leaves_little_but_the_highest_score() -> None:
    found = replay_probabilities(SCORE, SEEN, AGE, temperature=0.1, staleness=0.0)
    total = 1 + 2**-10 + 3**-10 + 4**-10
    assert found[1].item() == pytest.approx(1 / total)
    assert found[0].item() == pytest.approx(4**-10 / total)


def test_a_low_score_that_is_seen_ranks_before_levels_without_one() -> None:
    score = torch.tensor([0.0, 0.0, 0.0], dtype=torch.float64)
    seen = torch.tensor([False, False, True])
    age = torch.tensor([4, 5, 0])
    found = replay_probabilities(score, seen, age, temperature=1.0, staleness=0.5)
    assert found.tolist() == [0, 0, 1]  # no age at all: those that are seen count alike


def test_ages_count_the_choices_since_a_level_was_chosen() -> None:
    chooser = replay(staleness=1.0)
    learnt(chooser, *((level, 1.0) for level in range(40, 45)))
    last = dict.fromkeys(range(40, 45), 0)
    for number in range(1, 60):
        ages = [number - 1 - last[level] for level in range(40, 45)]
        expected = [age / sum(ages) if any(ages) else 1 / 5 for age in ages]
        assert chooser.probabilities().tolist() == pytest.approx(expected)
        level = chooser.choose()
        assert expected[level - 40] > 0  # with staleness 1 never the same twice
        last[level] = number


# ---- scores ----


def test_a_score_is_the_mean_size_of_the_advantages_in_a_level() -> None:
    chooser = replay()
    learnt(chooser, (41, -1.0), (44, 0.5), (41, 2.0), (41, 0.0))
    assert chooser.score.tolist() == [0, 1, 0, 0, 0.5]
    assert chooser.seen.tolist() == [False, True, False, False, True]
    learnt(chooser, (41, 3.0), (40, -2.0))  # the newest alone; 44 keeps its score
    assert chooser.score.tolist() == [2, 3, 0, 0, 0.5]
    assert chooser.seen.tolist() == [True, True, False, False, True]


def test_a_score_can_move_slowly_from_its_first_value() -> None:
    chooser = replay(score_rate=0.25)
    learnt(chooser, (41, -4.0))
    assert chooser.score[1] == 4
    learnt(chooser, (41, 8.0), (42, 1.0))
    assert chooser.score.tolist() == [0, 5, 1, 0, 0]


# ---- choices ----


def test_new_levels_come_first_and_the_share_of_seen_ones_decides() -> None:
    chooser = replay()
    assert {chooser.choose() for _ in range(200)} == set(range(40, 45))
    assert chooser.replayed == 0
    learnt(chooser, (41, 1.0), (43, 3.0))
    drawn = [chooser.choose() for _ in range(3000)]
    again = sum(level in (41, 43) for level in drawn)
    assert again == chooser.replayed  # what is not played again is new
    assert again / 3000 == pytest.approx(2 / 5, abs=0.03)  # three standard errors
    new = [drawn.count(level) / (3000 - again) for level in (40, 42, 44)]
    assert new == pytest.approx([1 / 3] * 3, abs=0.04)
    learnt(chooser, (40, 0.1), (42, 0.1), (44, 0.1))
    drawn = [chooser.choose() for _ in range(1000)]
    assert chooser.replayed == 1000
    assert drawn.count(43) / 1000 == pytest.approx(0.9, abs=0.03)  # and a tenth by age
    assert set(drawn) == set(range(40, 45))


@pytest.mark.parametrize(("least", "chances"), [(0.6, [0, 0, 3 / 5]), (0.4, [0, 2 / 5, 3 / 5])])
def test_no_level_is_played_again_before_enough_have_a_score(
    least: float, chances: list[float]
) -> None:
    """With one, two and three of five scored; as in the released code, at the bound it begins."""
    chooser = replay(least_seen=least)
    for level, chance in zip((41, 43, 40), chances, strict=True):
        learnt(chooser, (level, 1.0))
        before = chooser.choices
        drawn = [chooser.choose() for _ in range(2000)]
        again = sum(bool(chooser.seen[level - 40]) for level in drawn)
        assert (chooser.choices - before, chooser.replayed) == (2000, again)
        assert again / 2000 == pytest.approx(chance, abs=0.035 if chance else 0)
    whole = replay(least_seen=1.0)  # the released code: when all have one, there is nothing else
    learnt(whole, *((level, 1.0) for level in range(40, 44)))
    assert {whole.choose() for _ in range(50)} == {44}
    learnt(whole, (44, 1.0))
    assert {whole.choose() for _ in range(500)} == set(range(40, 45))
    assert whole.replayed == 500


def test_the_same_seed_chooses_the_same_and_another_does_not() -> None:
    many = Levels(0, 50)
    drawn = [[chooser.choose() for _ in range(20)] for chooser in map(replay, [many] * 2)]
    assert drawn[0] == drawn[1]
    assert [replay(many, 1).choose() for _ in range(20)] != drawn[0]


def test_a_saved_state_goes_on_with_the_same_choices() -> None:
    chooser = replay()
    learnt(chooser, (41, 1.0), (43, 3.0))
    before = [chooser.choose() for _ in range(7)]
    tensors: dict[str, torch.Tensor] = {}
    form = encode(chooser.state_dict(), "", tensors)
    saved = decode(form, "", unpack(pack(tensors)))
    after = [chooser.choose() for _ in range(50)], learnt(chooser, (40, 2.0))
    other = replay(seed=5)
    other.load_state_dict(saved)
    assert ([other.choose() for _ in range(50)], learnt(other, (40, 2.0))) == after
    assert (other.choices, other.chosen_at.tolist()) == (57, chooser.chosen_at.tolist())
    assert len(set(before)) > 1
    other.load_state_dict(saved)  # what was loaded is not changed by going on
    assert [other.choose() for _ in range(50)] == after[0]


# ---- figures ----


def test_figures_are_of_one_rollout() -> None:
    chooser = replay()
    assert "replayed" not in learnt(chooser, (41, 1.0))  # nothing was chosen
    for _ in range(10):
        chooser.choose()
    expected = chooser.replayed / 10
    found = learnt(chooser, (41, 1.0), (41, 1.0), (44, 1.0), (44, 1.0))
    assert found == {"replayed": expected, "effective_levels": pytest.approx(2)}
    assert "replayed" not in learnt(chooser, (41, 1.0))
    uneven = learnt(chooser, (41, 1.0), (41, 1.0), (44, 1.0), (41, 1.0))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert uneven == {"effective_levels": pytest.approx(math.exp(entropy))}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"temperature": 0.0}, r"replay\.temperature=0\.0: must be above 0"),
        ({"staleness": 1.5}, r"replay\.staleness=1\.5: must be at least 0 and at most 1"),
        ({"least_seen": 1.1}, r"replay\.least_seen=1\.1: must be at least 0 and at most 1"),
        ({"levels": False, "least_seen": 1.0}, r"least_seen=1\.0 is for .*; add replay\.levels"),
        ({"score_rate": 0.0}, r"replay\.score_rate=0\.0: must be above 0 and at most 1"),
        ({"levels": False, "staleness": 0.2}, r"staleness=0\.2 is for .*; add replay\.levels=True"),
    ],
)
def test_values_beyond_their_range_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ReplayConfig(**({"levels": True} | values))
