"""What is not finite is caught before it reaches the weights, never saved, and survived or said."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crosstraj.config.groups import EvaluationConfig, MachineConfig, SavingConfig
from crosstraj.config.values import Config
from crosstraj.data.rewards import RewardNormaliser
from crosstraj.envs.procgen import ProcgenVectorEnv
from crosstraj.errors import BadInput, NonFinite
from crosstraj.learning.learner import Learner
from crosstraj.learning.optimiser import Optimiser
from crosstraj.learning.place import open_run
from crosstraj.learning.signals import Stop
from crosstraj.learning.state import PATIENCE, Training
from crosstraj.loop import train
from crosstraj.objectives.ctrl import CTRL, CTRLConfig
from crosstraj.policies import ppo
from crosstraj.policies.experience import experience
from crosstraj.policies.ppo import PPO
from crosstraj.runs import checkpoint
from crosstraj.runs.log import read_rows
from tests.helpers import bits, learner_for, rollout_for, small

FRAMES = 4 * 16  # of one update
UPDATES = 4
POISONS = [float("nan"), float("inf"), -float("inf")]


class Said(list[str]):
    """A display that remembers the sentences."""

    def show(self, frames: int, row: dict[str, float]) -> None: ...

    def say(self, sentence: str) -> None:
        self.append(sentence)


def after(
    patch: pytest.MonkeyPatch, owner: Any, name: str, calls: range, change: Callable[..., Any]
) -> None:
    """Lets `change` have the arguments and the result of certain calls; returns what it returns."""
    real, number = getattr(owner, name), count(1)

    def watched(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        return change(arguments, result) if next(number) in calls else result

    patch.setattr(owner, name, watched)


def once(call: int) -> range:
    return range(call, call + 1)


# --- Before the step


@pytest.mark.parametrize("poison", POISONS)
def test_a_reward_that_is_not_finite_leaves_the_normaliser_as_it_was(poison: float) -> None:
    normaliser, done = RewardNormaliser(2), torch.zeros(3, 2, dtype=torch.bool)
    normaliser(torch.ones(3, 2), done)
    before = normaliser.state_dict()
    reward = torch.ones(3, 2)
    reward[2, 1] = poison
    with pytest.raises(NonFinite, match="a reward is not finite"):
        normaliser(reward, done)
    now = normaliser.state_dict()
    assert torch.equal(before.pop("returns"), now.pop("returns"))
    assert before == now


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("which", ["objective", "policy"])
def test_a_loss_that_is_not_finite_never_reaches_the_weights(
    which: str, poison: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(arguments: Any, result: Any) -> Any:
        if which == "policy":
            return result._replace(surrogate=result.surrogate * poison)
        return result[0] * poison, result[1]

    config = small(order=which)
    learner = learner_for(config)
    rollout = rollout_for(learner, config)
    steps = experience(rollout, rollout.reward, config.policy)
    before = bits(learner)
    after(monkeypatch, *((ppo, "terms") if which == "policy" else (CTRL, "loss")), once(1), spoil)
    with pytest.raises(NonFinite, match=r"the gradient of .* is not finite"):
        learner.update(rollout, steps)
    assert bits(learner) == before


@pytest.mark.parametrize("poison", POISONS)
def test_only_the_gradient_at_fault_is_named(poison: float) -> None:
    layers = {name: nn.Parameter(torch.ones(2)) for name in ("first", "second", "third")}
    optimiser = Optimiser((layers, 0.1), epsilon=1e-5, max_norm=0.5)
    sum(layer.sum() for layer in layers.values()).backward()
    layers["second"].grad[1] = poison
    with pytest.raises(NonFinite, match=r"^the gradient of second is not finite$"):
        optimiser.step()
    assert all(torch.equal(layer, torch.ones(2)) for layer in layers.values())


# --- A whole run


def config_for(runs: Path, on_nonfinite: str = "halt") -> Config:
    config = small(on_nonfinite=on_nonfinite, env="bigfish", frames=UPDATES * FRAMES)
    return replace(
        config,
        objective=CTRLConfig(clusters=4),
        evaluation=EvaluationConfig(episodes=2, envs=2),
        machine=MachineConfig(threads=1),
        saving=SavingConfig(runs=runs, checkpoint_seconds=0, snapshots=0),
    )


@pytest.fixture(autouse=True)
def no_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crosstraj.loop.evaluate", lambda *arguments: {})


def run_to_the_end(config: Config, said: Said) -> Path:
    with open_run(config, said) as run:
        try:
            train(config, run, said, Stop())
        finally:
            directory = run.directory
    return directory


def newest(directory: Path) -> tuple[Path, checkpoint.State]:
    path = checkpoint.newest(directory / "checkpoints", pytest.fail)
    assert path is not None
    return path, checkpoint.read(path)[0]


def contents(directory: Path) -> dict[str, bytes]:
    """The newest checkpoint and the metrics; the length of the log with the times may differ."""
    path, _ = newest(directory)
    state = json.loads((path / checkpoint.STATE).read_bytes())
    del state["logs"]["timing.jsonl"]
    return {
        "weights": (path / checkpoint.WEIGHTS).read_bytes(),
        "training": (path / checkpoint.TRAINING).read_bytes(),
        "state": json.dumps(state).encode(),
        "metrics": (directory / "metrics.jsonl").read_bytes(),
    }


def leaves(state: Any) -> Iterator[Any]:
    """Every tensor and number of a state."""
    if isinstance(state, dict | list):
        for node in state.values() if isinstance(state, dict) else state:
            yield from leaves(node)
    elif isinstance(state, Tensor | float):
        yield torch.as_tensor(state)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A run to which nothing happened."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crosstraj.loop.evaluate", lambda *arguments: {})
        directory = run_to_the_end(config_for(tmp_path_factory.mktemp("clean")), Said())
    return contents(directory)


def spoil_reward(arguments: Any, result: Any) -> Any:
    result[1][0] = float("nan")
    return result


def spoil_gradient(arguments: Any, result: Any) -> Any:
    arguments[0].agent.value.weight.grad[0, 0] = float("nan")
    return result


def spoil_weights(arguments: Any, result: Any) -> Any:
    """Finite, and yet too large to play with."""
    arguments[0].agent.policy.weight.data.fill_(3e38)
    return result


PLACES = {  # in the third update; four minibatches for the policy
    "a reward is not finite": (ProcgenVectorEnv, "step", once(40), spoil_reward),
    "the gradient of value.weight is not finite": (PPO, "backward", once(10), spoil_gradient),
}


def test_a_policy_that_cannot_act_halts_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after(monkeypatch, Learner, "update", once(2), spoil_weights)
    words = "after 128 frames the policy's probabilities are not finite; the rollout is in"
    with pytest.raises(NonFinite, match=words):
        run_to_the_end(config_for(tmp_path), Said())


def test_a_policy_that_cannot_be_judged_halts_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise NonFinite("the policy's probabilities are not finite")

    monkeypatch.setattr("crosstraj.loop.evaluate", fail)
    with pytest.raises(NonFinite, match=r"after 256 frames the policy's .*; the rollout is in"):
        run_to_the_end(config_for(tmp_path), Said())


@pytest.mark.parametrize("words", PLACES)
def test_halt_writes_the_rollout_names_the_tensor_and_keeps_the_last_save(
    words: str, tmp_path: Path, clean: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_for(tmp_path)
    with monkeypatch.context() as patch:
        after(patch, *PLACES[words])
        with pytest.raises(NonFinite, match=f"after 128 frames {words}; the rollout is") as halt:
            run_to_the_end(config, Said())
    assert halt.value.exit_code == 70
    (directory,) = tmp_path.iterdir()
    rollout = checkpoint.read_weights(directory / "nonfinite" / f"step-{2 * FRAMES}")
    assert rollout["obs"].shape == (17, 4, 64, 64, 3)
    assert rollout["reward"].isnan().any() == ("reward" in words)
    path, state = newest(directory)
    assert path.name == f"step-{2 * FRAMES}"
    assert all(leaf.isfinite().all() for leaf in leaves(state))
    assert contents(run_to_the_end(config, Said())) == clean


@pytest.mark.parametrize("words", PLACES)
def test_rollback_goes_on_by_another_way_the_same_one_each_time(
    words: str, tmp_path: Path, clean: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, said = [], Said()
    for name in ("first", "second"):
        with monkeypatch.context() as patch:
            after(patch, *PLACES[words])
            directory = run_to_the_end(config_for(tmp_path / name, "rollback"), said)
        path, state = newest(directory)
        assert path.name == f"step-{UPDATES * FRAMES}"
        assert state["counters"]["rollbacks"] == 1
        assert all(leaf.isfinite().all() for leaf in leaves(state))
        rows = read_rows(directory / "metrics.jsonl")
        assert [row["frames"] for row in rows] == [FRAMES * turn for turn in (1, 2, 3, 4)]
        ends.append(contents(directory))
    assert sum("rolled back to 128 frames" in sentence for sentence in said) == 2
    assert ends[0] == ends[1]
    assert ends[0]["weights"] != clean["weights"]
    halfway = [end["metrics"].split(b"\n")[:2] for end in (ends[0], clean)]
    assert halfway[0] == halfway[1], "up to the save that it went back to, it is the same run"


def test_each_rollback_draws_other_numbers_and_patience_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[bytes] = []

    def spoil(arguments: Any, result: Any) -> Any:
        tries.append(arguments[0].streams.policy.get_state().numpy().tobytes())
        raise NonFinite("a loss is not finite")

    after(monkeypatch, Learner, "update", range(2, 100), spoil)
    with pytest.raises(NonFinite, match=f"as in {PATIENCE} tries before it"):
        run_to_the_end(config_for(tmp_path, "rollback"), Said())
    assert len(set(tries)) == len(tries) == PATIENCE + 1


def test_without_a_checkpoint_there_is_nothing_to_roll_back_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after(monkeypatch, ProcgenVectorEnv, "step", once(3), spoil_reward)
    with pytest.raises(NonFinite, match="there is no checkpoint to roll back to"):
        run_to_the_end(config_for(tmp_path, "rollback"), Said())


def test_an_environment_that_shows_floats_is_refused(tmp_path: Path) -> None:
    config = replace(config_for(tmp_path), env="CartPole-v1")
    with pytest.raises(BadInput, match="uint8 images"):
        Training(config)
