"""Ising: rewards, goals, the environments, their saved state, and a training that is resumed."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from crosstraj.cli.main import main
from crosstraj.config.presets import plain, preset
from crosstraj.config.stored import from_dict, to_dict
from crosstraj.envs import (
    IsingConfig,
    IsingEnv,
    IsingVectorEnv,
    ProcgenConfig,
    check_envs,
    make_envs,
    savable,
)
from crosstraj.envs.ising.lattice import picture
from crosstraj.envs.ising.matching import make_goal
from crosstraj.errors import BadInput
from crosstraj.learning.load import place_of, read_weights
from crosstraj.nn.encoders import Lattice
from crosstraj.report.labels import changed_values
from crosstraj.runs.log import Log
from tests.envs.ising.onsager import BETAS, ONSAGER, Array

SMALL = IsingConfig(side=8, horizon=5, goal_sweeps_least=1, goal_sweeps_most=3)


def test_the_grid_of_inverse_temperatures_is_the_papers() -> None:
    assert pytest.approx(BETAS) == IsingConfig().betas


# ---- rewards ----


def arm_rewards(config: IsingConfig, instances: range, envs: int = 16) -> Array:
    """[instance, arm] mean reward of always choosing one arm, once the lattices have settled."""
    table = np.zeros((len(instances), config.models))
    for row, instance in enumerate(instances):
        games = IsingVectorEnv(envs * config.models, replace(config, instance=instance))
        games.reset(seed=1)
        arms = np.arange(games.num_envs) % config.models
        steps = [games.step(arms)[1] for _ in range(config.horizon)]
        late = np.stack(steps[config.horizon // 4 :]).mean(axis=0)
        table[row] = late.reshape(envs, config.models).mean(axis=0)
    return table


def test_the_literal_reward_is_minus_one_half_for_every_arm_and_goal() -> None:
    table = arm_rewards(IsingConfig(reward="literal", horizon=40), range(5))
    assert table == pytest.approx(np.full((5, 5), -0.5), abs=0.01)


def test_the_energy_reward_makes_the_matching_arm_the_best() -> None:
    """One goal's own energy is off by up to a tenth of the range; over goals the diagonal rules."""
    config = IsingConfig(horizon=32)
    table = np.mean([arm_rewards(config, range(k, k + 5), 4) for k in (0, 5, 10)], axis=0)
    assert (table.argmax(axis=1) == np.arange(5)).all()
    assert (table.argmax(axis=0) == np.arange(5)).all()
    assert (np.diag(table) > -0.04).all()
    assert table[0, 4] < -0.85
    assert table[4, 0] < -0.85


def test_rewards_equal_their_definitions() -> None:
    goal = np.where(np.random.default_rng(0).random((8, 8)) < 0.5, -1, 1)
    for mode in ("energy", "literal"):
        env = IsingEnv(replace(SMALL, reward=mode), goal=goal)  # type: ignore[arg-type]
        env.reset(seed=3)
        for action in (0, 3, 4):
            frame, reward, *_ = env.step(np.int64(action))
            seen = np.where(frame[..., 0] == 255, 1, -1)
            if mode == "literal":
                right = -((seen - goal) ** 2).sum() / (4 * 64)
            else:
                e = [
                    (s * np.roll(s, 1, 0) + s * np.roll(s, 1, 1)).sum() / 128 for s in (seen, goal)
                ]
                right = -min(1.0, ((e[0] - e[1]) / (ONSAGER[4] - ONSAGER[0])) ** 2)
            assert reward == pytest.approx(right, abs=1e-3)
            assert -1 <= reward <= 0


def test_the_goal_belongs_to_the_instance_and_not_to_the_seed() -> None:
    goals = [make_goal(IsingConfig(), instance) for instance in range(5)]
    assert [goal.beta for goal in goals] == pytest.approx(BETAS)
    assert (make_goal(IsingConfig(), 3).picture == goals[3].picture).all()
    assert (make_goal(IsingConfig(), 8).picture != goals[3].picture).any()
    between = make_goal(IsingConfig(goal_on_grid=False), 0).beta
    assert 0.01 < between < 0.3
    train, test = (IsingVectorEnv(2, SMALL, split) for split in ("train", "test"))
    assert (train.games.goal(0).picture == test.games.goal(0).picture).all()


# ---- the environments ----


def steps_of(env: Any, count: int, seed: int = 0) -> list[list[Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        frames, reward, terminated, truncated, info = env.step(rng.integers(0, 5, env.num_envs))
        finals = [None if f is None else f.tobytes() for f in info.get("final_obs", ())]
        rows.append([frames.tobytes(), reward.tobytes(), terminated.tobytes(), truncated.tobytes()])
        rows[-1] += [finals, info["model"].tolist(), info["level_seed"].tolist()]
    return rows


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        replace(SMALL, show_goal=True, instances=3, burn_in=2, sweeps=2),
        replace(SMALL, first_frame="blank", rule="heat-bath", boundary="free", rounds=4),
        replace(SMALL, reward="literal", as_temperature=True, models=2),
    ],
    ids=["default", "goals", "blank", "cold"],
)
def test_gymnasiums_own_checks_pass(config: IsingConfig) -> None:
    check_env(IsingEnv(config), skip_render_check=True)


def test_it_is_registered_by_name_alone_and_as_a_vector() -> None:
    env = gymnasium.make("crosstraj/Ising-v0", config=SMALL)
    frame, info = env.reset(seed=1)
    assert frame.shape == (8, 8, 1)
    assert set(info) == {"model", "level_seed"}
    envs = gymnasium.make_vec(
        "crosstraj/Ising-v0", 3, vectorization_mode="vector_entry_point", config=SMALL
    )
    assert (envs.reset(seed=1)[0][0] == frame).all()


@pytest.mark.parametrize("changes", [{}, {"show_goal": True, "instances": 4}], ids=str)
def test_the_vector_environment_plays_as_plain_ones_do_step_for_step(
    changes: dict[str, Any],
) -> None:
    config = replace(SMALL, **changes)
    fast = IsingVectorEnv(3, config)
    plain = SyncVectorEnv([lambda: IsingEnv(config)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    (frames, info), (same, same_info) = fast.reset(seed=7), plain.reset(seed=7)
    assert (frames == same).all()
    assert (info["model"] == same_info["model"]).all()
    rows = steps_of(fast, 12)
    assert rows == steps_of(plain, 12)
    assert [any(row[4]) for row in rows] == [step % 5 == 4 for step in range(12)]
    assert len({row[0] for row in rows}) == 12


def test_the_frame_shows_the_chosen_model_and_all_of_them_move() -> None:
    envs = IsingVectorEnv(4, SMALL)
    envs.reset(seed=0)
    before = picture(envs.games.spins)
    frames, _, _, _, info = envs.step(np.array([0, 4, 2, 2]))
    assert info["model"].tolist() == [0, 4, 2, 2]
    drawn = picture(envs.games.spins)
    for row, model in enumerate(info["model"]):
        assert (frames[row, :, :, 0] == np.where(drawn[row, model] > 0, 255, 0)).all()
    assert (before != drawn).any(axis=(2, 3)).all()


def test_an_episode_ends_by_time_and_the_next_begins_with_other_lattices() -> None:
    envs = IsingVectorEnv(2, SMALL)
    envs.reset(seed=0)
    rows = [envs.step(np.array([1, 3])) for _ in range(5)]
    assert [row[3].tolist() for row in rows] == [[False, False]] * 4 + [[True, True]]
    assert not any(row[2].any() for row in rows)
    frames, info = rows[-1][0], rows[-1][4]
    assert all((last != first).any() for last, first in zip(info["final_obs"], frames, strict=True))
    assert "final_obs" not in rows[-2][4]


def test_a_shown_goal_is_the_second_channel_and_testing_has_other_goals() -> None:
    config = replace(SMALL, show_goal=True, instances=3, instance=10)
    levels = []
    for split in ("train", "test", "validation"):
        envs = IsingVectorEnv(20, config, split)  # type: ignore[arg-type]
        frames, info = envs.reset(seed=0)
        for frame, instance in zip(frames, info["level_seed"], strict=True):
            goal = envs.games.goal(int(instance)).picture
            assert (frame[..., 1] == np.where(goal > 0, 255, 0)).all()
        levels.append(set(info["level_seed"].tolist()))
    assert levels == [{10, 11, 12}, {13, 14, 15}, {16, 17, 18}]


def test_before_the_first_choice_some_model_is_seen_or_none() -> None:
    envs = IsingVectorEnv(200, SMALL)
    frames, info = envs.reset(seed=0)
    assert (np.bincount(info["model"], minlength=5) > 20).all()
    blank, info = IsingVectorEnv(2, replace(SMALL, first_frame="blank")).reset(seed=0)
    assert not blank.any()
    assert info["model"].tolist() == [-1, -1]
    assert frames.any()


def test_play_after_restoring_in_mid_episode_is_equal() -> None:
    for make in (IsingVectorEnv, lambda n, c: FlatEnv(c)):
        envs, other = make(3, SMALL), make(3, SMALL)
        envs.reset(seed=1), other.reset(seed=2)
        steps_of(envs, 3), steps_of(other, 8)
        state = envs.get_state()
        assert all(isinstance(array, np.ndarray) for array in state.values())
        rows = steps_of(envs, 12)
        _, info = other.set_state(state)
        assert np.atleast_1d(info["model"]).tolist() == state["model"].tolist()
        assert steps_of(other, 12) == rows
        envs.set_state(state)
        assert steps_of(envs, 12) == rows


class FlatEnv(IsingEnv):
    """The plain environment with the shapes of a vector of one, for the tests above."""

    num_envs = 1

    def step(self, action: Any) -> Any:
        frame, reward, terminated, truncated, info = super().step(action[0])
        several = {name: np.array([value]) for name, value in info.items()}
        return frame, np.array([reward]), np.array([terminated]), np.array([truncated]), several


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    envs = IsingVectorEnv(2, SMALL)
    envs.reset(seed=0)
    good = envs.get_state()
    bad = [
        IsingVectorEnv(3, SMALL).get_state(),
        {key: good[key] for key in ("spins", "steps")},
        good | {"spins": good["spins"] * 0},
        good | {"model": good["model"] + 5},
        good | {"instance": good["instance"] + 1},
        good | {"steps": good["steps"] - 1},
    ]
    for state in bad:
        with pytest.raises(BadInput, match="restore it into an environment made alike"):
            envs.set_state(state)
    assert all((value == good[key]).all() for key, value in envs.get_state().items())


def test_the_door_begins_at_its_seed_saves_and_tells_the_splits_apart() -> None:
    def made(split: Any, seed: int = 3) -> Any:
        return make_envs("ising", 2, levels=split, procgen=ProcgenConfig(), ising=SMALL, seed=seed)

    envs = made("train")
    check_envs(envs)
    assert savable(envs)
    first = envs.reset()[0]
    steps_of(envs, 3)
    state = envs.get_state()
    rows = steps_of(envs, 6)
    envs.set_state(state)
    assert steps_of(envs, 6) == rows
    assert (envs.reset()[0] == first).all()
    assert (made("train").reset()[0] == first).all()
    assert (made("test").reset()[0] != first).any()
    assert (made("train", 4).reset()[0] != first).any()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: IsingConfig(low=-0.1), "low=-0.1"),
        (lambda: IsingConfig(high=1e9), "between 0 and 100"),
        (lambda: IsingConfig(low=float("nan")), "low=nan"),
        (lambda: IsingConfig(low=0.2, high=0.1), "the lower one first"),
        (lambda: IsingConfig(low=0.0, as_temperature=True, reward="literal"), "temperatures must"),
        (lambda: IsingConfig(as_temperature=True), "cannot tell models"),
        (lambda: IsingConfig(models=0), "models=0"),
        (lambda: IsingConfig(side=31), "both sides must be even"),
        (lambda: IsingConfig(rounds=3), "rounds=3"),
        (lambda: IsingConfig(horizon=0), "horizon=0"),
        (lambda: IsingConfig(burn_in=-1), "burn_in=-1"),
        (lambda: IsingConfig(instance=-1), "instance=-1"),
        (lambda: IsingConfig(instances=2), "give show_goal=True"),
        (lambda: IsingConfig(goal_sweeps_least=9, goal_sweeps_most=8), "goal_sweeps_most=8"),
        (lambda: IsingVectorEnv(0), "num_envs=0"),
        (lambda: IsingEnv(goal=np.ones((16, 16))), r"\[32, 32\] of -1 and 1"),
        (lambda: IsingEnv(goal=np.zeros((32, 32))), r"\[32, 32\] of -1 and 1"),
        (lambda: IsingVectorEnv(2).step(np.array([0, 5])), "0 to 4"),
        (lambda: IsingVectorEnv(2).step(np.array([0])), "2 whole numbers"),
        (lambda: IsingVectorEnv(2).step(np.array([0.0, 1.0])), "2 whole numbers"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(wrong: Callable[[], object], words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        wrong()
    assert "\n" not in str(caught.value)


# ---- training ----

TINY = (
    *("--method", "ctrl", "--env", "ising", "--encoder", "lattice", "--frames", "768"),
    *("--envs", "4", "--rollout-steps", "64", "--ising.side", "8", "--ising.horizon", "10"),
    *("--objective.clusters", "5", "--representation.minibatches", "2", "--machine.threads", "1"),
    *("--policy.minibatches", "2", "--evaluation.episodes", "2", "--evaluation.envs", "2"),
)


def test_the_lattice_encoder_sees_what_two_neighbours_do_and_no_place() -> None:
    encoder = Lattice(1, "none", torch.Generator().manual_seed(0))
    assert sum(p.numel() for p in encoder.parameters()) < 20_000
    spins = torch.randint(0, 2, (1, 32, 32, 1), generator=torch.Generator().manual_seed(1))
    frames = (spins * 255).to(torch.uint8)
    features = encoder(frames)
    assert features.shape == (1, 256)
    turned = encoder(frames.roll((2, 4), (1, 2)))  # the seam alone is seen elsewhere
    other = encoder(torch.full_like(frames, 255))
    assert (features - turned).norm() < 0.1 * (features - other).norm()


def test_training_stopped_and_resumed_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["train", *TINY, "--saving.runs", str(tmp_path / "straight")]) == 0
    write = Log.write

    def stopping(log: Log, row: dict[str, Any]) -> None:
        write(log, row)
        if log.path.name == "metrics.jsonl":
            os.kill(os.getpid(), signal.SIGTERM)

    command = ["train", *TINY, "--saving.runs", str(tmp_path / "stopped")]
    monkeypatch.setattr(Log, "write", stopping)
    assert main(command) == 143
    monkeypatch.undo()
    assert main(command) == 0
    (straight,), (stopped,) = ((tmp_path / place).iterdir() for place in ("straight", "stopped"))
    for name in ("metrics.jsonl", "episodes.jsonl", "summary.json"):
        assert (straight / name).read_bytes() == (stopped / name).read_bytes()
    weights, others = (read_weights(run)[0] for run in (straight, stopped))
    for part in weights:
        for name, tensor in weights[part].items():
            assert tensor.equal(others[part][name])


def test_the_settings_belong_to_runs_of_this_task_alone() -> None:
    """Other runs keep their names and directories, whatever the Ising task will be able to do."""
    game = preset("ctrl", "default")
    assert "ising" not in to_dict(game)
    assert from_dict(to_dict(game)) == game
    here = replace(game, env="ising", ising=IsingConfig(instance=3))
    assert from_dict(to_dict(here)) == here
    assert place_of(here)[0] != place_of(replace(here, ising=IsingConfig()))[0]
    assert changed_values(to_dict(here)) == {}  # a goal is another game, not another variant


def test_the_command_line_refuses_a_temperature_out_of_range(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["train", *TINY, "--ising.low", "-1"]) == 2
    assert capfd.readouterr().err.startswith("crosstraj: ising.low=-1.0")
    assert plain("ctrl").ising == IsingConfig()
