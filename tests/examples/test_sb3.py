"""CTRL in Stable-Baselines3: PPO's numbers without it, PPO's optimiser with it, one file."""

import csv
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

import crosstraj as ct
from crosstraj.learning import joint
from crosstraj.nn.encoders import Encode
from tests.examples.recipes import HEALTH, recipe, same

sb3 = recipe("sb3_ppo_ctrl")
STEPS, ENVS, SEED = 32, 4, 3
FRAMES = 2 * STEPS * ENVS


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def made(kind: Any = None, **values: Any) -> Any:
    envs = make_vec_env(sb3.ENV, ENVS, seed=SEED, wrapper_class=sb3.ImgObsWrapper)
    kind = kind or sb3.CTRLPPO
    if kind is sb3.CTRLPPO:
        values = {"ctrl_config": ct.CTRLConfig(clusters=8), **values}
    sizes = {"n_steps": STEPS, "batch_size": 64, "n_epochs": 2, "policy_kwargs": {"net_arch": [32]}}
    return kind("CnnPolicy", envs, seed=SEED, device="cpu", **sizes, **values)


def learnt(model: Any, callback: Any = None, frames: int = FRAMES) -> Any:
    return model.learn(frames, callback=callback)


def callback() -> Any:
    return sb3.CTRLCallback(minibatches=2)


def truth(model: Any) -> list[Any]:
    """All that PPO has learnt, and the last thing it did."""
    states = [model.policy.state_dict(), model.policy.optimizer.state_dict()]
    return deepcopy([*states, torch.as_tensor(model.rollout_buffer.actions)])


@pytest.fixture(scope="module")
def plain() -> list[Any]:
    torch.set_num_threads(1)
    return truth(learnt(made(PPO)))


@pytest.fixture(scope="module")
def played() -> tuple[Any, ct.Trajectories]:
    """A model after one update of PPO, and the rollout it learnt from; to be copied."""
    torch.set_num_threads(1)
    model, keeps = made(), callback()
    kept: list[ct.Trajectories] = []
    keeps.learn = kept.append
    learnt(model, keeps, FRAMES // 2)
    (play,) = kept
    return model, play


def test_without_the_objective_it_is_ppo_to_the_bit(plain: list[Any]) -> None:
    assert same(truth(learnt(made())), plain)


def test_an_objective_whose_steps_have_no_length_leaves_ppo_to_the_bit(plain: list[Any]) -> None:
    # Random numbers, buffers, modes and moments: nothing but its steps on the weights can matter.
    model = learnt(made(ctrl_rate=0.0), callback())
    assert len(model.ctrl_optimizer.state) > 0
    assert same(truth(model), plain)
    assert not same(truth(learnt(made(), callback())), plain)


def test_a_pass_leaves_the_policy_s_optimiser_and_no_gradient(played: Any, tmp_path: Path) -> None:
    model, play = copied(played, tmp_path)
    before, moments = model.policy.state_dict(), model.policy.optimizer.state_dict()
    before, moments = deepcopy(before), deepcopy(moments)
    passed(model, play)
    assert same(model.policy.optimizer.state_dict(), moments)
    assert len(moments["state"]) > 0
    assert all(p.grad is None for p in model.policy.parameters())
    assert not model.policy.training  # as SB3 has it when it plays
    after = model.policy.state_dict()
    for part in ("features_extractor.cnn.0.weight", "action_net.weight", "value_net.weight"):
        assert not after[part].equal(before[part])  # the heads follow the encoder


def test_the_file_of_save_gives_heads_moments_and_generator_back(
    played: Any, tmp_path: Path
) -> None:
    model, play = copied(played, tmp_path)
    passed(model, play)
    model.save(tmp_path / "again")
    again = sb3.CTRLPPO.load(tmp_path / "again", device="cpu")
    assert again.ctrl_config == model.ctrl_config
    assert len(model.ctrl_optimizer.state_dict()["state"]) > 0
    for _ in range(2):  # as saved, and after one more pass of each
        for part in ("policy", "ctrl", "ctrl_optimizer"):
            one, two = getattr(model, part), getattr(again, part)
            assert same(one.state_dict(), two.state_dict()), part
        assert same(model.policy.optimizer.state_dict(), again.policy.optimizer.state_dict())
        assert passed(model, play) == passed(again, play)


def test_a_slow_copy_of_the_encoder_is_in_the_file_as_well(tmp_path: Path) -> None:
    model = made(ctrl_config=ct.CTRLConfig(clusters=8, target_decay=0.9))
    learnt(model, callback(), FRAMES // 2).save(tmp_path / "slow")
    again = sb3.CTRLPPO.load(tmp_path / "slow", device="cpu").ctrl.state_dict()
    assert same(again, model.ctrl.state_dict())
    (slow,) = [name for name in again if "slow" in name and name.endswith("cnn.0.weight")]
    assert not again[slow].equal(model.policy.features_extractor.cnn[0].weight)


def test_passes_lower_the_loss(played: Any, tmp_path: Path) -> None:
    model, play = copied(played, tmp_path)
    losses = [passed(model, play)["ctrl/loss"] for _ in range(8)]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0] - 0.5


def test_the_anchor_is_ours(played: Any, tmp_path: Path) -> None:
    model, play = copied(played, tmp_path)
    frames, rng = play.frames()[::7], torch.Generator().manual_seed(0)
    anchor, ours = sb3.Anchor(model.policy), our_anchor(model.policy)
    with torch.no_grad():
        anchor(frames)
        assert anchor.loss() < 1e-6
        for parameter in model.policy.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=rng))
    for held in (anchor, ours):
        held(frames[:9])
        held(frames[9:])
    theirs, expected = anchor.loss(), ours.loss()
    assert expected > 0.01
    torch.testing.assert_close(theirs, expected)
    theirs.backward()
    assert model.policy.action_net.weight.grad.abs().sum() > 0
    assert all(p.grad is None for p in anchor.before.parameters())


def test_what_is_kept_of_a_rollout_is_whole_when_ctrl_learns() -> None:
    class Watching(sb3.CTRLCallback):  # type: ignore[name-defined,misc]
        seen = 0

        def _on_rollout_end(self) -> None:
            super()._on_rollout_end()
            starts = self.model.rollout_buffer.episode_starts
            assert np.array_equal(self.play.done.numpy()[:-1], starts[1:].astype(bool))
            self.copy = deepcopy(self.play)

        def learn(self, play: ct.Trajectories) -> None:
            assert all(same(vars(play)[n], vars(self.copy)[n]) for n in vars(play))
            assert self.model._n_updates == 2 * (self.seen + 1)  # the policy has learnt from it
            self.seen += 1

    watching = Watching()
    learnt(made(), watching)
    assert watching.seen == 2


def test_the_figures_of_health_are_in_sb3_s_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = configure(str(tmp_path), ["csv"])
    monkeypatch.setattr(sb3.CTRLPPO, "_setup_learn", with_logger(logger))
    sb3.main(3 * STEPS * ENVS, ENVS, n_steps=STEPS, batch_size=64, n_epochs=1, verbose=0)
    logger.close()
    rows = list(csv.DictReader((tmp_path / "progress.csv").open()))
    assert len(rows) == 3
    for row in rows[1:]:  # the first is written before anything is learnt
        figures = {name: float(row[f"ctrl/{name}"]) for name in HEALTH | {"loss", "anchor"}}
        assert np.isfinite([*figures.values()]).all()
        assert 0 < figures["code_entropy"] < np.log(32)


def copied(played: tuple[Any, ct.Trajectories], place: Path) -> tuple[Any, ct.Trajectories]:
    model, play = played
    model.save(place / "model")
    return sb3.CTRLPPO.load(place / "model", device="cpu"), play


def passed(model: Any, play: ct.Trajectories) -> dict[str, float]:
    """One pass of CTRL on a rollout, and what was logged of it."""
    model.set_logger(configure(None, []))
    passes = callback()
    passes.init_callback(model)
    passes.learn(play)
    return dict(model.logger.name_to_value)


def with_logger(logger: Any) -> Any:
    inner = sb3.CTRLPPO._setup_learn

    def setup(model: Any, *args: Any, **kwargs: Any) -> Any:
        model.set_logger(logger)
        return inner(model, *args, **kwargs)

    return setup


def our_anchor(policy: Any) -> joint.Anchor:
    """The anchor of our own loop, on SB3's networks."""

    class Agent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = ct.FrameEncoder(policy.features_extractor)
            self.latent, self.action = policy.mlp_extractor, policy.action_net
            self.value = policy.value_net

        def heads(self, features: Any, context: Any) -> tuple[Any, Any]:
            for_action, for_value = self.latent(features)
            return self.action(for_action).log_softmax(1), self.value(for_value).squeeze(1)

    agent: Any = Agent()
    return joint.Anchor(agent, Encode(agent.encoder, live=True, piece=1000))
