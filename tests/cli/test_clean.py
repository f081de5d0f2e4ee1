"""`crosstraj clean`: it shows, asks, spares what lives, and costs a run nothing."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.main import main
from crosstraj.runs import lock
from tests.cli.answers import Capture
from tests.conftest import Trained
from tests.runs.saves import everything, saved


def with_answer(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """Somebody at a terminal who says this, or does it."""

    def said(question: str) -> str:
        print(question)
        return answer() if callable(answer) else answer

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", said)


def test_clean_shows_sizes_asks_and_takes_no_for_an_answer(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = saved(tmp_path / "runs/run", 256, 512)
    before = everything(run)
    for answer in ("", "n", "no", "yesterday"):
        with_answer(monkeypatch, answer)
        assert main(["clean", str(tmp_path / "runs")]) == 0
        out = capfd.readouterr().out
        assert f"{run}/checkpoints/step-256  (an old checkpoint)" in out
        assert "1 to remove in 1 runs, " in out
        assert "remove these?" in out
        assert "removed" not in out
        assert everything(run) == before
    for end in (EOFError, KeyboardInterrupt):

        def leave(end: type[BaseException] = end) -> str:
            raise end

        with_answer(monkeypatch, leave)
        assert main(["clean", str(tmp_path / "runs")]) == 0
        assert everything(run) == before
    with_answer(monkeypatch, "y")
    assert main(["clean", str(tmp_path / "runs")]) == 0
    assert "removed 1, " in capfd.readouterr().out
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-512"]


def test_without_a_terminal_clean_refuses_unless_it_is_told_yes(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = saved(tmp_path / "run", 256, 512)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    before = everything(run)
    assert main(["clean", str(tmp_path)]) == 2
    said = capfd.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "give --yes, or --dry-run" in said.err
    assert main(["clean", str(tmp_path), "--dry-run"]) == 0
    assert "1 to remove" in capfd.readouterr().out
    assert everything(run) == before
    assert main(["clean", str(tmp_path), "--yes"]) == 0
    assert "removed 1, " in capfd.readouterr().out
    assert everything(run) != before


def test_a_run_that_becomes_live_while_the_question_stands_is_not_touched(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, other = (saved(tmp_path / name, 256, 512) for name in ("live", "other"))
    before, held = everything(live), []

    def start() -> str:
        held.append(lock.own(live / lock.NAME))
        return "y"

    with_answer(monkeypatch, start)
    assert main(["clean", str(tmp_path)]) == 0
    lock.disown(held[0])
    said = capfd.readouterr()
    assert "2 to remove in 2 runs" in said.out
    assert "removed 1, " in said.out
    assert f"left as it is: {live}: process {os.getpid()} is writing" in said.err
    assert everything(live) == before
    assert [path.name for path in (other / "checkpoints").iterdir()] == ["step-512"]


def test_what_the_disk_does_not_let_go_is_named_and_the_others_go(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (saved(tmp_path / name, 256, 512) for name in ("first", "second"))
    import crosstraj.runs.leftovers as leftovers_module

    remove = leftovers_module.remove

    def refuses(run: Path, shown: Any) -> Any:
        if run == first:
            raise PermissionError(13, "Permission denied")
        return remove(run, shown)

    monkeypatch.setattr(leftovers_module, "remove", refuses)
    assert main(["clean", str(tmp_path), "--yes"]) == 2
    said = capfd.readouterr()
    assert f"{first} (Permission denied)" in said.err
    assert "removed 1, " in said.out
    assert [path.name for path in (second / "checkpoints").iterdir()] == ["step-512"]


def test_a_cleaned_run_is_extended_and_its_bytes_are_those_of_one_that_was_not(
    trained: Trained, tmp_path: Path
) -> None:
    ends = []
    for name in ("plain", "cleaned"):
        shutil.copytree(trained.directory.parent, tmp_path / name)
        if name == "cleaned":
            (run,) = (tmp_path / name).iterdir()
            older = shutil.copytree(run / "checkpoints/step-512", run / "checkpoints/step-256")
            assert main(["clean", str(tmp_path / name), "--yes"]) == 0
            assert not older.exists()
        more = [*trained.command, "--frames", "768", "--saving.runs", str(tmp_path / name)]
        assert main(more) == 0
        (run,) = (tmp_path / name).iterdir()
        ends.append((run / "metrics.jsonl").read_bytes())
    assert ends[0] == ends[1]
