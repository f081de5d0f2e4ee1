"""CTRL in CleanRL's style: the marked lines are all that differs from PPO, and they do no harm."""

import ast
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import crosstraj as ct
from crosstraj.data.advantages import gae
from tests.examples.recipes import EXAMPLES, HEALTH, recipe, same

cleanrl = recipe("cleanrl_ppo_ctrl")
SOURCE = (EXAMPLES / "cleanrl_ppo_ctrl.py").read_text()
SMALL = {"num_envs": 8, "num_steps": 48, "num_minibatches": 3, "total_timesteps": 2 * 8 * 48}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def trained(module: Any, place: Path, **values: Any) -> Any:
    return module.main(module.Args(log_dir=str(place), **SMALL, **values))


def logged(place: Path) -> dict[str, list[float]]:
    events = EventAccumulator(str(place)).Reload()
    return {name: [e.value for e in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_without_the_marked_lines_it_is_plain_ppo_and_with_weight_0_gives_its_numbers(
    tmp_path: Path,
) -> None:
    left = [line for line in SOURCE.splitlines() if not line.endswith("  # CTRL")]
    plain = tmp_path / "plain.py"
    plain.write_text("\n".join(left))
    names = {n.id for n in ast.walk(ast.parse(plain.read_text())) if isinstance(n, ast.Name)}
    assert not [name for name in names if "ctrl" in name or name in ("ct", "levels", "play")]
    ppo = trained(recipe("plain", plain), tmp_path / "ppo").state_dict()
    assert same(trained(cleanrl, tmp_path / "zero", ctrl_weight=0.0).state_dict(), ppo)
    both = logged(tmp_path / "zero")
    assert {name: both[name] for name in both if "ctrl/" not in name} == logged(tmp_path / "ppo")
    assert not same(trained(cleanrl, tmp_path / "both").state_dict(), ppo)


def test_the_figures_of_health_are_in_tensorboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[ct.Trajectories] = []
    minibatches = ct.CTRL.minibatches

    def watched(loss: Any, play: ct.Trajectories, *args: Any, **kwargs: Any) -> Any:
        seen.append(deepcopy(play))
        return minibatches(loss, play, *args, **kwargs)

    monkeypatch.setattr(ct.CTRL, "minibatches", watched)
    trained(cleanrl, tmp_path, update_epochs=3)
    log = logged(tmp_path)
    for name in [f"ctrl/{name}" for name in HEALTH] + ["losses/policy_loss", "losses/value_loss"]:
        assert len(log[name]) == 2
        assert all(map(math.isfinite, log[name])), name
    assert log["ctrl/cluster"][1] < log["ctrl/cluster"][0]  # learns
    assert len(log["charts/episodic_return"]) > 0
    # An end or a level that is one step off would show here: it changes where an episode ends.
    for play in seen:
        goes_on = ~play.done[:-1]
        assert not goes_on.all()
        assert (play.level[1:] == play.level[:-1])[goes_on].all()
        assert (play.level[1:] != play.level[:-1])[~goes_on].any()


def test_advantages_are_ours() -> None:
    rng = torch.Generator().manual_seed(0)
    rewards, values = torch.rand(9, 4, generator=rng), torch.rand(10, 4, generator=rng)
    dones = (torch.rand(10, 4, generator=rng) < 0.3).float()
    args = cleanrl.Args(gamma=0.9, gae_lambda=0.8)
    ours = gae(rewards, values, dones[1:].bool(), torch.zeros(9, 4), discount=0.9, trace=0.8)
    torch.testing.assert_close(cleanrl.advantages_of(rewards, values, dones, args), ours)
