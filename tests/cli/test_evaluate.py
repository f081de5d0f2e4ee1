"""`crosstraj evaluate`: the very numbers of the run, and one sentence for what is no run."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.evaluate import print_results
from crosstraj.cli.main import main
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.learning.load import read_config
from crosstraj.runs.shipped import file_of
from tests.cli.answers import Capture, answer, refusal, tree
from tests.conftest import Trained


def test_evaluate_refuses_what_is_no_run(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "config.json").write_text('{"config": 3}')
    for place in (tmp_path, tmp_path / "nowhere"):
        assert f"{place} is not a run directory" in refusal(capfd, "evaluate", str(place))
    nowhere, empty = tmp_path / "nowhere", tmp_path / "empty"
    empty.mkdir()
    assert f"{nowhere} is not a run directory: nothing is there; `crosstraj runs` lists" in refusal(
        capfd, "analyse", str(nowhere)
    )
    assert "it has no config.json; `crosstraj" in refusal(capfd, "evaluate", str(empty))
    file = tmp_path / "config.json"
    assert f"{file} is not a kept run" in refusal(capfd, "evaluate", str(file))


def test_evaluate_refuses_a_run_without_a_checkpoint(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    shutil.copy(trained.directory / "config.json", tmp_path)
    assert f"{tmp_path} has no valid checkpoint" in refusal(capfd, "evaluate", str(tmp_path))


def test_evaluate_refuses_an_unknown_step_and_lists_those_there_are(
    trained: Trained, capfd: Capture
) -> None:
    said = refusal(capfd, "evaluate", str(trained.directory), "--step", "7")
    assert "no snapshot or checkpoint at 7 frames; it has 256, 512" in said


def test_evaluate_refuses_unequal_quotas(trained: Trained, capfd: Capture) -> None:
    said = refusal(capfd, "evaluate", str(trained.directory), "--episodes", "3", "--envs", "2")
    assert "episodes=3 is not a multiple of evaluation.envs=2" in said


def test_evaluate_takes_environments_that_divide_the_episodes(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[Config] = []

    def stop_there(config: Config, splits: Any) -> Any:
        played.append(config)
        raise BadInput("enough")

    monkeypatch.setattr("crosstraj.cli.evaluate.Examiner", stop_there)
    for episodes in ("128", "10", "130"):
        assert main(["evaluate", str(trained.directory), "--episodes", episodes]) == 2
    assert [config.evaluation.envs for config in played] == [64, 10, 26]


SAME = ("--episodes", "2", "--envs", "2", "--seed", "5")  # as the run itself was evaluated


def test_evaluate_prints_both_splits_as_the_run_itself_measured_them(
    trained: Trained, capfd: Capture
) -> None:
    before = tree(trained.directory)
    summary = json.loads((trained.directory / "summary.json").read_text())
    code, out, error = answer(capfd, "evaluate", str(trained.directory), *SAME)
    assert (code, error) == (0, "")
    assert "ppo on starpilot after 512 frames" in out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    low, high = 2.5, 64.0
    for split in ("seen", "unseen"):
        (row,) = [row for row in rows if row[:1] == [split]]
        score = summary[f"{split}_return"]
        assert row[1:3] == [f"{score:.2f}", f"{summary[f'{split}_stderr']:.2f}"]
        assert row[3] == {"seen": "1.55", "unseen": "1.48"}[split]  # results/random
        assert row[4] == f"{(score - low) / (high - low):.3f}"
    assert tree(trained.directory) == before


def test_a_broken_file_of_random_play_costs_the_table_one_number(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    broken = file_of(read_config(trained.directory), "seen")
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    code, out, error = answer(capfd, "evaluate", str(trained.directory), *SAME)
    assert code == 0
    assert error.startswith(f"random play is left out: {broken} is damaged (")
    assert error.count("\n") == 1
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    found = {row[0]: row[3] for row in rows if row[:1] in (["seen"], ["unseen"])}
    assert found == {"seen": "-", "unseen": "1.48"}


def test_random_play_that_nobody_knows_is_measured_when_asked_for_and_kept_for_all(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("crosstraj.runs.shipped.RESULTS", tmp_path / "no checkout")
    monkeypatch.setattr("crosstraj.experiments.random_play.EPISODES", 4)
    monkeypatch.setattr("crosstraj.experiments.random_play.ENVS", 4)
    command = ("evaluate", str(trained.directory), *SAME)
    out = answer(capfd, *command)[1]
    assert (
        "What random play earns on seen and unseen levels is not known; to measure it: crosstraj "
        f"evaluate {trained.directory} --random --split seen unseen\n"
    ) in out
    out = answer(capfd, *command, "--random")[1]
    assert "is not known" not in out
    kept = file_of(read_config(trained.directory), "unseen")
    assert f"random play on unseen levels: {kept}\n" in out
    score = json.loads(kept.read_text())["return"]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    assert {row[0]: row[3] for row in rows if row[:1] == ["unseen"]} == {"unseen": f"{score:.2f}"}
    assert "random play on" not in answer(capfd, *command, "--random")[1]  # it is known now


def test_the_command_that_measures_it_can_be_pasted(capfd: Capture) -> None:
    config = Config(env="some/Game-v0")
    print_results(config, {"seen_return": 1.0, "seen_stderr": 0.0, "seen_solved": 0}, Path("a b"))
    assert "crosstraj evaluate 'a b' --random --split seen\n" in capfd.readouterr().out


def test_evaluate_gives_the_very_numbers_of_the_run_from_checkpoint_and_snapshot(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "crosstraj.cli.evaluate.print_results", lambda _, summary, __: printed.append(summary)
    )
    summary = json.loads((trained.directory / "summary.json").read_text())
    for more in ((), ("--step", "512"), ("--step", "256")):
        assert main(["evaluate", str(trained.directory), *SAME, *more]) == 0
    names = [f"{split}_{what}" for split in ("seen", "unseen") for what in ("return", "length")]
    own, again, earlier = ([figures[name] for name in names] for figures in (summary, *printed[:2]))
    assert own == again == earlier
    assert [figures["frames"] for figures in printed] == [512, 512, 256]
    assert [printed[2][name] for name in names] != own  # other weights, another stream


def test_evaluate_plays_the_splits_it_is_asked_for(
    trained: Trained, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    printed: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "crosstraj.cli.evaluate.print_results", lambda _, summary, __: printed.append(summary)
    )
    summary = json.loads((trained.directory / "summary.json").read_text())
    for split in (("validation",), ("validation", "unseen")):
        assert main(["evaluate", str(trained.directory), *SAME, "--split", *split]) == 0
    alone, two = ({n for n in found if n.endswith("_return")} for found in printed)
    assert (alone, two) == ({"validation_return"}, {"validation_return", "unseen_return"})
    assert printed[0]["validation_length"] == printed[1]["validation_length"]
    assert printed[1]["unseen_return"] == summary["unseen_return"]
    for words in ("seen seen", ""):
        code, _, error = answer(
            capfd, "evaluate", str(trained.directory), "--split", *words.split()
        )
        assert code == 2
        assert "name one or several, each once" in error
