"""Experts: one run per level, found again, held against random play, and read without pickle."""

import json
import os
import pickle
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosstraj.cli import main
from crosstraj.config import Config, preset
from crosstraj.envs import make_envs
from crosstraj.errors import BadInput
from crosstraj.evaluate import Examiner
from crosstraj.experts import INDEX, Expert, Experts, make_source, read_experts, read_index
from crosstraj.learner import Learner
from crosstraj.logs import Log, read_rows
from crosstraj.objectives.pse import PSEConfig
from crosstraj.pretrain import RandomPlayer, random_play
from crosstraj.randomness import Streams
from crosstraj.trained import read_config, read_weights
from crosstraj.training import Training
from tests.conftest import TINY
from tests.test_train import remains, tree

LEVELS = 4
SIZES = ("--frames", "256", *TINY, "--machine.threads", "1")
COMMAND = ("experts", "--levels", str(LEVELS), *SIZES)
PRETRAINED = (
    *("train", "--method", "pse", *TINY, "--frames", "512", "--machine.threads", "1"),
    *("--objective.policies", "pretrained", "--objective.levels", str(LEVELS)),
    *("--objective.pairs", "2", "--objective.steps", "8"),
)


@pytest.fixture(scope="module")
def trained_experts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four experts of one update each; to be read only."""
    threads = torch.get_num_threads()
    place = tmp_path_factory.mktemp("experts")
    assert main([*COMMAND, "--saving.runs", str(place)]) == 0
    torch.set_num_threads(threads)
    return place


@pytest.fixture
def copied(trained_experts: Path, tmp_path: Path) -> Path:
    place = tmp_path / "experts"
    shutil.copytree(trained_experts, place)
    return place


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ask the run in this process to stop after some rows of metrics."""
    write = Log.write

    def arm(rows: int) -> None:
        left = iter([False] * (rows - 1) + [True])

        def stopping_write(log: Log, row: dict[str, Any]) -> None:
            write(log, row)
            if log.path.name == "metrics.jsonl" and next(left, False):
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(Log, "write", stopping_write)

    return arm


def index_of(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "starpilot" / INDEX).read_text())
    return found


# --- Training them


def test_each_level_has_a_run_of_its_own_and_a_row(trained_experts: Path) -> None:
    rows = index_of(trained_experts)["experts"]
    assert [row["level"] for row in rows] == [0, 1, 2, 3]
    assert len({row["run"] for row in rows}) == LEVELS
    for row in rows:
        run = trained_experts / "starpilot" / row["run"]
        config = read_config(run)
        assert (config.procgen.first_level, config.procgen.train_levels) == (row["level"], 1)
        assert (config.method, config.frames) == ("ppo", 256)
        played = [e for e in read_rows(run / "episodes.jsonl") if e["split"] == "seen"]
        assert {e["level"] for e in played} == {row["level"]}
        scores = [e["score"] for e in played]
        assert row["score"] == np.mean(scores)
        assert row["stderr"] == pytest.approx(np.std(scores, ddof=1) / np.sqrt(len(scores)))
        assert row["frames"] == 256


def test_the_defaults_are_the_papers(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["experts", "--help"])
    said = re.sub(r"[\s│]+", " ", capfd.readouterr().out)
    assert "default: 40" in said
    assert "default: 500000" in said


def test_the_same_command_finds_its_experts_and_shows_them(
    copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = tree(copied)
    assert main([*COMMAND, "--saving.runs", str(copied)]) == 0
    out = capfd.readouterr().out
    assert tree(copied) == before
    for row in index_of(copied)["experts"]:
        assert re.search(rf"{row['level']} .* 256 .* {row['score']:.2f} \({row['stderr']:.2f}", out)
        assert f"{row['random_score']:.2f} ({row['random_stderr']:.2f}" in out
    assert re.search(r"[0-4] of 4 experts are", out)
    assert str(copied / "starpilot" / INDEX)[-12:] in out


def test_more_levels_train_only_what_is_new_and_fewer_are_done(
    copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = {name: b for name, b in tree(copied).items() if not name.endswith(INDEX)}
    fewer = [*COMMAND, "--levels", "2", "--saving.runs", str(copied)]
    assert main(fewer) == 0
    assert "of 2 experts" in capfd.readouterr().out
    assert main([*COMMAND, "--levels", "5", "--saving.runs", str(copied)]) == 0
    assert "expert 5 of 5: starpilot, level 4" in capfd.readouterr().err
    after = tree(copied)
    assert {name: after[name] for name in before} == before
    assert [row["level"] for row in index_of(copied)["experts"]] == [0, 1, 2, 3, 4]


def test_experts_that_are_stopped_go_on_and_end_with_the_same_bytes(
    trained_experts: Path, tmp_path: Path, stop_after: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [*COMMAND, "--levels", "2", "--frames", "512", "--saving.runs"]
    stop_after(3)  # the first is done (update, evaluation), the second is not evaluated yet
    more = [*COMMAND, "--levels", "2", "--saving.runs"]
    assert main([*more, str(tmp_path)]) == 128 + signal.SIGTERM
    assert [row["level"] for row in index_of(tmp_path)["experts"]] == [0]
    assert main([*more, str(tmp_path)]) == 0
    assert "resuming" in capfd.readouterr().err
    straight, stopped = (index_of(place)["experts"][:2] for place in (trained_experts, tmp_path))
    assert straight == stopped
    for row in straight:
        runs = [place / "starpilot" / row["run"] for place in (trained_experts, tmp_path)]
        assert remains(runs[0]) == remains(runs[1])
    assert main([*command, str(tmp_path)]) == 0  # a larger budget trains the same ones further
    assert [row["frames"] for row in index_of(tmp_path)["experts"]] == [512, 512]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--method", "ctrl"), "method=ctrl: experts are trained with ppo"),
        (("--levels", "0"), "levels=0: at least 1 expert is needed"),
        (("--env", "ALE/Pong-v5"), "experts are for Procgen's games"),
        (("--env", "starpilt"), "did you mean 'starpilot'?"),
        (("--encoder", "impala"), "encoder is 'laptop' there, 'impala' here"),
        (("--seed", "3"), "seed is 0 there, 3 here"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    trained_experts: Path,
    words: tuple[str, str],
    sentence: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = tree(trained_experts)
    assert main([*COMMAND, *words, "--saving.runs", str(trained_experts)]) == 2
    assert sentence in capfd.readouterr().err
    assert tree(trained_experts) == before


# --- Against random play


def expert(score: float, stderr: float | None, random: float, error: float | None) -> Expert:
    return Expert(0, "run", 1, score, stderr, random, error)


def test_above_random_means_by_two_standard_errors_of_the_difference() -> None:
    assert expert(11.0, 3.0, 0.0, 4.0).above_random  # the difference has an error of 5
    assert not expert(9.9, 3.0, 0.0, 4.0).above_random
    assert expert(1.0, 0.0, 0.0, 0.0).above_random
    assert not expert(0.0, 0.0, 0.0, 0.0).above_random
    assert not expert(9.0, None, 0.0, 0.1).above_random  # of one episode nothing is known


def test_random_play_is_on_the_experts_level_with_every_action_alike(
    trained_experts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = index_of(trained_experts)["experts"][2]
    config = read_config(trained_experts / "starpilot" / row["run"])
    seen: list[Any] = []
    pool = Examiner.pool

    def watched(examiner: Examiner, split: str) -> Any:
        seen.append((split, made := pool(examiner, split)))
        return made

    monkeypatch.setattr(Examiner, "pool", watched)
    assert random_play(config) == (row["random_score"], row["random_stderr"])
    ((split, made),) = seen
    assert split == "seen"
    assert made.envs.num_envs == config.evaluation.envs
    rng = torch.Generator().manual_seed(0)
    action = RandomPlayer(15).act(torch.zeros(15_000, 1), torch.zeros(0), rng).action
    counts = torch.bincount(action, minlength=15)
    assert len(counts) == 15
    assert (counts - 1000).abs().max() < 150


# --- Reading them


def wanting(place: Path, **changes: Any) -> Config:
    objective = PSEConfig(
        policies="pretrained", experts=str(place), levels=LEVELS, pairs=2, steps=8
    )
    config = replace(preset("pse", "default"), env="starpilot", encoder="laptop")
    return replace(config, objective=objective, **changes)


@pytest.fixture(scope="module")
def envs() -> Any:
    config = preset("ppo", "default")
    return make_envs("starpilot", 1, levels="train", procgen=config.procgen, seed=0)


def test_an_expert_gives_the_probabilities_that_its_run_acts_with(
    trained_experts: Path, envs: Any
) -> None:
    experts = read_experts(wanting(trained_experts), range(LEVELS), envs)
    frames = torch.randint(
        256, (5, 64, 64, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    for row in index_of(trained_experts)["experts"]:
        run = trained_experts / "starpilot" / row["run"]
        learner = Learner(read_config(run), envs, Streams(7))
        learner.load_weights(read_weights(run)[0])
        with torch.no_grad():
            log_probs, _ = learner.agent.heads(learner.agent.encoder(frames), torch.zeros(5, 0))
        given = experts(row["level"], frames)
        torch.testing.assert_close(given, log_probs.exp())
        torch.testing.assert_close(given.sum(1), torch.ones(5))
    assert not torch.equal(experts(0, frames), experts(1, frames))
    assert all(not p.requires_grad for a in experts.agents.values() for p in a.parameters())


def test_nothing_is_unpickled(
    trained_experts: Path, envs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was read")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    assert read_experts(wanting(trained_experts), range(LEVELS), envs).agents.keys() == {0, 1, 2, 3}


def test_the_digest_tells_experts_apart(trained_experts: Path, envs: Any) -> None:
    config = wanting(trained_experts)
    digest = read_experts(config, range(LEVELS), envs).digest
    again = read_experts(config, range(LEVELS), envs)
    assert again.digest == digest
    with torch.no_grad():
        again.agents[2].value.bias += 1
    assert Experts(again.agents, again.device).digest != digest
    swapped = again.agents | {0: again.agents[1], 1: again.agents[0]}
    assert Experts(swapped, again.device).digest != Experts(again.agents, again.device).digest


def test_missing_experts_are_one_sentence_with_the_command_that_trains_them(
    trained_experts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = ("--saving.runs", str(tmp_path / "runs"))
    nowhere = (*PRETRAINED, *runs, "--objective.experts", str(tmp_path / "nowhere"))
    assert main([*nowhere]) == 2
    error = capfd.readouterr().err
    assert "has experts for 0 levels, and levels 0 to 3 are to be played" in error
    assert "`crosstraj experts --env starpilot --levels 4`" in error
    more = (*PRETRAINED, *runs, "--objective.experts", str(trained_experts))
    assert main([*more, "--objective.levels", "6"]) == 2
    error = capfd.readouterr().err
    assert "has experts for 4 levels" in error
    assert "2 are missing, the first for level 4" in error
    assert "Traceback" not in error


def damaged(place: Path, text: str) -> None:
    (place / "starpilot" / INDEX).write_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"experts": [{"level": 0}], "values": {}}',
        '{"experts": [3], "values": {}}',
        '{"experts": []}',
    ],
)
def test_a_damaged_index_is_one_sentence(copied: Path, text: str) -> None:
    damaged(copied, text)
    with pytest.raises(BadInput, match=r"experts\.json is damaged"):
        read_index(copied / "starpilot")


@pytest.mark.parametrize("run", ["../elsewhere", "/etc", "..", ""])
def test_an_index_that_points_elsewhere_is_refused(copied: Path, run: str) -> None:
    body = index_of(copied)
    body["experts"][1]["run"] = run
    damaged(copied, json.dumps(body))
    with pytest.raises(BadInput, match="is damaged"):
        read_index(copied / "starpilot")


def test_broken_weights_and_experts_of_something_else_are_refused(copied: Path, envs: Any) -> None:
    config, place = wanting(copied), copied / "starpilot"
    body = index_of(copied)
    procgen = replace(config.procgen, mode="hard")
    with pytest.raises(BadInput, match=r"trained with procgen=.*mode='easy'.*mode='hard'"):
        read_experts(replace(config, procgen=procgen), range(LEVELS), envs)
    with pytest.raises(BadInput, match="trained with frame_stack=1, and 2 is needed"):
        read_experts(replace(config, frame_stack=2), range(LEVELS), envs)
    swapped = json.loads(json.dumps(body))
    swapped["experts"][0]["run"] = body["experts"][1]["run"]
    damaged(copied, json.dumps(swapped))
    with pytest.raises(BadInput, match="the expert of level 0, was trained with procgen="):
        read_experts(config, range(LEVELS), envs)
    damaged(copied, json.dumps(body))
    (weights,) = (place / body["experts"][3]["run"]).glob("checkpoints/*/weights.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(BadInput, match="has no valid checkpoint"):
        read_experts(config, range(LEVELS), envs)
    shutil.rmtree(place / body["experts"][2]["run"])
    with pytest.raises(BadInput, match="is not a run directory"):
        read_experts(config, range(LEVELS), envs)


# --- Playing with them


def test_levels_are_played_by_their_experts_and_not_by_the_same_actions(
    trained_experts: Path, envs: Any
) -> None:
    source = make_source(wanting(trained_experts), envs)
    assert source is not None
    assert not source.same_actions
    assert list(source.levels) == [0, 1, 2, 3]
    stretches = source.play(torch.Generator().manual_seed(0))
    assert stretches
    for stretch in stretches:
        for side, level in enumerate(stretch.levels):
            expected = source.policies(level, stretch.frames[side])
            torch.testing.assert_close(stretch.policy[side], expected, rtol=1e-4, atol=1e-6)


def test_a_run_with_experts_resumes_identically_and_refuses_other_experts(
    copied: Path, tmp_path: Path, stop_after: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(place: str) -> int:
        where = ("--saving.runs", str(tmp_path / place), "--objective.experts", str(copied))
        return main([*PRETRAINED, *where])

    assert run("straight") == 0
    stop_after(1)
    assert run("stopped") == 128 + signal.SIGTERM
    shutil.copytree(tmp_path / "stopped", tmp_path / "cheated")
    assert run("stopped") == 0
    (straight,), (stopped,) = ((tmp_path / p).iterdir() for p in ("straight", "stopped"))
    assert remains(stopped) == remains(straight)
    rows = read_rows(straight / "metrics.jsonl")
    assert [row.get("extra_frames") for row in rows] == [32, 64, None]  # 2 pairs x 2 x 8 steps
    assert [row["frames"] for row in rows] == [256, 512, 512]
    assert json.loads((straight / "summary.json").read_text())["extra_frames"] == 64

    further = (*COMMAND, "--levels", "1", "--frames", "512", "--saving.runs", str(copied))
    assert main([*further]) == 0
    capfd.readouterr()
    assert run("cheated") == 2
    assert "not those this run was saved with" in capfd.readouterr().err


def test_evaluating_needs_no_experts(copied: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    where = ("--saving.runs", str(runs), "--objective.experts", str(copied), "--frames", "256")
    assert main([*PRETRAINED, *where]) == 0
    shutil.rmtree(copied)
    (run,) = runs.iterdir()
    assert main(["evaluate", str(run), "--episodes", "2", "--envs", "2"]) == 0


def test_methods_without_play_of_their_own_have_no_source() -> None:
    config = replace(preset("ppo", "default"), env="starpilot", envs=2, rollout_steps=8)
    training = Training(config)
    assert training.source is None
    assert training.state_dict()["source"] == {}
