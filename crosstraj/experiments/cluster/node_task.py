"""One run on a node of the cluster: own it, run our command line as a child, tell how it ended.

The child dies with the process that runs this, however that ends: a run that went on alone would
keep its successor from resuming. Ray tries a task again when its node or worker has died; a child
that ended by itself has ended, whatever its exit code, but for 75: somebody else is still writing
the run directory, so we wait.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import ray

from crosstraj.errors import BadInput, Owned, Unsaved
from crosstraj.experiments.cluster.actors import caller
from crosstraj.experiments.cluster.owners import (
    ANSWER,
    STOPPED,
    Answer,
    Ask,
    Holder,
    Lease,
    claim,
    myself,
)
from crosstraj.experiments.cluster.shelf import Courier
from crosstraj.runs.tail import last_words

LOOK = 0.5  # seconds between two looks at the child
WAIT = 2.0  # seconds before asking again for what somebody else owns
GRACE = 240.0  # seconds for a child to save when asked to stop: after its update, a minute or two
REST = 10.0  # seconds before a save is sent again to a shelf that did not take it

# Ray's worker has threads, so nothing of ours may run between fork and exec: a small program asks
# the kernel for death with its parent (PR_SET_PDEATHSIG is 1), then becomes the run.
BOUND = """
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(parent):
    sys.exit("the worker died before its run began")
os.execvp(command[0], command)
"""


class Order(NamedTuple):
    """A run as the driver hands it out."""

    name: str  # of the run directory
    owned: str  # what the lease is for
    session: str  # of the driver
    command: tuple[str, ...]  # but for --saving.runs, which comes last
    runs: str  # the shared place of run directories; with a shelf, a node has one of its own
    lease: float  # seconds


class Outcome(NamedTuple):
    code: int  # as a shell gives it: 128 + n for signal n
    said: str  # the last line
    node: str

    def __str__(self) -> str:
        return (
            f"ended with exit code {self.code} on {self.node}: {self.said}"
            if self.code
            else "is done"
        )


def work(order: Order, registry: Any, shelf: Any) -> Outcome:
    """The task: the exit code of the run, once it has ended here."""
    ask = caller(registry, ANSWER * order.lease)
    who = myself(order.owned, order.session)
    while True:
        asked = time.monotonic()
        try:
            answer = claim(ask, who)
        except ray.exceptions.GetTimeoutError:
            answer = Answer(False, None)
        if answer.stop:
            return _outcome(STOPPED, "stopped before it began")
        if answer.granted and answer.holder is not None:
            turn = Turn(order, answer.holder, asked, ask, shelf)
            outcome = turn.run()
            if outcome is not None:
                return outcome
        time.sleep(WAIT)


class Turn:
    """The time in which this process owns the run."""

    def __init__(self, order: Order, held: Holder, since: float, ask: Ask, shelf: Any) -> None:
        self.order = order
        self.child: subprocess.Popen[bytes] | None = None
        self.lease = Lease(ask, held, since, order.lease, self._let_go)
        self.place = scratch() if shelf else Path(order.runs)
        self.courier = None
        if shelf:
            self.courier = Courier(caller(shelf, None), order.name, held.token, self.place)
        self.log = self.place / f"{order.name}.log"
        self.rested, self.wrong = 0.0, ""  # when to send again, and what was wrong before

    def _let_go(self) -> None:
        if self.child is not None:
            self.child.kill()

    def run(self) -> Outcome | None:
        """How the run ended; None: it is to be tried again."""
        with self.lease:
            self.place.mkdir(parents=True, exist_ok=True)
            if self.courier:
                self.courier.fetch()
            try:
                code = self._attend()
            finally:
                self._end_child()
            if self.lease.lost.is_set() or (
                code == Owned.exit_code and not self.lease.stop.is_set()
            ):
                return None
            said = last_words(self.log) or "it said nothing"
            if self.courier and (wrong := self._put_back()):
                return _outcome(code or Unsaved.exit_code, wrong)
        return _outcome(code, said)

    def _attend(self) -> int:
        """Start the child and wait for its end; hand on the wish to stop; put back its saves."""
        if self.lease.lost.is_set():
            return Owned.exit_code
        self.child = child = self._start()
        deadline = float("inf")
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = child.wait(LOOK)
                return 128 - code if code < 0 else code
            if self.lease.lost.is_set() or time.monotonic() > deadline:
                child.kill()
            elif self.lease.stop.is_set() and deadline == float("inf"):
                deadline = time.monotonic() + GRACE
                child.terminate()
            elif self.courier and time.monotonic() >= self.rested:
                self._put_news(self.courier)

    def _start(self) -> subprocess.Popen[bytes]:
        first, *rest = self.order.command
        command = [sys.executable if first == "python" else first, *rest]
        bound = [sys.executable, "-I", "-S", "-c", BOUND, str(os.getpid()), *command]
        with self.log.open("ab") as log:
            # No session of its own, and begun by the thread that waits for it: the kernel counts
            # the thread as the parent.
            return subprocess.Popen(
                [*bound, "--saving.runs", str(self.place)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _end_child(self) -> None:
        """Only when something went wrong here, or the task was cancelled: it saves first."""
        if self.child is not None and self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(GRACE)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def _put_news(self, courier: Courier) -> None:
        """What the run has saved; a shelf that does not take it is asked again, not at every look.

        It is noted once: the log is for the words of the run.
        """
        wrong = courier.put_news()
        if wrong:
            self.rested = time.monotonic() + REST
            if wrong != self.wrong:
                self._note(f"this save could not be put on the shelf: {wrong}")
        self.wrong = wrong

    def _put_back(self) -> str:
        """The last state; the run is done only when it has arrived. What is here goes with it."""
        assert self.courier is not None
        end = time.monotonic() + 2 * self.order.lease
        while wrong := self.courier.put():
            if time.monotonic() > end or self.lease.stop.wait(WAIT) or self.lease.lost.is_set():
                return f"the last save could not be put on the shelf: {wrong}"
        self.courier.leave()
        return ""

    def _note(self, sentence: str) -> None:
        with suppress(OSError), self.log.open("a") as log:
            log.write(f"{sentence}\n")


def scratch() -> Path:
    """Where a node keeps its runs while they run: for this user alone, apart from other nodes."""
    ours = Path(tempfile.gettempdir()) / f"crosstraj-{os.getuid()}"
    ours.mkdir(mode=0o700, exist_ok=True)
    if ours.is_symlink() or ours.stat().st_uid != os.getuid():
        raise BadInput(f"{ours} belongs to somebody else; set TMPDIR to another place")
    return ours / ray.get_runtime_context().get_node_id()


def _outcome(code: int, said: str) -> Outcome:
    return Outcome(code, said, ray.util.get_node_ip_address())
