"""PSE: the metric, the contrastive loss, the play of pairs of levels, and what it refuses."""

import itertools
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crosstraj.config.groups import RepresentationConfig
from crosstraj.config.presets import plain, preset
from crosstraj.data.rollout import Rollout
from crosstraj.envs import ProcgenConfig
from crosstraj.errors import BadInput
from crosstraj.experiments.file import read
from crosstraj.learning import watch as health
from crosstraj.learning.experts import make_level
from crosstraj.learning.state import Training
from crosstraj.loop import learn
from crosstraj.objectives.paired_play import Uniform
from crosstraj.objectives.pse import PSE, Batch, Matched, PSEConfig, contrast, policy_similarity
from crosstraj.policies.ppo import PPOConfig
from tests.helpers import rng
from tests.objectives.corridor import play_of

SMALL = PSEConfig(levels=4, pairs=2, steps=8)


# --- The metric


def iterated(cost: Tensor, discount: float) -> Tensor:
    """d <- cost + discount * d at the next step of both, until it stands; the corner ends it."""
    n, m = cost.shape
    d = torch.zeros(n, m, dtype=torch.float64)
    while True:
        new = d.clone()
        for i, j in itertools.product(range(n), range(m)):
            over = (i, j) == (n - 1, m - 1)
            following = 0.0 if over else d[min(i + 1, n - 1), min(j + 1, m - 1)]
            new[i, j] = cost[i, j] + discount * following
        if torch.equal(new, d):
            return d
        d = new


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 1), (4, 4), (3, 7), (6, 2)])
def test_one_backward_pass_equals_the_fixed_point(shape):
    cost = torch.rand(shape, generator=rng())
    torch.testing.assert_close(
        policy_similarity(cost, 0.9), iterated(cost, 0.9), rtol=0, atol=1e-12
    )


def test_the_metric_by_hand():
    cost = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    # Last row from the corner: 1; 1 + 1/2; 0 + 3/4. First row: cost + half of the one below right.
    expected = torch.tensor([[1 + 0.75, 0.5, 0.5], [0.75, 1.5, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(policy_similarity(cost, 0.5), expected)
    assert cost[1, 0] == 0  # what it is given stays as it was


def test_swapping_the_levels_transposes_the_metric():
    cost = torch.rand(5, 3, generator=rng())
    assert torch.equal(policy_similarity(cost.T, 0.9), policy_similarity(cost, 0.9).T)


def pse(**changes: Any) -> PSE:
    return PSE(replace(SMALL, **changes), 256, 5, rng(1))


@pytest.mark.parametrize("distance", ["actions", "variation"])
def test_identical_trajectories_have_a_zero_diagonal(distance):
    policy = torch.rand(6, 5, generator=rng()).softmax(1)
    action = torch.tensor([0, 1, 2, 3, 4, 0])
    method = pse(policies="pretrained", distance=distance)
    d = method.distances(action.repeat(2, 1), policy.repeat(2, 1, 1))
    assert torch.equal(d.diagonal(), torch.zeros(6))
    assert (d[~torch.eye(6, dtype=torch.bool)] > 0).all()
    assert torch.equal(d.argmin(1), torch.arange(6))


def test_the_metric_is_the_discounted_sum_and_scaled_it_is_one_at_most():
    action = torch.tensor([[0, 0, 0], [1, 1, 1]])
    d = pse(discount=0.5).distances(action, torch.zeros(2, 3, 5))
    assert d.diagonal().tolist() == [1.75, 1.5, 1.0]  # 1 + 1/2 + 1/4, 1 + 1/2, 1
    d = pse(discount=0.5, metric="scaled").distances(action, torch.zeros(2, 3, 5))
    assert d.diagonal().tolist() == [0.875, 0.75, 0.5]
    assert (d <= 1).all()


def test_on_a_short_stretch_other_actions_repel_as_in_the_source():
    """Both levels are given actions 0, 1, 2: every pair of different steps differs at once."""
    action = torch.tensor([[0, 1, 2], [0, 1, 2]])
    ahead = 1 + 0.99
    # From (0, 1) or (0, 2) on, (1, 2) differs as well; then both are at their last step and agree.
    expected = torch.tensor([[0.0, ahead, ahead], [ahead, 0.0, 1.0], [ahead, 1.0, 0.0]])
    method = pse()
    d = method.distances(action, torch.zeros(2, 3, 5))
    torch.testing.assert_close(d, expected)
    source = 1 - (4 * math.exp(-ahead / 0.1) + 2 * math.exp(-1 / 0.1)) / 6
    assert source > 0.9999
    assert method.evidence([-d], [d])["negative_weight"].item() == pytest.approx(source)
    scaled = pse(metric="scaled")
    d = scaled.distances(action, torch.zeros(2, 3, 5))
    weak = 1 - (4 * math.exp(-0.01 * ahead / 0.1) + 2 * math.exp(-0.01 / 0.1)) / 6
    assert weak < 0.16
    assert scaled.evidence([-d], [d])["negative_weight"].item() == pytest.approx(weak, rel=1e-4)
    hard = pse(metric="scaled", soft_coupling=False)
    assert hard.evidence([-d], [d])["negative_weight"].item() == 1


def test_the_distance_of_policies_is_total_variation():
    policy = torch.tensor([[[1.0, 0.0, 0.0]], [[0.5, 0.25, 0.25]]])  # [2, 1, 3]
    method = pse(policies="pretrained", discount=0.0)  # where a sum is its first distance
    assert method.distances(torch.zeros(2, 1), policy).tolist() == [[0.5]]
    swapped = method.distances(torch.zeros(2, 1), policy.flip(0))
    assert swapped.tolist() == [[0.5]]


def test_random_policies_are_told_apart_by_what_they_did_and_experts_by_what_they_would_do():
    assert PSEConfig().by_actions
    assert not PSEConfig(policies="pretrained").by_actions
    assert PSEConfig(policies="pretrained", distance="actions").by_actions


# --- The trap: uniform policies do not differ


def test_uniform_policies_and_total_variation_are_refused_in_a_sentence():
    with pytest.raises(BadInput, match="uniform policies never differ, so every distance is 0"):
        PSEConfig(policies="random", distance="variation")


def test_what_is_refused_would_have_taught_nothing():
    method = pse(policies="pretrained")  # as if the experts were uniform
    d = method.distances(torch.randint(5, (2, 8), generator=rng()), torch.full((2, 8, 5), 0.2))
    assert torch.equal(d, torch.zeros(8, 8))
    similarity = torch.randn(8, 8, generator=rng(), requires_grad=True)
    contrast(similarity, d, 0.1, soft=True).sum().backward()
    assert similarity.grad is not None
    assert similarity.grad.abs().max() < 1e-6


def test_experts_that_act_alike_are_named_once():
    config = replace(plain("pse"), objective=PSEConfig(policies="pretrained"))
    watch = health.Watch(config)
    assert not watch.news({"policy_distance": 0.3})
    (sentence,) = watch.news({"policy_distance": 0.0})
    assert "act alike: their mean distance is 0.0000 of 1" in sentence
    assert "train the experts longer" in sentence
    assert not watch.news({"policy_distance": 0.0})


# --- The contrastive loss


def test_the_loss_by_hand():
    similarity = torch.tensor([[0.0, math.log(2)]])
    distance = torch.tensor([[0.1, 0.3]])
    # Nearest is the first: G = e^-1 there, 1 - e^-3 of the second is a negative.
    positive, negative = math.exp(-1), (1 - math.exp(-3)) * 2
    expected = -math.log(positive / (positive + negative))
    assert contrast(similarity, distance, 0.1, soft=True).item() == pytest.approx(expected)
    hard = contrast(similarity, distance, 0.1, soft=False).item()
    assert hard == pytest.approx(math.log(3))  # e^0 against e^0 + 2


def slow_contrast(similarity: Tensor, distance: Tensor, width: float) -> list[float]:
    losses = []
    for s, d in zip(similarity.double(), distance.double(), strict=True):
        p = min(range(len(d)), key=lambda j: float(d[j]))
        coupling = [math.exp(-float(x) / width) for x in d]
        positive = coupling[p] * math.exp(s[p])
        others = sum((1 - coupling[j] + 1e-9) * math.exp(s[j]) for j in range(len(d)) if j != p)
        losses.append(-math.log(positive / (positive + others)))
    return losses


def test_the_loss_equals_a_slow_loop():
    similarity = torch.randn(6, 9, generator=rng())
    distance = torch.rand(6, 9, generator=rng(1))
    fast = contrast(similarity, distance, 0.3, soft=True)
    assert fast.tolist() == pytest.approx(slow_contrast(similarity, distance, 0.3), rel=1e-5)


def test_with_a_sharp_kernel_and_with_none_it_is_info_nce():
    similarity = torch.randn(5, 5, generator=rng())
    distance = 1 - torch.eye(5)[torch.tensor([2, 0, 1, 4, 3])]
    expected = F.cross_entropy(similarity, torch.tensor([2, 0, 1, 4, 3]), reduction="none")
    for width, soft in ((1e-3, True), (1.0, False)):
        torch.testing.assert_close(contrast(similarity, distance, width, soft=soft), expected)


class Linear(nn.Module):
    """A stand-in for the encoder: one linear layer on a few pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 256, generator=rng(9)))

    def forward(self, frames: Tensor) -> Tensor:
        return frames.flatten(1).float() / 255 @ self.weight


def random_batch(*lengths: int) -> Batch:
    g = rng(3)
    frames = torch.randint(256, (2 * sum(lengths), 2, 2, 3), generator=g, dtype=torch.uint8)
    return Batch(frames, [torch.rand(n, n, generator=g) for n in lengths])


def test_the_loss_of_a_batch_is_the_mean_over_rows_and_over_columns_of_its_stretches():
    method, encoder, batch = pse(weight=2.0, temperature=0.5), Linear(), random_batch(3, 5)
    loss, metrics = method.loss(encoder, batch, rng())
    rows, columns, start = [], [], 0
    with torch.no_grad():
        for distance in batch.distances:
            n = len(distance)
            e = method.head(encoder(batch.frames[start : start + 2 * n]))
            similarity = torch.stack(
                [torch.stack([F.cosine_similarity(a, b, dim=0) for b in e[n:]]) for a in e[:n]]
            )
            rows += slow_contrast(similarity / 0.5, distance, 0.1)
            columns += slow_contrast(similarity.T / 0.5, distance.T, 0.1)
            start += 2 * n
    expected = np.mean(rows) + np.mean(columns)
    assert metrics["contrast"].item() == pytest.approx(expected, rel=1e-4)
    nearest = [np.mean(np.concatenate([d.amin(k) for d in batch.distances])) for k in (0, 1)]
    expected_of_features = expected - sum(nearest) / 0.1
    assert metrics["contrast_of_features"].item() == pytest.approx(expected_of_features, rel=1e-4)
    assert loss.item() == pytest.approx(2 * expected, rel=1e-4)
    loss.backward()
    assert encoder.weight.grad is not None
    assert encoder.weight.grad.abs().sum() > 0


def test_the_evidence_by_hand():
    similarity = torch.tensor([[1.0, 0.0], [1.0, 0.0]])  # the second row finds the wrong one
    distance = torch.tensor([[0.0, 0.4], [0.6, 0.2]])
    for metric, times in (("scaled", 1), ("sum", 100)):  # the same parts of the largest distance
        figures = pse(metric=metric).evidence([similarity], [times * distance])
        assert figures["policy_distance"].item() == pytest.approx(0.3)
        assert figures["nearest_distance"].item() == pytest.approx(0.1)
        assert figures["nearest_found"].item() == 0.5


# --- Minibatches


def rollout(seed: int = 0) -> Rollout:
    empty = torch.zeros(0)
    obs = torch.randint(256, (5, 2, 4, 4, 3), generator=rng(seed), dtype=torch.uint8)
    return Rollout(obs, *[empty] * 9)


def numbered(*lengths: int) -> list[Matched]:
    """Stretches whose frames show the number of their stretch."""
    return [
        Matched(torch.full((2 * n, 4, 4, 3), i, dtype=torch.uint8), torch.zeros(n, n))
        for i, n in enumerate(lengths)
    ]


def test_each_stretch_is_in_one_minibatch_with_its_own_distances():
    method = pse()
    method.matched = numbered(2, 3, 4, 5, 6)
    batches = list(method.minibatches(rollout(), 2, rng()))
    seen = []
    for batch in batches:
        shown = [2 * len(distance) for distance in batch.distances]
        for part in batch.frames.split(shown):
            assert len(part) == 2 * (2 + int(part[0, 0, 0, 0]))  # frames and distances belong
            seen.append(int(part[0, 0, 0, 0]))
            assert (part == part[0, 0, 0, 0]).all()
    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert {len(batch.distances) for batch in batches} == {2, 3}


def test_too_few_stretches_serve_again_and_none_give_no_minibatch():
    method = pse()
    method.matched = numbered(2, 2, 2)
    shown = [int(batch.frames[0, 0, 0, 0]) for batch in method.minibatches(rollout(), 8, rng())]
    assert len(shown) == 8
    assert sorted(shown.count(i) for i in range(3)) == [2, 3, 3]
    method.matched = []
    assert list(method.minibatches(rollout(), 8, rng())) == []


def test_the_rollout_of_the_policy_is_not_used():
    method = pse()
    g = torch.randint(256, (8, 4, 4, 3), generator=rng(), dtype=torch.uint8)
    method.matched = [Matched(g, torch.rand(4, 4, generator=rng()))]
    first, second = (next(method.minibatches(rollout(s), 1, rng(7))) for s in (0, 1))
    assert torch.equal(first.frames, second.frames)
    assert torch.equal(first.distances[0], second.distances[0])


def test_a_whole_stretch_is_moved_alike_and_not_always_alike():
    g = torch.randint(256, (1, 12, 12, 3), generator=rng(), dtype=torch.uint8)
    method, draws, seen = pse(shift=2), rng(1), set()
    padded = np.pad(g[0].numpy(), ((2, 2), (2, 2), (0, 0)), mode="edge")
    allowed = {
        padded[y : y + 12, x : x + 12].tobytes() for y, x in itertools.product(range(5), repeat=2)
    }
    for _ in range(200):
        frames = method.moved(g.repeat(6, 1, 1, 1), draws)
        assert (frames == frames[:1]).all()
        seen.add(frames[0].numpy().tobytes())
    assert seen == allowed
    assert torch.equal(pse(shift=0).moved(g, draws), g)


def test_the_same_actions_for_both_levels_make_the_diagonal_zero():
    play = play_of(policies=Uniform(4), same_actions=True, steps=6)
    method = pse()
    stretches = play.play(rng())
    assert stretches
    for stretch in stretches:
        assert torch.equal(stretch.action[0], stretch.action[1])
        assert (method.distances(stretch.action, stretch.policy).diagonal() == 0).all()
    apart = play_of(policies=Uniform(4), steps=6).play(rng())
    assert any(not torch.equal(s.action[0], s.action[1]) for s in apart)


def test_a_procgen_level_begins_alike_each_time_and_levels_differ():
    config = replace(plain("pse"), env="starpilot")
    game, other = make_level(config, 3), make_level(config, 4)
    first, info = game.reset()
    assert info["level_seed"].tolist() == [3]
    started = first.copy()
    for _ in range(5):
        game.step(np.array([4]))
    assert not np.array_equal(game.step(np.array([4]))[0], started)
    assert np.array_equal(game.reset()[0], started)
    assert not np.array_equal(other.reset()[0], started)


# --- In a run


def test_extra_frames_are_counted_apart_and_played_once_per_update():
    config = replace(
        plain("pse"),
        env="starpilot",
        envs=8,
        rollout_steps=8,
        encoder="laptop",
        objective=SMALL,
        policy=PPOConfig(epochs=2, minibatches=2),
        representation=RepresentationConfig(minibatches=2),
    )
    for given in (
        config,
        replace(config, order="objective"),
        replace(config, order="policy", representation=replace(config.representation, epochs=3)),
    ):
        training = Training(given)
        for update in (1, 2):
            metrics = learn(training)
            assert metrics["extra_frames"] == update * 2 * 2 * 8
            assert training.frames == update * 64
        assert training.state_dict()["source"]["frames"] == 64


def test_the_defaults_are_the_papers_budget():
    config = plain("pse")
    objective = config.objective
    assert isinstance(objective, PSEConfig)
    for name in ("default", "paper", "procgen"):
        config = preset("pse", name)
        assert isinstance(config.objective, PSEConfig)
        extra = 2 * config.objective.pairs * config.objective.steps
        assert extra / config.rollout_frames == 1 / 8  # 1M beside 8M
    assert objective.levels == 40
    assert (config.encoder_grad, config.order) == ("both", "joint")


GRID = Path(__file__).parents[2] / "experiments" / "paper" / "pse_grid.toml"


def grid_file() -> dict[str, Any]:
    return tomllib.loads(GRID.read_text())


def test_the_grid_is_the_papers():
    variants = [values["objective"] for values in grid_file()["variants"].values()]
    grid = sorted((v["policies"], v["weight"], v["temperature"]) for v in variants)
    kinds = ("pretrained", "random")
    assert grid == list(itertools.product(kinds, (0.1, 1.0, 2.0), (0.1, 0.3, 0.7)))


def test_the_grid_is_judged_by_validation_levels_and_plays_no_unseen_ones():
    assert grid_file()["levels"] == "validation"
    plan = read(GRID)
    assert plan.levels == "validation"
    for run in plan.runs():
        assert run.values["evaluation.held_out"] == "validation"


# --- What is refused


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"levels": 7}, "objective.levels=7 cannot fill objective.pairs=4"),
        ({"pairs": 0}, "objective.pairs=0: must be at least 1"),
        ({"steps": 1}, "objective.steps=1: must be at least 2"),
        ({"weight": -1.0}, "objective.weight=-1.0: must be at least 0"),
        ({"temperature": 0.0}, "objective.temperature=0.0: must be above 0"),
        ({"kernel_width": 0.0}, "objective.kernel_width=0.0: must be above 0"),
        ({"discount": 1.0}, "objective.discount=1.0: must be at least 0 and below 1"),
    ],
)
def test_values_that_make_no_sense_are_refused(changes, sentence):
    with pytest.raises(BadInput, match=sentence):
        PSEConfig(**changes)


def test_only_training_levels_of_a_game_are_played():
    config = plain("pse")
    for env in ("ALE/Pong-v5", "ising"):
        with pytest.raises(BadInput, match=f"plays chosen levels: {env} has none"):
            replace(config, env=env)
    with pytest.raises(BadInput, match=r"objective\.levels=40 are more than"):
        replace(config, procgen=ProcgenConfig(train_levels=10))
    with pytest.raises(BadInput, match="use_generated_assets=True"):
        replace(config, procgen=ProcgenConfig(use_generated_assets=True))
