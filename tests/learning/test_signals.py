"""Signals: the first is a request, the second is obeyed at once, with the exit codes of a shell."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from crosstraj.errors import Refusal
from crosstraj.learning.signals import HANDLED, Interrupted, Stop

CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}


@pytest.fixture(autouse=True)
def _default_handlers() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored, and what is ignored stays ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", HANDLED)
def test_the_first_signal_sets_the_flag_and_the_handlers_are_put_back(number: int) -> None:
    before = [signal.getsignal(each) for each in HANDLED]
    with Stop() as stop:
        seen = [bool(stop), stop.signal]
        os.kill(os.getpid(), number)
        assert [*seen, bool(stop), stop.signal] == [False, None, True, number]
    assert [signal.getsignal(each) for each in HANDLED] == before
    assert stop, "what came is still known afterwards"


def test_a_signal_is_handed_on_at_once() -> None:
    came: list[int] = []
    with Stop(came.append):
        os.kill(os.getpid(), signal.SIGTERM)
        assert came == [signal.SIGTERM]


def test_the_handlers_are_put_back_after_an_error() -> None:
    before = [signal.getsignal(each) for each in HANDLED]
    with pytest.raises(RuntimeError), Stop():
        raise RuntimeError
    assert [signal.getsignal(each) for each in HANDLED] == before


def test_interrupted_says_which_signal_and_has_the_exit_code_of_a_shell() -> None:
    for number, code in CODES.items():
        interrupted = Interrupted(number)
        assert isinstance(interrupted, Refusal)
        assert interrupted.exit_code == code
        assert signal.Signals(number).name in str(interrupted)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_nothing_is_installed() -> None:
    before = [signal.getsignal(each) for each in HANDLED]
    seen: list[bool] = []

    def work() -> None:
        with Stop() as stop:
            seen.append([signal.getsignal(each) for each in HANDLED] == before and not stop)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True]


PROGRAM = """
import signal, sys, time
from crosstraj.learning.signals import HANDLED, Interrupted, Stop
for number in HANDLED:
    signal.signal(number, signal.SIG_DFL)
try:
    with Stop() as stop:
        print("ready", flush=True)
        while not stop or sys.argv[1] == "stubborn":
            time.sleep(0.01)
            if stop:
                print("asked", flush=True)
        raise Interrupted(stop.signal)
except Interrupted as interrupted:
    sys.exit(interrupted.exit_code)
finally:
    print("cleaned", flush=True)
"""


@pytest.mark.parametrize("number", HANDLED)
@pytest.mark.parametrize("kind", ["willing", "stubborn"])
def test_exit_codes_of_a_process(kind: str, number: int) -> None:
    command = [sys.executable, "-c", PROGRAM, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        began = time.monotonic()
        if kind == "stubborn":
            assert process.stdout.readline() == "asked\n"
            process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(10) == CODES[signal.Signals(number)]
        assert time.monotonic() - began < 3  # on a busy machine too
        assert ("cleaned" in rest) == (kind == "willing")
