"""DrAC: both terms in closed form, who learns from them, and which augmentation is chosen."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from crosstraj.config.presets import plain
from crosstraj.errors import BadInput
from crosstraj.learning.optimiser import Averages
from crosstraj.objectives.drac import AUGMENTATIONS, Batch, DrAC, DrACConfig, mean_return
from crosstraj.policies.daac import DAACConfig
from tests.helpers import rng
from tests.objectives.every_method import learner_for, rollout_for, small, update

ACTIONS = 3


def drac(**values: Any) -> DrAC:
    return DrAC(DrACConfig(**values), 4, ACTIONS, rng())


class Judged:
    """Logits and values by table, plain frames first, augmented ones second."""

    def __init__(self, plain: Tensor, augmented: Tensor) -> None:
        self.tables = iter([plain, augmented])
        self.shown: list[Tensor] = []

    def __call__(self, encode: Any, frames: Any) -> tuple[Tensor, Tensor]:
        self.shown.append(frames)
        table = next(self.tables)
        return table[:, :ACTIONS].log_softmax(-1), table[:, ACTIONS]


def test_the_terms_and_their_gradients_are_those_of_the_paper_and_plain_frames_have_none():
    plain, augmented = (torch.randn(5, ACTIONS + 1, generator=rng(i)) for i in (1, 2))
    plain.requires_grad_()
    augmented.requires_grad_()
    made, frames = drac(weight=0.1), torch.zeros(5, 8, 8, 3, dtype=torch.uint8)
    made.opinions = judged = Judged(plain, augmented)
    loss, seen = made.loss(None, Batch(frames, "crop"), rng())  # type: ignore[arg-type]
    loss.backward()
    assert judged.shown[0] is frames
    p, q = (table.detach()[:, :ACTIONS].softmax(-1) for table in (plain, augmented))
    apart = augmented.detach()[:, ACTIONS] - plain.detach()[:, ACTIONS]
    kl = (p * (p.log() - q.log())).sum(-1).mean()
    torch.testing.assert_close(seen["augmented_kl"].detach(), kl)
    torch.testing.assert_close(seen["augmented_value_error"].detach(), (apart**2).mean() / 2)
    torch.testing.assert_close(loss.detach(), 0.1 * (kl + (apart**2).mean() / 2))
    assert plain.grad is None  # what is learnt is to agree with the plain frame
    torch.testing.assert_close(augmented.grad[:, :ACTIONS], 0.1 * (q - p) / 5)
    torch.testing.assert_close(augmented.grad[:, ACTIONS], 0.1 * apart / 5)


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_both_terms_are_zero_under_the_identity_alone(kind):
    config = small("drac")
    for values, zero in (({"shift": 0}, kind == "crop"), ({"shift": 2}, False)):
        objective = replace(config.objective, augmentation=kind, **values)
        learner = learner_for(replace(config, objective=objective), side=8)
        (batch, *_) = learner.objective_batches(rollout_for(learner, side=8), 1)
        averages = Averages()
        learner.objective_backward(batch, averages)
        seen = averages.numbers()
        assert (seen["augmented_kl"] == seen["augmented_value_error"] == 0) is zero
        largest = max(float(p.grad.abs().max()) for p in learner.agent.encoder.parameters())
        assert (largest < 1e-8) is zero


def test_in_a_joint_step_the_heads_learn_from_it_too():
    """With PPO's own gradients at 0, only DrAC's is left on the heads."""
    config = small("drac")
    learner = learner_for(config, side=8)
    (batch, *_) = learner.objective_batches(rollout_for(learner, side=8), 1)
    learner.agent.zero_grad()
    learner.objective_backward(batch, Averages())
    assert float(learner.agent.value.weight.grad.abs().sum()) > 0
    assert float(learner.agent.policy.weight.grad.abs().sum()) > 0


def test_the_choice_is_that_of_a_table_made_by_hand():
    """Each once, and then Q + .5 sqrt(log t / N) with the mean of the last two returns."""
    made, never = drac(augmentation="ucb", exploration=0.5, window=2), math.inf

    def unsure(choices: int, tries: int) -> float:
        return 0.5 * math.sqrt(math.log(choices) / tries)

    # What each rollout earned, and by hand the bounds of the three after it was credited.
    table = [
        (9.0, (never, never, never)),  # credited to nobody
        (1.0, (1.0, never, never)),  # log 1 = 0
        (0.2, (1 + unsure(2, 1), 0.2 + unsure(2, 1), never)),
        (0.9, (1 + unsure(3, 1), 0.2 + unsure(3, 1), 0.9 + unsure(3, 1))),
        (0.4, (0.7 + unsure(4, 2), 0.2 + unsure(4, 1), 0.9 + unsure(4, 1))),
        (-1.1, (0.7 + unsure(5, 2), 0.2 + unsure(5, 1), -0.1 + unsure(5, 2))),
        (2.0, (1.2 + unsure(6, 3), 0.2 + unsure(6, 1), -0.1 + unsure(6, 2))),
    ]
    chosen = []
    for earned, bounds in table:
        credited = drac(augmentation="ucb", exploration=0.5, window=2)
        credited.load_state_dict(made.state_dict())
        made.choose(torch.tensor(earned))
        chosen.append(int(made.chosen))
        # As `choose` saw them: the credit is in, the next choice is not counted yet.
        credited.returns.copy_(made.returns)
        assert credited.bounds().tolist() == pytest.approx(bounds, abs=1e-6)
    assert chosen == [0, 1, 2, 0, 2, 0, 0]
    assert made.tried.tolist() == [4, 1, 2]
    kept = ([2.0, 0.4], [0.2, 0.0], [0.9, -1.1])
    assert made.returns.tolist() == [pytest.approx(row) for row in kept]


@pytest.mark.parametrize("earned", [1.1, 0.0, -3.0])
def test_augmentations_that_earn_the_same_are_chosen_equally_often(earned):
    """1.1 is what random play earns per rollout of bigfish, in the units of the rewards."""
    made = drac(augmentation="ucb")
    for _ in range(1500):
        made.choose(torch.tensor(earned))
    assert int(made.tried.min()) >= 490


def test_the_augmentation_that_earns_most_is_chosen_most_and_the_others_now_and_then():
    made, means = drac(augmentation="ucb", exploration=0.5), (1.1, 1.1, 1.4)
    for _ in range(300):
        last = int(made.chosen)
        made.choose(torch.tensor(means[last]))
    assert int(made.tried.argmax()) == 2
    assert int(made.tried.min()) >= 5


def test_the_window_forgets_the_oldest_return():
    made = drac(window=2)
    for earned in (0.0, 1.0, 2.0, 3.0):
        made.choose(torch.tensor(earned))
    assert sorted(made.returns[0].tolist()) == [2.0, 3.0]
    assert float(made.bounds()[0]) == pytest.approx(2.5 + 0.1 * math.sqrt(math.log(4) / 4))


def test_a_rollout_is_judged_once_however_many_epochs_and_the_choice_is_saved():
    config = small("drac")
    config = replace(
        config,
        objective=replace(config.objective, augmentation="ucb"),
        policy=replace(config.policy, epochs=3),
    )
    first, second = learner_for(config), learner_for(replace(config, seed=1))
    rollout = rollout_for(first)
    for count in (1, 2):
        update(first, rollout)
        assert int(first.objective.tried.sum()) == count
    assert float(first.objective.returns.abs().sum()) > 0
    second.load_weights(first.weights())
    assert torch.equal(second.objective.bounds(), first.objective.bounds())


def test_a_return_ends_with_its_episode_and_with_the_rollout():
    learner = learner_for(small("drac"))
    rollout = rollout_for(learner)
    steps, envs = rollout.done.shape
    total = 0.0
    for n in range(envs):
        for t in range(steps):
            factor = 1.0
            for later in range(t, steps):
                total += factor * float(rollout.reward[later, n])
                factor *= 0.999
                if rollout.done[later, n]:
                    break
    assert float(mean_return(rollout)) == pytest.approx(total / (steps * envs), abs=1e-4)


def test_it_is_for_a_policy_whose_values_read_the_same_features():
    config = plain("drac")
    with pytest.raises(BadInput, match=r"and policy\.kind=daac has another network for its values"):
        replace(config, policy=DAACConfig())
