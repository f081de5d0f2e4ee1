"""PPG: its losses in closed form, when a phase comes, what it moves, and a stop amid it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from crosstraj.cli.main import main
from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.learning.auxiliary import at
from crosstraj.learning.learner import Learner
from crosstraj.policies.experience import experience
from crosstraj.policies.ppg import PPG, Kept, PPGConfig
from crosstraj.runs.log import read_rows
from tests.conftest import TINY
from tests.helpers import only, remains, rng
from tests.objectives.every_method import bits, learner_for, moved, rollout_for, small, update


def with_values(**values: Any) -> Config:
    config = small("ppg")
    return replace(config, policy=replace(config.policy, **values))


def ppg(learner: Learner) -> PPG:
    assert isinstance(learner.policy, PPG)
    return learner.policy


def read_of(count: int, seed: int) -> Tensor:
    return torch.randn(count, 256, generator=rng(seed))


def kept(count: int) -> Kept:
    return Kept(torch.zeros(count), torch.randn(count, generator=rng(9)), torch.zeros(count, 0))


def test_the_auxiliary_loss_and_its_gradients_are_those_of_the_paper():
    policy = ppg(learner_for(with_values(clone_weight=0.5)))
    features, read, steps = read_of(6, 1).requires_grad_(), read_of(6, 2), kept(6)
    before = torch.randn(6, 5, generator=rng(3)).log_softmax(-1)
    loss, terms = policy.auxiliary_loss(features, read, before, steps)
    with torch.no_grad():
        now = policy.agent.policy(features).log_softmax(-1)
        own = policy.agent.auxiliary(features).squeeze(-1)
        value = policy.agent.value(read).squeeze(-1)
    kl = (before.exp() * (before - now)).sum(-1).mean()
    torch.testing.assert_close(terms.auxiliary_kl.detach(), kl)
    torch.testing.assert_close(
        terms.auxiliary_error.detach(), 0.5 * (own - steps.target).pow(2).mean()
    )
    torch.testing.assert_close(
        terms.auxiliary_value_error.detach(), 0.5 * (value - steps.target).pow(2).mean()
    )
    torch.testing.assert_close(
        loss.detach(), sum(t.detach() * w for t, w in zip(terms, (1, 0.5, 1), strict=True))
    )
    loss.backward()
    by_hand = (own - steps.target)[:, None] * policy.agent.auxiliary.weight.detach() / 6
    by_hand += 0.5 * (now.exp() - before.exp()) @ policy.agent.policy.weight.detach() / 6
    torch.testing.assert_close(features.grad, by_hand)


def test_at_the_old_policy_the_anchor_pulls_at_nothing():
    policy = ppg(learner_for(small("ppg")))
    with torch.no_grad():
        policy.agent.policy.weight.mul_(100)
    features = read_of(6, 1).requires_grad_()
    before = policy.agent.log_probs(features, torch.zeros(6, 0)).detach()
    _, terms = policy.auxiliary_loss(features, read_of(6, 2), before, kept(6))
    assert float(terms.auxiliary_kl.detach()) == 0
    (pull,) = torch.autograd.grad(terms.auxiliary_kl, features, retain_graph=True)
    assert float(pull.abs().max()) < 1e-7  # what is left is rounding
    _, terms = policy.auxiliary_loss(features, read_of(6, 2), before.roll(1, 0), kept(6))
    (pull,) = torch.autograd.grad(terms.auxiliary_kl, features)
    assert float(pull.abs().max()) > 1e-3


def test_the_policy_phase_has_no_value_loss_on_the_policy_network():
    learner = learner_for(small("ppg"))
    policy, rollout = ppg(learner), rollout_for(learner)
    steps = experience(rollout, rollout.reward, learner.config.policy)
    features = read_of(len(steps.action), 1).requires_grad_()
    loss, terms = policy.loss(features, policy.chosen(steps, torch.arange(len(steps.action))))
    assert loss == terms.surrogate - 0.01 * terms.entropy
    loss.backward()
    assert policy.agent.value.weight.grad is None
    assert policy.agent.auxiliary.weight.grad is None


def test_a_phase_comes_after_so_many_rollouts_over_the_frames_of_all_of_them():
    learner = learner_for(with_values(auxiliary_every=3, auxiliary_epochs=2))
    policy, rollout = ppg(learner), rollout_for(learner)
    seen, steps = [], learner.auxiliary_optimiser.step

    def counted() -> Tensor:
        seen.append(len(policy.rollouts))
        return steps()

    learner.auxiliary_optimiser.step = counted  # type: ignore[method-assign]
    for number in range(1, 7):
        before = bits(learner)["auxiliary"]
        figures = update(learner, rollout)
        due = number % 3 == 0
        assert ("auxiliary_kl" in figures) is due
        assert (bits(learner)["auxiliary"] != before) is due
        assert len(policy.rollouts) == number % 3
    assert seen == [3] * 2 * (2 * 2 * 3)  # two phases of two epochs of two minibatches for each


def test_kept_frames_are_not_those_of_a_rollout_that_is_overwritten():
    learner = learner_for(with_values(auxiliary_every=2))
    rollout = rollout_for(learner)
    update(learner, rollout)
    (first,) = ppg(learner).rollouts
    shown = rollout.frames().clone()
    rollout.obs.zero_()
    assert torch.equal(first.frames, shown)


def test_steps_are_found_across_rollouts():
    rollouts = [
        Kept(torch.arange(4) + 10 * n, torch.arange(4) + 10.0 * n, torch.zeros(4, 0))
        for n in range(3)
    ]
    found = at(rollouts, torch.tensor([1, 3, 4, 10, 11]))
    assert found.frames.tolist() == [1, 3, 10, 22, 23]
    assert found.target.tolist() == [1, 3, 10, 22, 23]


@pytest.mark.parametrize("grad", ["none", "rl"])
def test_a_phase_moves_the_encoder_only_where_the_policy_may(grad):
    learner = learner_for(small("ppg", encoder_grad=grad))
    rollout = rollout_for(learner)
    before = bits(learner)
    update(learner, rollout)
    changed = moved(before, bits(learner))
    assert {"policy", "value", "auxiliary", "value_encoder"} <= changed
    assert ("encoder" in changed) is (grad == "rl")


def test_ctrl_trains_the_policy_networks_encoder_on_ppg():
    config = small("ctrl", policy=replace(PPGConfig(), auxiliary_every=1))
    learner = learner_for(config, side=8)
    assert isinstance(learner.policy, PPG)
    rollout = rollout_for(learner, side=8)
    before = bits(learner)
    learner.update_objective(rollout)
    assert moved(before, bits(learner)) == {"encoder", "objective"}
    figures = update(learner, rollout)
    assert {"objective_loss", "auxiliary_kl", "gradient_ratio"} <= figures.keys()


def test_a_run_stopped_amid_a_policy_phase_ends_with_the_same_bytes(
    tmp_path: Path, stop_after: Callable[[int], None]
) -> None:
    command = ["train", "--method", "ppg", "--policy.auxiliary-every", "2", *TINY]
    command += ["--frames", "512", "--machine.threads", "1", "--saving.runs"]
    assert main([*command, str(tmp_path / "straight")]) == 0
    stop_after(1)
    assert main([*command, str(tmp_path / "stopped")]) == 143
    assert main([*command, str(tmp_path / "stopped")]) == 0
    straight, stopped = only(tmp_path / "straight"), only(tmp_path / "stopped")
    first, second, *_ = read_rows(straight / "metrics.jsonl")
    assert "auxiliary_kl" not in first  # the phase is after the stop, on frames from before it
    assert second["auxiliary_kl"] > 0
    assert remains(stopped) == remains(straight)


def test_a_memory_is_refused_in_a_sentence():
    with pytest.raises(BadInput, match="its auxiliary phase reads frames that older weights"):
        replace(
            plain("ppg"),
            memory="gru",
            policy=replace(plain("ppg").policy, stretch=32),
        )
