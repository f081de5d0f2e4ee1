"""`crosstraj runs` and `crosstraj clean` as a person or a script meets them."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crosstraj.cli.main import main
from crosstraj.cli.runs import HEAD, in_bytes, in_time, table
from crosstraj.config.stored import to_dict
from crosstraj.config.values import Config
from crosstraj.learning.load import read_config
from crosstraj.runs import lock
from crosstraj.runs.shipped import random_return
from crosstraj.runs.status import glances
from tests.cli.answers import Capture
from tests.conftest import Trained
from tests.runs.logs import judged, make, update


def test_a_trained_run_is_listed_with_all_that_it_has(trained: Trained, capfd: Capture) -> None:
    assert main(["runs", str(trained.directory.parent), "--json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)
    summary = json.loads((trained.directory / "summary.json").read_text())
    assert found["path"] == str(trained.directory)
    assert (found["status"], found["why"]) == ("finished", "")
    assert (found["method"], found["game"], found["seed"]) == ("ppo", "starpilot", 5)
    assert (found["frames"], found["budget"]) == (512, 512)
    assert (found["return"], found["levels"]) == (summary["unseen_return"], "unseen")
    assert found["random"] == random_return(read_config(trained.directory), "unseen").score > 1
    files = [path for path in trained.directory.rglob("*") if path.is_file()]
    assert found["bytes"] == sum(path.stat().st_size for path in files)
    assert found["seconds_since_write"] >= 0
    assert (found["process"], found["host"]) == (None, None)


def test_the_table_says_in_words_what_there_is(tmp_path: Path) -> None:
    make(tmp_path / "stopped", judged(0, 2.0, "validation"), update(500))
    known = {"procgen": to_dict(Config())["procgen"]}
    make(tmp_path / "done", summary={"frames": 1000, "unseen_return": 3.14159}, **known)
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
    assert lines[4].split()[5:7] == ["3.14", "0.99"]  # random play on unseen levels of bigfish
    assert " 0.99 " not in lines[3]  # its levels are not known, so nothing stands beside them


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
        assert "there is no runs here; train something" in capfd.readouterr().err
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
