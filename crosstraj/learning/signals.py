"""Stopping on a signal: the first asks the run to stop at the next safe place, a second leaves."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from crosstraj.errors import Refusal

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupted(Refusal):
    """A signal stopped the run; exit code 128 + its number (143, 130, 129), as in a shell."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}; the same command goes on from the last checkpoint")
        self.exit_code = 128 + number


class Stop:
    """While it is open, true as soon as SIGTERM, SIGINT or SIGHUP has come.

    A signal that is ignored (SIGHUP under `nohup`) stays ignored. Outside the main thread, where
    Python allows no handlers, nothing is installed.
    """

    def __init__(self, hand_on: Callable[[int], None] = lambda number: None) -> None:
        self.signal: int | None = None  # the number of the first signal that came
        self.hand_on = hand_on  # called with it at once, before a second one can come
        self._previous: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in HANDLED:
                previous = signal.getsignal(number)
                # None: a handler that was not set from Python, which nobody could put back.
                if previous not in (signal.SIG_IGN, None):
                    self._previous[number] = previous
                    signal.signal(number, self._receive)
        return self

    def __exit__(self, *failure: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        self._previous.clear()

    def check(self) -> None:
        """Leave, if a signal has come; for long work that can be left at any place."""
        if self.signal is not None:
            raise Interrupted(self.signal)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            os._exit(128 + number)  # no clean-up: whoever sends a second signal wants it gone
        self.signal = number
        self.hand_on(number)
