"""One owner of a run directory: others are refused, the dead are followed."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crosstraj.errors import BadInput, Owned
from crosstraj.runs import lock
from crosstraj.runs.directory import Run
from tests.runs.opened import CONFIG, open_run

OWNER = """
import os, sys, time
from pathlib import Path
from crosstraj.runs.directory import Run
run = Run.open(Path(sys.argv[1]), {"frames": 100}, "0" * 64, {})
if os.fork() == 0:  # a child that outlives its parent must not keep the lock
    print(os.getpid(), flush=True)
time.sleep(60)
"""


@contextmanager
def owner(directory: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", OWNER, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            yield process
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)


def test_a_second_process_is_refused_within_a_second_and_a_dead_owner_is_taken_over(
    tmp_path: Path,
) -> None:
    with owner(tmp_path) as process:
        began = time.monotonic()
        with pytest.raises(Owned, match=f"process {process.pid} is writing") as refusal:
            Run.open(tmp_path, {"frames": 100}, "0" * 64, {})
        assert time.monotonic() - began < 1
        assert refusal.value.exit_code == 75
        process.send_signal(signal.SIGKILL)
        process.wait()
        with Run.open(tmp_path, {"frames": 100}, "0" * 64, {}):
            named = f"{os.getpid()} {socket.gethostname()}\n"
            assert (tmp_path / "owner.lock").read_text() == named
        assert (tmp_path / "owner.lock").read_text() == "", "who leaves is not named any more"


def test_a_refused_second_owner_changes_nothing(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        run.metrics.write({"a": 1})
        (tmp_path / ".tmp-config.json").write_text("being written")
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(Owned):
            open_run(tmp_path, {**CONFIG, "frames": 1000})
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_child_neither_keeps_the_lock_nor_lets_it_go(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        child = os.fork()
        if child == 0:
            try:
                run.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(Owned):
            open_run(tmp_path)
        program = subprocess.Popen(["sleep", "60"], close_fds=False)
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    try:
        open_run(tmp_path).close()
    finally:
        program.kill()
        program.wait()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_the_lock_is_let_go_when_opening_fails(tmp_path: Path) -> None:
    open_run(tmp_path).close()
    with pytest.raises(BadInput):
        open_run(tmp_path, {**CONFIG, "seed": 1})
    open_run(tmp_path).close()


def test_an_owner_that_comes_while_others_look_gets_its_run(tmp_path: Path) -> None:
    path, over = tmp_path / "owner.lock", threading.Event()
    path.write_text("")

    def watch() -> None:
        while not over.is_set():
            lock.look(path)
            time.sleep(0.0005)

    watchers = [threading.Thread(target=watch) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(200):
            held = lock.own(path)
            assert lock.look(path)[0]
            lock.disown(held)
    finally:
        over.set()
        for watcher in watchers:
            watcher.join()
