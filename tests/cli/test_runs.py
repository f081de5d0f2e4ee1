"""`crosstraj runs` and `crosstraj clean` as a person or a script meets them."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.main import main
from crosstraj.cli.runs import HEAD, in_bytes, in_time, table
from crosstraj.runs import lock
from crosstraj.runs.status import glances
from tests.conftest import Trained
from tests.runs.test_leftovers import everything, saved
from tests.runs.test_status import judged, make, update

Capture = pytest.CaptureFixture[str]


def test_a_trained_run_is_listed_with_all_that_it_has(trained: Trained, capfd: Capture) -> None:
    assert main(["runs", str(trained.directory.parent), "--json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)
    summary = json.loads((trained.directory / "summary.json").read_text())
    assert found["path"] == str(trained.directory)
    assert (found["status"], found["why"]) == ("finished", "")
    assert (found["method"], found["game"], found["seed"]) == ("ppo", "starpilot", 5)
    assert (found["frames"], found["budget"]) == (512, 512)
    assert (found["return"], found["levels"]) == (summary["unseen_return"], "unseen")
    files = [path for path in trained.directory.rglob("*") if path.is_file()]
    assert found["bytes"] == sum(path.stat().st_size for path in files)
    assert found["seconds_since_write"] >= 0
    assert (found["process"], found["host"]) == (None, None)


def test_the_table_says_in_words_what_there_is(tmp_path: Path) -> None:
    make(tmp_path / "stopped", judged(0, 2.0, "validation"), update(500))
    make(tmp_path / "done", summary={"frames": 1000, "unseen_return": 3.14159})
    held = lock.own(make(tmp_path / "live", update(1)) / "owner.lock")
    os.utime(tmp_path / "stopped/metrics.jsonl", (10**6, 10**6))
    os.utime(tmp_path / "stopped/config.json", (10**6, 10**6))
    lines = table(glances([tmp_path]), now=10**6 + 7300).splitlines()
    lock.disown(held)
    assert lines[0].startswith("3 runs, ")
    assert lines[0].endswith("B: 1 running, 1 stopped, 1 finished")
    assert lines[1].split() == list(filter(None, HEAD))
    assert f"{os.getpid()}@" in lines[2]
    words = ["stopped", "ctrl", "bigfish", "3", "500/1,000", "2.00", "(validation)"]
    assert lines[3].split()[: len(words)] == words
    assert " 2 h " in lines[3]
    assert lines[3].endswith(f"{tmp_path}/stopped")
    assert " 3.14 " in lines[4]


def test_units() -> None:
    sizes = {0: "0 B", 999: "999 B", 1000: "1 kB", 24_600_000: "24.6 MB", 5e13: "50.0 TB"}
    assert {size: in_bytes(size) for size in sizes} == sizes
    ages = {-5: "0 s", 59.9: "59 s", 60: "1 min", 3599: "59 min", 3600: "1 h", 200_000: "2 d"}
    assert {age: in_time(age) for age in ages} == ages


def test_hostile_names_stay_text(tmp_path: Path, capfd: Capture) -> None:
    make(tmp_path / "a\nfinished  b\x1b[2J", env="\x1b]0;owned\x07", method="x\r\u202ey")
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    make(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")) / "run")
    assert main(["runs", str(tmp_path)]) == 0
    out = capfd.readouterr().out
    assert len(out.splitlines()) == 4
    assert not set(out) & {"\x1b", "\x07", "\r", "\u202e"}
    assert "a\\nfinished  b\\x1b[2J" in out
    assert main(["runs", str(tmp_path), "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)) == 2


def test_no_runs_and_no_directory_are_told_apart(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("runs", "clean"):
        assert main([command, *(["--yes"] if command == "clean" else [])]) == 2
        assert "there is no runs; name directories" in capfd.readouterr().err
    (tmp_path / "runs").mkdir()
    assert main(["runs"]) == 0
    assert capfd.readouterr().out == "0 runs, 0 B\n"
    assert main(["runs", "--json"]) == 0
    assert capfd.readouterr().out == "[]\n"
    assert main(["clean", "--yes"]) == 0
    assert capfd.readouterr().out == "0 to remove in 0 runs, 0 B\n"
    for words in (["--json", "--watch"], ["--every", "0"]):
        assert main(["runs", *words]) == 2


LIGHT = """
import sys
from crosstraj.cli.main import main
for words in ([], ["--json"]):
    assert main(["runs", sys.argv[1], *words]) == 0
heavy = {"torch", "numpy", "gymnasium", "rich", "matplotlib"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""


def test_listing_imports_nothing_heavy(trained: Trained) -> None:
    command = [sys.executable, "-c", LIGHT, str(trained.directory.parent)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("terminal", [False, True])
def test_watching_shows_what_changes_and_ends_well_on_ctrl_c(
    terminal: bool, tmp_path: Path
) -> None:
    run = make(tmp_path / "run", update(100))
    words = [sys.executable, "-m", "crosstraj", "runs", str(tmp_path), "--watch", "--every", "0.1"]
    reader, writer = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(words, stdout=writer, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c)
    os.close(writer)
    read_until(reader, b"100/1,000")
    with (run / "metrics.jsonl").open("a") as log:
        log.write('{"row":"update","frames":200}\n')
    read_until(reader, b"200/1,000")
    process.send_signal(signal.SIGINT)
    while terminal:  # what is still to be drawn must not wait for a reader
        try:
            if not os.read(reader, 2**16):
                break
        except OSError:  # how the end of a terminal looks
            break
    _, error = process.communicate(timeout=30)
    os.close(reader)
    assert (process.returncode, error) == (0, b"")


def heed_ctrl_c() -> None:
    """What a shell starts in the background ignores it, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def read_until(reader: int, wanted: bytes) -> None:
    seen, end = b"", time.monotonic() + 60
    while wanted not in seen:
        assert time.monotonic() < end, seen
        seen += os.read(reader, 2**16)


# --- clean


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
