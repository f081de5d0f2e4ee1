"""Training: equal bytes from equal seeds, through any stop; other environments; every preset."""

import io
import json
import math
import random
import shutil
import signal
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosstraj import loop
from crosstraj.cli.main import main
from crosstraj.config.groups import MachineConfig, SavingConfig
from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.presets import plain
from crosstraj.data.level_replay import ReplayConfig
from crosstraj.envs import ProcgenConfig
from crosstraj.health.glossary import GLOSSARY
from crosstraj.learning.display import Plain
from crosstraj.learning.load import read_config, read_weights
from crosstraj.learning.place import open_run
from crosstraj.learning.signals import Stop
from crosstraj.learning.state import Training
from crosstraj.runs import checkpoint
from crosstraj.runs.log import read_rows
from tests.conftest import TINY, Trained
from tests.helpers import STOPPER, only, remains, tree
from tests.short_runs import small

# Four updates of 256 frames, evaluated after the second and the fourth: six rows of metrics.
BOTH = ("--frames", "1024", "--evaluation.every", "512", *TINY)
SMALL_CTRL = ("--objective.clusters", "8")
COMMANDS = {
    "ppo": ("train", "--method", "ppo", *BOTH),
    "ctrl": ("train", "--method", "ctrl", *BOTH, *SMALL_CTRL),
}
ROWS = ["update", "update", "evaluation", "update", "update", "evaluation"]

Stopping = tuple[str, int, signal.Signals]  # the place, its number in this process, the signal


def start(
    method: str, runs: Path, *more: str, stop: Stopping | None = None
) -> subprocess.Popen[str]:
    command = [*COMMANDS[method], *more, "--saving.runs", str(runs), "--machine.threads", "2"]
    code = ["-m", "crosstraj"]
    if stop:
        place, count, number = stop
        code = ["-c", STOPPER, place, str(count), str(int(number))]
    return subprocess.Popen(
        [sys.executable, *code, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait(processes: list[subprocess.Popen[str]], code: int = 0) -> None:
    """Two at a time is what two cores like; a pipe holds all that so short a run says."""
    for process in processes:
        said, _ = process.communicate()
        assert process.returncode == code, said


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each method that nothing interrupted."""
    runs = {method: tmp_path_factory.mktemp(method) for method in COMMANDS}
    wait([start(method, place) for method, place in runs.items()])
    return {method: only(place) for method, place in runs.items()}


# --- The same bytes


def test_a_run_has_its_rows_in_order(straight: dict[str, Path]) -> None:
    for run in straight.values():
        rows = read_rows(run / "metrics.jsonl")
        assert [row["row"] for row in rows] == ROWS
        assert [row["frames"] for row in rows] == [256, 512, 512, 768, 1024, 1024]
        episodes = read_rows(run / "episodes.jsonl")
        splits = [(row["frames"], row["split"]) for row in episodes]
        assert splits == [(n, s) for n in (512, 1024) for s in ("seen", "unseen") for _ in "12"]
        for row in rows[2::3]:
            for split in ("seen", "unseen"):
                where = (row["frames"], split)
                played = [e["score"] for e in episodes if (e["frames"], e["split"]) == where]
                assert row[f"{split}_return"] == np.mean(played)


def test_the_same_seed_gives_the_same_bytes_in_another_process(
    straight: dict[str, Path], tmp_path: Path
) -> None:
    wait([start(method, tmp_path / method) for method in COMMANDS])
    for method, run in straight.items():
        assert remains(only(tmp_path / method)) == remains(run)


def test_a_memory_gives_the_same_bytes_in_another_process_on_two_threads(tmp_path: Path) -> None:
    memory = ("--memory", "gru", "--memory-width", "32", "--frames", "512")
    wait([start("ctrl", tmp_path / place, *memory) for place in ("first", "second")])
    first, second = only(tmp_path / "first"), only(tmp_path / "second")
    assert read_config(first).threads == 2
    assert read_rows(first / "metrics.jsonl")[0]["memory_kl"] > 0
    assert remains(first) == remains(second)


@pytest.mark.parametrize("method", COMMANDS)
def test_another_seed_gives_other_bytes(
    method: str, straight: dict[str, Path], tmp_path: Path
) -> None:
    more = ("--seed", "1", "--frames", "256", "--machine.threads", "2")
    assert main([*COMMANDS[method], *more, "--saving.runs", str(tmp_path)]) == 0
    runs = (straight[method], only(tmp_path))
    first, other = (read_rows(run / "metrics.jsonl")[0] for run in runs)
    assert first["surrogate"] != other["surrogate"]
    weights = [run / "snapshots" / "step-256" / "weights.safetensors" for run in runs]
    assert weights[0].read_bytes() != weights[1].read_bytes()


def stop_and_go_on(method: str, runs: Path, stops: list[Stopping]) -> Iterator[None]:
    """Stop at each place in turn, in a new process each time, and then run to the end."""
    eager = ("--saving.checkpoint-seconds", "0")
    for stop in stops:
        process = start(method, runs, *eager, stop=stop)
        yield
        killed = stop[2] == signal.SIGKILL
        wait([process], -stop[2] if killed else 128 + stop[2])
    process = start(method, runs, *eager)
    yield
    wait([process])


def side_by_side(errands: list[Iterator[None]]) -> None:
    """One process of each errand at a time."""
    while errands:
        errands = [errand for errand in errands if next(errand, "done") != "done"]


def test_a_run_that_is_stopped_and_resumed_ends_with_the_same_bytes(
    straight: dict[str, Path], tmp_path: Path
) -> None:
    stops: list[Stopping] = [
        ("row", 1, signal.SIGTERM),  # after the first update: saved, then left
        ("row", 2, signal.SIGKILL),  # the first evaluation is written and not yet saved
        ("evaluation", 2, signal.SIGTERM),  # inside the second; the first was done again
    ]
    side_by_side([stop_and_go_on(method, tmp_path / method, stops) for method in COMMANDS])
    for method, run in straight.items():
        assert remains(only(tmp_path / method)) == remains(run)


ANYWHERE: list[Stopping] = [
    (place, count, number)
    for place, last in (("row", 6), ("evaluation", 2))
    for count in range(1, last + 1)
    for number in (signal.SIGTERM, signal.SIGKILL)
    if (place, count, number) != ("row", 6, signal.SIGTERM)  # too late: the run just ends
]


@pytest.mark.slow
@pytest.mark.parametrize("stop", ANYWHERE, ids=lambda stop: f"{stop[0]}{stop[1]}-{stop[2].name}")
def test_a_run_can_be_stopped_anywhere(
    straight: dict[str, Path], tmp_path: Path, stop: Stopping
) -> None:
    side_by_side([stop_and_go_on(method, tmp_path / method, [stop]) for method in COMMANDS])
    for method, run in straight.items():
        assert remains(only(tmp_path / method)) == remains(run)


@pytest.mark.slow
def test_a_run_can_be_killed_again_and_again(straight: dict[str, Path], tmp_path: Path) -> None:
    # An update is saved, an evaluation alone is not. What each process has written when it dies:
    # 1 2 | 2 e | e 3 | e 3 4 | 4 e, and the last one writes that e again.
    stops: list[Stopping] = [("row", rows, signal.SIGKILL) for rows in (2, 2, 2, 3, 2)]
    side_by_side([stop_and_go_on(method, tmp_path / method, stops) for method in COMMANDS])
    for method, run in straight.items():
        assert remains(only(tmp_path / method)) == remains(run)


# --- In this process, one thread


def here(*command: str, runs: Path) -> int:
    return main([*command, "--saving.runs", str(runs), "--machine.threads", "1"])


@pytest.mark.parametrize("method", METHODS)
def test_the_global_generators_are_not_touched(method: str, tmp_path: Path) -> None:
    def states() -> tuple[Any, Any, list[int]]:
        kind, keys, *rest = np.random.get_state()  # noqa: NPY002  # that is the point
        return random.getstate(), (kind, list(keys), rest), torch.get_rng_state().tolist()

    config = small(method, "default", frames=512, saving=SavingConfig(runs=tmp_path))
    before = states()
    with open_run(config, display := Plain(512)) as run:
        loop.train(config, run, display, Stop())
    assert states() == before


def test_a_finished_run_says_so_and_changes_nothing(
    trained: Trained, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained.directory, tmp_path / trained.directory.name)
    before = tree(tmp_path)
    capfd.readouterr()
    assert here(*trained.command, runs=tmp_path) == 0
    out, error = capfd.readouterr()
    assert f"{trained.directory.name} is done; a larger --frames would extend it" in error
    assert "ppo on starpilot after 512 frames" in out
    assert tree(tmp_path) == before


def test_a_larger_budget_extends_a_finished_run(
    trained: Trained, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / trained.directory.name
    shutil.copytree(trained.directory, run)
    assert here(*trained.command, "--frames", "700", runs=tmp_path) == 0
    assert "resuming" in capfd.readouterr().err
    before, after = (read_rows(path / "metrics.jsonl") for path in (trained.directory, run))
    assert after[: len(before)] == before
    assert [(row["row"], row["frames"]) for row in after[len(before) :]] == [
        ("update", 768),
        ("evaluation", 768),
    ]
    assert json.loads((run / "summary.json").read_text())["frames"] == 768
    assert json.loads((run / "config.json").read_text())["config"]["frames"] == 700


def test_a_smaller_budget_is_a_finished_run(trained: Trained, tmp_path: Path) -> None:
    shutil.copytree(trained.directory, tmp_path / trained.directory.name)
    before = tree(tmp_path)
    assert here(*trained.command, "--frames", "300", runs=tmp_path) == 0
    assert tree(tmp_path) == before


# A game that is not ours, cut short by a time limit so that an evaluation takes a moment.
GAME = "short_pong:Short-v0"
PONG = """
import ale_py, gymnasium
from gymnasium.wrappers import TimeLimit

gymnasium.register_envs(ale_py)
gymnasium.register(
    "Short-v0", entry_point=lambda **options: TimeLimit(gymnasium.make("ALE/Pong-v5", **options), 6)
)
"""


@pytest.mark.parametrize("method", [name for name in METHODS if name != "pse"])  # plays levels
def test_an_atari_game_trains_and_resumes_with_new_episodes(
    method: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop_after: Callable[[int], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "short_pong.py").write_text(PONG)
    monkeypatch.syspath_prepend(tmp_path)
    sizes = ("--env", GAME, "--envs", "2", "--rollout-steps", "16", "--frames", "64")
    command = ("train", "--method", method, *BOTH, *sizes)
    runs = tmp_path / "runs"
    stop_after(1)
    assert here(*command, runs=runs) == 143
    capfd.readouterr()
    assert here(*command, runs=runs) == 0
    error = capfd.readouterr().err
    assert "at 32 frames" in error
    assert f"{GAME} cannot save its state: resuming with new episodes" in error
    rows = read_rows(only(runs) / "metrics.jsonl")
    assert [(row["row"], row["frames"]) for row in rows] == [
        ("update", 32),
        ("update", 64),
        ("evaluation", 64),
    ]
    episodes = read_rows(only(runs) / "episodes.jsonl")
    assert [(e["level"], e["length"], e["outcome"]) for e in episodes] == [(-1, 6, "timeout")] * 4


def test_whatever_of_the_machine_changes_rounding_is_a_fact() -> None:
    changes: dict[str, Any] = {"device": "cuda", "piece": 7, "kernels": "native"}
    changes |= {"low_memory": True, "compile": True, "precision": "bf16"}
    unseen = {"threads", "compile"}  # machine_facts has them
    assert changes.keys() | unseen | {"env_processes"} == {
        field.name for field in fields(MachineConfig)
    }
    usual = MachineConfig().rounding()
    assert len(usual) == len(changes.keys() - unseen)
    for name in changes.keys() - unseen:
        assert replace(MachineConfig(), **{name: changes[name]}).rounding() != usual


def test_running_returns_of_episodes_that_are_no_more_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short_pong.py").write_text(PONG)
    monkeypatch.syspath_prepend(tmp_path)
    for game, expected in (("bigfish", 5.0), (GAME, 0.0)):
        config = replace(plain("ppo"), env=game, envs=2, rollout_steps=16)
        training = Training(config)
        training.normaliser.returns[:] = 5.0
        training.collector.episode_return[:] = 5.0
        saved = checkpoint.write(tmp_path, 0, training.state_dict(), {})
        training.collector.episode_return[:] = math.nan  # what a rollback may find
        training.load_state_dict(checkpoint.read(saved)[0])
        assert training.normaliser.returns.tolist() == [expected, expected]
        assert training.collector.episode_return.tolist() == [expected, expected]


ROOMS = "crosstraj/MiniGrid-MultiRoom-N2-S4-v0"


def test_minigrid_trains_on_its_levels_and_resumes_exactly(
    tmp_path: Path,
    stop_after: Callable[[int], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("minigrid")
    sizes = ("--env", ROOMS, "--levels", "3", "--envs", "2", "--rollout-steps", "50")
    command = (*COMMANDS["ctrl"], *sizes, "--frames", "300", "--evaluation.every", "100")
    assert here(*command, runs=tmp_path / "straight") == 0
    stop_after(3)  # after the first evaluation, in the midst of episodes
    assert here(*command, runs=tmp_path / "stopped") == 143
    capfd.readouterr()
    assert here(*command, "--machine.env-processes", runs=tmp_path / "stopped") == 0
    error = capfd.readouterr().err
    assert "resuming" in error
    assert "new episodes" not in error
    straight, stopped = only(tmp_path / "straight"), only(tmp_path / "stopped")
    assert remains(stopped) == remains(straight)
    episodes = read_rows(straight / "episodes.jsonl")
    assert {row["level"] in range(3) for row in episodes if row["split"] == "seen"} == {True}
    assert {row["level"] >= 3 for row in episodes if row["split"] == "unseen"} == {True}


CORRIDOR = "tests.envs.corridors:Corridor-v0"
CHOSEN = ("--replay.levels", "--replay.temperature", "0.5", "--frames", "1280")


@pytest.mark.parametrize(
    "more",
    [
        ("--env", "bossfight", "--levels", "12", "--frame-stack", "2"),
        ("--env", CORRIDOR, "--levels", "4", "--envs", "4", "--rollout-steps", "64"),
    ],
    ids=["procgen", "gymnasium"],
)
def test_replayed_levels_are_chosen_alike_after_a_stop(
    more: tuple[str, ...], tmp_path: Path, stop_after: Callable[[int], None]
) -> None:
    command = (*COMMANDS["ppo"], *more, *CHOSEN)
    assert here(*command, runs=tmp_path / "straight") == 0
    stop_after(2)
    assert here(*command, runs=tmp_path / "stopped") == 143
    assert here(*command, runs=tmp_path / "stopped") == 0
    straight, stopped = only(tmp_path / "straight"), only(tmp_path / "stopped")
    assert remains(stopped) == remains(straight)
    rows = [row for row in read_rows(straight / "metrics.jsonl") if row["row"] == "update"]
    shares = [row["replayed"] for row in rows if "replayed" in row]
    assert shares[0] == 0  # no level has a score
    assert shares[-1] > 0
    assert all(row["effective_levels"] >= 1 for row in rows)


@pytest.mark.parametrize("method", ["ctrl", "daac", "diayn"])
def test_replay_plays_training_levels_alone_and_scores_each_step(method: str) -> None:
    procgen = ProcgenConfig(first_level=40, train_levels=6)
    config = small(method, "default", procgen=procgen, replay=ReplayConfig(levels=True), envs=4)
    training = Training(config)
    assert training.replay is not None
    played: set[int] = set()
    for _ in range(4):
        metrics = loop.learn(training)
        played |= set(training.collector.rollout.level.flatten().tolist())
        assert set((torch.nonzero(training.replay.seen)[:, 0] + 40).tolist()) == played
        assert metrics.keys() <= GLOSSARY.keys()
    assert played <= set(range(40, 46))
    assert len(played) > 2


def test_an_environment_that_cannot_be_repeated_says_so_and_keeps_to_its_levels(
    tmp_path: Path, stop_after: Callable[[int], None], capfd: pytest.CaptureFixture[str]
) -> None:
    game = "tests.envs.corridors:Restless-v0"
    sizes = ("--env", game, "--levels", "3", "--envs", "4", "--rollout-steps", "15")
    command = (*COMMANDS["ppo"], *sizes, "--frames", "120")
    stop_after(1)
    assert here(*command, runs=tmp_path) == 143
    capfd.readouterr()
    assert here(*command, runs=tmp_path) == 0
    error = capfd.readouterr().err
    assert f"{game} cannot save its state: resuming with new episodes" in error


def test_stacked_frames_train_and_resume(tmp_path: Path, stop_after: Callable[[int], None]) -> None:
    command = (*COMMANDS["ppo"], "--frame-stack", "2", "--frames", "512")
    assert here(*command, runs=tmp_path / "straight") == 0
    stop_after(1)
    assert here(*command, runs=tmp_path / "stopped") == 143
    assert here(*command, runs=tmp_path / "stopped") == 0
    straight, stopped = only(tmp_path / "straight"), only(tmp_path / "stopped")
    assert remains(stopped) == remains(straight)
    weights, frames = read_weights(straight)
    assert frames == 512
    assert weights["agent"]["encoder.stages.0.weight"].shape[1] == 6  # two frames of three colours


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_of_every_method_learns_from_a_rollout(name: str, method: str) -> None:
    config = small(method, name)
    assert (config.method, config.preset) == (method, name)
    training = Training(config)
    learner = training.learner
    before = {key: tensor.clone() for key, tensor in learner.flat_weights().items()}
    metrics = loop.learn(training)
    assert all(np.isfinite(value) for value in metrics.values())
    assert metrics.keys() <= GLOSSARY.keys()  # no figure without words
    moved = {key for key, tensor in learner.flat_weights().items() if (tensor != before[key]).any()}
    # Every part learns, nothing is left out of an optimiser; but in the released code theta is, and
    # Proto-RL's queue is for its own reward alone.
    released = method == "ctrl" and name == "release"
    still = {key for key in before if released and "theta" in key}
    if not config.schedule[0].intrinsic:
        still.add("objective/queue")
    still |= {"agent/auxiliary.weight", "agent/auxiliary.bias"}  # PPG's: after 32 rollouts
    still.add("objective/returns")  # DrAC's: a choice is judged by the rollout that follows it
    assert moved == set(before) - still


# --- The loop as text


def test_the_loop_fits_on_two_screens_and_names_no_method() -> None:
    source = Path(loop.__file__).read_text()
    assert len(source.splitlines()) <= 120
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    names = [token.string for token in tokens if token.type == tokenize.NAME]
    strings = [token.string for token in tokens if token.type == tokenize.STRING]
    words = [word.lower() for word in names + strings if not word.startswith('"""')]
    words = [word.replace("watch", "") for word in words]  # has ATC in it by chance
    assert "train" in words  # it is being read
    assert not [word for word in words for name in METHODS if name in word]
