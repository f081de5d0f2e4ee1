"""IDAAC: who learns what of the order of two frames, in closed form."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from crosstraj.config.presets import preset, started
from crosstraj.config.stored import from_dict, to_dict
from crosstraj.data.within_episodes import stretches
from crosstraj.envs import GAMES
from crosstraj.errors import BadInput
from crosstraj.objectives.idaac import IDAAC, TUNED, Batch, IDAACConfig
from crosstraj.policies.daac import DAAC
from tests.helpers import rng, slow_fragments
from tests.objectives.every_method import (
    STEPS,
    bits,
    learner_for,
    random_done,
    rollout_for,
    small,
    update,
)

NO_FRAMES = torch.zeros(0)


def pairs(count: int) -> Batch:
    """The first half of the features came before the second half."""
    return Batch(NO_FRAMES, torch.arange(count), torch.arange(count) + count)


def idaac(features: int = 3, **values: object) -> IDAAC:
    return IDAAC(IDAACConfig(**values), features, 5, rng())  # type: ignore[arg-type]


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


def values(seen: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(figure.detach()) for name, figure in seen.items()}


def test_the_losses_are_those_of_the_paper_by_hand():
    made = idaac(2, weight=0.5)
    with torch.no_grad():
        made.classifier.weight.copy_(torch.tensor([[3.0, 6.0, -3.0, 1.5]]))
        made.classifier.bias.fill_(0.1)
    features = torch.tensor([[0.3, 0.1], [0.2, -0.4]])  # one pair: the first row came first
    right = 0.9 + 0.6 - 0.6 - 0.6 + 0.1
    wrong = 0.6 - 2.4 - 0.9 + 0.15 + 0.1
    loss, seen = made.loss_of(features, pairs(1), rng())
    order = -0.5 * (log_sigmoid(right) + log_sigmoid(-wrong))
    each = [-0.5 * (log_sigmoid(x) + log_sigmoid(-x)) for x in (right, wrong)]
    assert values(seen) == pytest.approx(
        {"order": order, "confusion": sum(each) / 2, "order_accuracy": 1.0}, abs=1e-6
    )
    assert float(loss.detach()) == pytest.approx(order + 0.5 * sum(each) / 2, abs=1e-6)
    _, seen = made.loss_of(features.flip(0), pairs(1), rng())  # the same pair, the other way round
    assert values(seen)["order_accuracy"] == 0.0


def learnt(made: IDAAC, features: Tensor) -> list[float]:
    """The classifier's loss in each of 300 steps, on pairs of the first half with the second."""
    step, losses = torch.optim.Adam(made.parameters(), lr=0.05), []
    for _ in range(300):
        step.zero_grad()
        loss, seen = made.loss_of(features, pairs(len(features) // 2), rng())
        losses.append(values(seen)["order"])
        loss.backward()
        step.step()
    return losses


@pytest.mark.parametrize("hidden", [0, 8])
def test_where_frames_are_exchangeable_the_classifier_ends_at_log_2(hidden):
    """Equal features on both sides, or pairs (a, b) and (b, a) of different ones: no classifier can
    do better than a guess, and this one gets there. In one order alone it does better.
    """
    a, b = torch.randn(2, 32, 3, generator=rng(1))
    for features in (torch.cat([a, b, a, b]), torch.cat([a, b, b, a])):
        losses = learnt(idaac(hidden=hidden), features)
        assert min(losses) >= math.log(2) - 1e-6
        assert losses[-1] == pytest.approx(math.log(2), abs=5e-3)
    assert learnt(idaac(hidden=hidden), torch.cat([a, a, b, b]))[-1] < math.log(2) - 0.05


def test_a_classifier_that_guesses_pulls_at_no_feature_and_its_loss_is_log_2():
    made = idaac()
    with torch.no_grad():
        made.classifier.weight.zero_()
    features = torch.randn(8, 3, generator=rng(1)).requires_grad_()
    _, seen = made.loss_of(features, pairs(4), rng())
    told = values(seen)
    assert told["order"] == told["confusion"] == pytest.approx(math.log(2))
    seen["confusion"].backward()
    assert float(features.grad.abs().max()) == 0


def test_each_loss_teaches_its_own_side_alone():
    made, features = idaac(), torch.randn(16, 3, generator=rng(1)).requires_grad_()
    _, seen = made.loss_of(features, pairs(8), rng())
    own = list(made.parameters())
    of_order = torch.autograd.grad(
        seen["order"], [*own, features], allow_unused=True, retain_graph=True
    )
    assert of_order[-1] is None
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in of_order[:-1])
    of_encoder = torch.autograd.grad(seen["confusion"], [*own, features], allow_unused=True)
    assert all(gradient is None for gradient in of_encoder[:-1])
    assert of_encoder[-1].abs().sum() > 0


def test_against_a_classifier_that_knows_the_encoder_learns_to_hide_the_order():
    """Its gradient leads to even odds, not to a classifier that is wrong for sure."""
    made, shown = idaac(4), torch.randn(64, 4, generator=rng(1))
    features = torch.cat([shown, shown + 1]).requires_grad_()  # the later frame has more of all

    def train(what: str, parameters: list[Tensor], rate: float) -> None:
        step = torch.optim.Adam(parameters, lr=rate)
        for _ in range(100):
            step.zero_grad()
            made.loss_of(features, pairs(64), rng())[1][what].backward()
            step.step()

    def now() -> dict[str, float]:
        return values(made.loss_of(features, pairs(64), rng())[1])

    train("order", list(made.parameters()), 0.02)
    before = now()
    assert before["order"] < 0.3
    assert before["order_accuracy"] > 0.9
    train("confusion", [features], 0.05)
    after = now()
    assert after["order"] == pytest.approx(math.log(2), abs=0.05)
    assert math.log(2) - 1e-6 <= after["confusion"] < 0.71 < before["confusion"]


def checked(done: Tensor, frame: Tensor, batch: Batch) -> int:
    """How many pairs there are, all of them earlier and later frames of one fragment."""
    home = {at: number for number, run in enumerate(slow_fragments(done)) for at in run}
    for first, second in zip(
        frame[batch.earlier].tolist(), frame[batch.later].tolist(), strict=True
    ):
        assert home[first] == home[second]
        assert first < second
    return len(batch.earlier)


def test_pairs_of_a_stretch_are_of_one_episode_the_earlier_first():
    learner = learner_for(small("idaac"))
    rollout = rollout_for(learner, done=random_done(0.2))
    met: set[tuple[int, int]] = set()
    for seed in range(40):
        for minibatch in stretches(rollout.done, 2, STEPS, rng(seed)):
            batch = learner.objective.batch(rollout, minibatch, rng(seed))
            size = torch.bincount(minibatch.stretch)
            assert checked(rollout.done, minibatch.frame, batch) == int(size[size > 1].sum())
            near = minibatch.stretch[batch.earlier]
            assert torch.equal(near, minibatch.stretch[batch.later])
            met |= set(zip(batch.earlier.tolist(), batch.later.tolist(), strict=True))
    assert len({later - earlier for earlier, later in met}) > 5  # all distances
    alone = torch.ones_like(rollout.done)
    (first, *_) = stretches(alone, 2, STEPS, rng())
    assert learner.objective.batch(rollout, first, rng()) is None


def test_with_weight_zero_it_equals_daac_to_the_bit():
    config = small("idaac")
    nothing = replace(config.representation, weight=0.0)
    first, plain = learner_for(replace(config, representation=nothing)), learner_for(small("daac"))
    for learner in (first, plain):
        update(learner, rollout_for(learner))
    one, other = bits(first), bits(plain)
    assert all(one[part] == other[part] for part in other if part != "objective")


def test_the_method_is_daac_with_one_step_of_the_summed_loss():
    config, plain = preset("idaac", "default"), preset("daac", "default")
    assert config.policy == plain.policy
    assert (config.encoder_grad, config.order, config.representation.weight) == ("both", "joint", 1)
    assert isinstance(learner_for(small("idaac")).policy, DAAC)


@pytest.mark.parametrize(
    ("game", "weight", "hidden"),
    [("miner", 0.1, 64), ("bigfish", 0.01, 4), ("plunder", 0.1, 0), ("coinrun", 0.001, 0)],
)
def test_a_games_own_values_are_those_of_the_release(game, weight, hidden):
    assert set(TUNED) <= set(GAMES)
    config = started({"method": "idaac", "env": game, "policy.per_game": True})
    assert config.objective == IDAACConfig(weight, hidden)
    assert config.policy == preset("idaac", "default").policy.for_game(game, per_game=True)
    assert from_dict(to_dict(config)) == config
    assert started({"method": "idaac", "env": game}).objective == IDAACConfig()


def test_what_the_table_of_games_does_not_say_is_refused_with_it():
    config = started({"method": "idaac", "env": "miner", "policy.per_game": True})
    said = r"objective.weight=0.1, but policy.per_game=True takes 0.001 for dodgeball; leave "
    with pytest.raises(BadInput, match=said):  # of which DAAC's values are the same
        replace(config, env="dodgeball")
    free = replace(config, policy=replace(config.policy, per_game=False))  # type: ignore[arg-type]  # it is DAAC's
    assert replace(free, env="dodgeball").objective == IDAACConfig(0.1, 64)
