"""Experts: one run per level, found again, held against random play, and read without pickle."""

import json
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

from crosstraj.cli.experts import expert_preset
from crosstraj.cli.main import main
from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.envs import make_envs
from crosstraj.errors import BadInput
from crosstraj.experiments.expert_runs import RandomPlayer, random_play, table_of
from crosstraj.learning.evaluation import Examiner
from crosstraj.learning.experts import (
    INDEX,
    Expert,
    Experts,
    check_strength,
    make_source,
    read_experts,
    read_index,
)
from crosstraj.learning.load import load, place_of, read_config
from crosstraj.learning.state import Training
from crosstraj.objectives.pse import PSEConfig
from crosstraj.runs.log import read_rows
from tests.conftest import TINY
from tests.helpers import remains, tree

LEVELS = 4
SIZES = ("--frames", "256", *TINY, "--machine.threads", "1")
COMMAND = ("experts", "--levels", str(LEVELS), *SIZES)
PRETRAINED = (
    *("train", "--method", "pse", *TINY, "--frames", "512", "--machine.threads", "1"),
    *("--objective.policies", "pretrained", "--objective.levels", str(LEVELS)),
    *("--objective.pairs", "2", "--objective.steps", "8"),
    "--objective.accept-weak-experts",  # one update makes no expert
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


def optimiser_steps(config: Config) -> int:
    updates = -(-config.frames // config.rollout_frames)
    return updates * config.policy.epochs * config.policy.minibatches


def test_the_default_budget_makes_thousands_of_steps_and_the_paper_has_its_own() -> None:
    assert optimiser_steps(expert_preset("default")) == 5880
    assert optimiser_steps(expert_preset("paper")) == 496
    assert expert_preset("default").frames == expert_preset("paper").frames == 500_000


def test_experts_with_a_memory_are_refused_before_they_are_trained(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--memory", "gru", "--policy.stretch", "32", "--saving.runs", str(tmp_path / "place")]
    assert main(["experts", "--env", "starpilot", *words]) == 2
    assert "memory=gru: experts play levels for pse" in capfd.readouterr().err
    assert not (tmp_path / "place").exists()


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


def test_above_random_means_that_intervals_of_two_standard_errors_are_apart() -> None:
    assert expert(14.1, 3.0, 0.0, 4.0).above_random  # 8.1 at least, against 8 at most
    assert not expert(13.9, 3.0, 0.0, 4.0).above_random
    assert expert(1.0, 0.0, 0.0, 0.0).above_random
    assert not expert(0.0, 0.0, 0.0, 0.0).above_random
    assert not expert(9.0, None, 0.0, 0.1).above_random  # of one episode nothing is known
    assert not Expert(0, "run", 1, 9.0, 0.1).above_random  # random play was not measured


def test_an_expert_that_has_all_that_the_game_has_is_good_enough_though_random_play_is_near() -> (
    None
):
    """As on some of coinrun's levels, where more training could not take it further."""
    config = replace(plain("pse"), env="coinrun")
    perfect, place = expert(10.0, 0.0, 9.6, 0.2), Path("experts/coinrun")
    assert not perfect.above_random
    check_strength([perfect, expert(10.0, 0.0, 10.0, 0.0)], place, config)
    weak = (expert(9.9, 0.1, 9.6, 0.2), expert(10.0, None, 9.6, 0.2))  # one episode: no error
    for one in weak:
        with pytest.raises(BadInput, match="1 of 2 experts are not clearly above random play"):
            check_strength([perfect, one], place, config)
    hard = replace(config, procgen=replace(config.procgen, mode="hard"))
    with pytest.raises(BadInput, match="1 of 1 experts"):
        check_strength([perfect], place, hard)  # whose highest returns we do not know
    last = table_of(config, [perfect, expert(12.0, 0.1, 1.0, 0.1), weak[0]]).columns[-1]
    assert list(last.cells) == ["has all", "yes", "no"]


def scored(place: Path, rows: dict[int, dict[str, float | None]]) -> None:
    """Give experts other figures in their index; those that are not named are good."""
    good = {"score": 9.0, "stderr": 0.1, "random_score": 1.0, "random_stderr": 0.1}
    body = index_of(place)
    for row in body["experts"]:
        row |= good | rows.get(row["level"], {})
    damaged(place, json.dumps(body))


def refused(place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], flag: str) -> str:
    """What a run with these experts says when it is refused; empty when it is not."""
    capfd.readouterr()
    where = ("--saving.runs", str(tmp_path / "runs"), "--objective.experts", str(place))
    code = main([*PRETRAINED, "--objective.accept-weak-experts", flag, *where, "--frames", "256"])
    assert code in (0, 2)
    error = re.sub(r"\s+", " ", capfd.readouterr().err)
    assert "Traceback" not in error
    return error if code else ""


def test_experts_that_are_not_clearly_above_random_play_are_refused_and_can_be_accepted(
    copied: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    weak = {"score": 1.3, "stderr": 0.1, "random_score": 1.0, "random_stderr": 0.1}
    scored(copied, {2: weak, 3: {"score": 0.25, "stderr": None}})
    error = refused(copied, tmp_path, capfd, "False")
    assert "2 of 4 experts are not clearly above random play on their level" in error
    assert "level 2: 1.30 (0.10), random play 1.00 (0.10)" in error
    assert "level 3: 0.25 (-), random play 1.00 (0.10)" in error
    assert "mean less two standard errors must be above random play's plus two" in error
    assert "train them beyond 256 frames with `crosstraj experts --env starpilot --levels" in error
    assert "--objective.accept-weak-experts" in error
    (run,) = (tmp_path / "runs").iterdir()
    assert not read_rows(run / "metrics.jsonl")  # nothing was learnt from them
    assert not refused(copied, tmp_path, capfd, "True")
    scored(copied, {2: weak | {"score": 1.41}})
    assert not refused(copied, tmp_path / "good", capfd, "False")


def test_weak_experts_of_levels_that_are_not_played_do_not_matter(copied: Path, envs: Any) -> None:
    scored(copied, {3: {"score": 0.0}})
    config = wanting(copied)
    config = replace(config, objective=replace(config.objective, accept_weak_experts=False))
    assert len(experts_of(config, range(3)).agents) == 3
    with pytest.raises(BadInput, match="1 of 4 experts are not clearly above random"):
        experts_of(config, range(LEVELS))


def test_experts_of_a_file_without_random_play_are_refused_until_they_are_measured(
    copied: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before, body = index_of(copied), index_of(copied)
    for row in body["experts"]:
        del row["random_score"], row["random_stderr"], row["above_random"]
    damaged(copied, json.dumps(body))
    error = refused(copied, tmp_path, capfd, "False")
    assert "4 of 4 experts are not clearly above random play" in error
    assert "random play not measured" in error
    assert "measure them with `crosstraj experts --env starpilot --levels 4`" in error
    assert not refused(copied, tmp_path, capfd, "True")
    assert main([*COMMAND, "--saving.runs", str(copied)]) == 0  # measures, and trains nothing
    assert index_of(copied)["experts"] == before["experts"]


def test_accepting_weak_experts_does_not_make_another_run(trained_experts: Path) -> None:
    config = wanting(trained_experts)
    other = replace(config, objective=replace(config.objective, accept_weak_experts=False))
    assert place_of(config) == place_of(other)


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


def experts_of(config: Config, levels: range) -> Experts:
    assert isinstance(config.objective, PSEConfig)
    weak = config.objective.accept_weak_experts
    return read_experts(config, levels, Path(config.objective.experts), accept_weak=weak)


def wanting(place: Path, **changes: Any) -> Config:
    objective = PSEConfig(
        policies="pretrained",
        experts=str(place),
        accept_weak_experts=True,
        levels=LEVELS,
        pairs=2,
        steps=8,
    )
    config = replace(plain("pse"), env="starpilot", encoder="laptop")
    return replace(config, objective=objective, **changes)


@pytest.fixture(scope="module")
def envs() -> Any:
    config = plain("ppo")
    return make_envs("starpilot", 1, levels="train", procgen=config.procgen, seed=0)


def test_an_expert_gives_the_probabilities_that_its_run_acts_with(
    trained_experts: Path, envs: Any
) -> None:
    experts = experts_of(wanting(trained_experts), range(LEVELS))
    frames = torch.randint(
        256, (5, 64, 64, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    for row in index_of(trained_experts)["experts"]:
        run = trained_experts / "starpilot" / row["run"]
        agent = load(run).agent
        with torch.no_grad():
            log_probs, _ = agent.heads(agent.encoder(frames), torch.zeros(5, 0))
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
    assert experts_of(wanting(trained_experts), range(LEVELS)).agents.keys() == {0, 1, 2, 3}


def test_the_digest_tells_experts_apart(trained_experts: Path, envs: Any) -> None:
    config = wanting(trained_experts)
    digest = experts_of(config, range(LEVELS)).digest
    again = experts_of(config, range(LEVELS))
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
        '{"experts": [{"level": 0, "run": "a", "frames": 1, "score": "high", "stderr": 1}],'
        ' "values": {}}',
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
        experts_of(replace(config, procgen=procgen), range(LEVELS))
    with pytest.raises(BadInput, match="trained with frame_stack=1, and 2 is needed"):
        experts_of(replace(config, frame_stack=2), range(LEVELS))
    swapped = json.loads(json.dumps(body))
    swapped["experts"][0]["run"] = body["experts"][1]["run"]
    damaged(copied, json.dumps(swapped))
    with pytest.raises(BadInput, match="the expert of level 0, was trained with procgen="):
        experts_of(config, range(LEVELS))
    damaged(copied, json.dumps(body))
    (weights,) = (place / body["experts"][3]["run"]).glob("checkpoints/*/weights.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(BadInput, match="has no valid checkpoint"):
        experts_of(config, range(LEVELS))
    shutil.rmtree(place / body["experts"][2]["run"])
    with pytest.raises(BadInput, match="is not a run directory"):
        experts_of(config, range(LEVELS))


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
    config = replace(plain("ppo"), env="starpilot", envs=2, rollout_steps=8)
    training = Training(config)
    assert training.source is None
    assert training.state_dict()["source"] == {}
