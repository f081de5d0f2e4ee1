"""CTRL in TorchRL: a loss module by that library's conventions, with our loss to the bit in it."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import crosstraj as ct
from tests.examples.recipes import HEALTH, recipe, same

ROWS, STEPS, ACTIONS = 4, 24, 5
CONFIG = ct.CTRLConfig(clusters=8, least_rank=0.0)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def torchrl() -> Any:
    """The recipe, imported by the first test: TorchRL takes seconds, in every process of pytest."""
    return recipe("torchrl_ppo_ctrl")


def data() -> Any:
    """As a collector gives it, [N, T]."""
    from tensordict import TensorDict

    rng = torch.Generator().manual_seed(0)
    size = (ROWS, STEPS)
    pixels = torch.randint(256, (*size, 16, 16, 3), dtype=torch.uint8, generator=rng)
    ends = torch.rand(*size, 1, generator=rng) < 0.1
    action = torch.randint(ACTIONS, size, generator=rng)
    return TensorDict(pixels=pixels, action=action, next=TensorDict(done=ends), batch_size=size)


def network() -> ct.FrameEncoder:
    return ct.FrameEncoder(nn.Sequential(nn.Flatten(), nn.Linear(768, 32), nn.ReLU()))


def made(encoder: nn.Module, **values: Any) -> Any:
    values = {"features": 32, "actions": ACTIONS, "seed": 1} | values
    return torchrl().CTRLLoss(encoder, CONFIG, **values)


def test_the_loss_is_ours_to_the_bit() -> None:
    encoder, td = network(), data()
    ours = ct.CTRL(CONFIG, features=32, actions=ACTIONS, seed=1)
    theirs = made(encoder, weight=0.5)(td)
    turned = [td[key].transpose(0, 1) for key in ("pixels", "action", ("next", "done"))]
    (batch,) = ours.minibatches(ct.Trajectories.of(*turned, time_first=True), 1)
    expected, evidence = ours(encoder, batch)
    assert theirs["loss_ctrl"].equal(0.5 * expected)
    assert theirs["cluster"].equal(evidence["cluster"])
    assert theirs["loss_ctrl"].requires_grad
    assert not any(theirs[name].requires_grad for name in theirs.keys() if name != "loss_ctrl")  # noqa: SIM118  # iterates over rows
    assert set(theirs.keys()) >= HEALTH
    assert theirs.batch_size == ()


def test_keys_are_set_and_dispatched_as_elsewhere_in_torchrl() -> None:
    encoder, td = network(), data()
    expected = made(encoder)(td)["loss_ctrl"]
    parts = {"pixels": td["pixels"], "action": td["action"], "next_done": td["next", "done"]}
    loss, cosine, *_ = made(encoder)(**parts)
    assert loss.equal(expected)
    assert -1 <= cosine <= 1
    renamed = made(encoder)
    renamed.set_keys(pixels=("agent", "view"))
    assert renamed.in_keys == [("agent", "view"), "action", ("next", "done")]
    td["agent", "view"] = td.pop("pixels")
    assert renamed(td)["loss_ctrl"].equal(expected)
    with pytest.raises(ValueError, match="not an accepted tensordict key"):
        renamed.set_keys(frames="pixels")


def test_it_owns_the_encoder_s_parameters_and_its_own() -> None:
    encoder = network()
    loss = made(encoder)
    all_of_it, own = {*loss.parameters()}, {*loss.own_parameters()}
    assert all_of_it == own | {*encoder.parameters()}
    assert own.isdisjoint(encoder.parameters())
    loss(data())["loss_ctrl"].backward()
    assert all(parameter.grad is not None for parameter in all_of_it)


def test_its_state_holds_the_generator_and_what_follows_a_step_follows() -> None:
    loss, again = made(network()), made(network(), seed=2)
    adam = torch.optim.Adam(loss.parameters(), lr=0.01)
    loss.follow(adam)
    losses = []
    for _ in range(30):
        adam.zero_grad()
        (now := loss(data())["loss_ctrl"]).backward()
        adam.step()
        losses.append(now.item())
        lengths = loss.ctrl.objective.prototypes.norm(dim=1)
        torch.testing.assert_close(lengths, torch.ones(8))
    assert losses[-1] < losses[0] - 0.3
    again.load_state_dict(loss.state_dict())
    assert same(again.state_dict(), loss.state_dict())
    assert again(data())["loss_ctrl"].equal(loss(data())["loss_ctrl"])


def test_episodes_that_are_too_short_give_a_loss_of_nothing() -> None:
    td = data()
    td["next", "done"] = torch.ones_like(td["next", "done"])
    found = made(network())(td)
    assert dict(found.items()) == {"loss_ctrl": 0}


def test_it_trains_beside_ppo_and_its_figures_are_in_torchrl_s_log(tmp_path: Path) -> None:
    loss = torchrl().main(4 * 8 * 32, 8, 32, str(tmp_path))
    fresh = torchrl().CTRLLoss(torchrl().Encoder(), loss.ctrl.config, features=512, actions=7)
    assert not same(fresh.ctrl.state_dict(), loss.ctrl.state_dict())
    place = tmp_path / "torchrl_ppo_ctrl" / "scalars"
    for name in HEALTH | {"loss_ctrl", "loss_objective", "loss_critic"}:
        rows = list(csv.reader((place / f"{name}.csv").open()))
        assert [int(step) for step, _ in rows] == [256, 512, 768, 1024]
        assert np.isfinite([float(figure) for _, figure in rows]).all(), name
    losses = [float(figure) for _, figure in csv.reader((place / "loss_ctrl.csv").open())]
    assert losses[-1] < losses[0]


def test_ppo_s_optimiser_has_the_encoder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_of: list[list[Any]] = []
    adam = torch.optim.Adam

    def watched(parameters: Any, **values: Any) -> Any:
        made_of.append([*parameters])
        return adam(made_of[-1], **values)

    monkeypatch.setattr(torch.optim, "Adam", watched)
    loss = torchrl().main(2 * 32, 2, 32, str(tmp_path))
    (owned,) = made_of
    assert len({id(p) for p in owned}) == len(owned)
    assert {id(p) for p in owned} >= {id(p) for p in loss.parameters()}
