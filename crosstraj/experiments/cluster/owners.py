"""One owner per run over many machines: leases, which a holder renews and otherwise loses.

A file lock proves nothing between machines: on some network file systems each machine has locks of
its own. So whoever runs something holds a lease on it from one registry (an actor of the cluster),
and a thread renews it. A holder that hears nothing of the registry for most of the lease's seconds
kills its process; the registry gives the lease to another only after all of them. Where the two
are on one machine, the newcomer sees whether the holder is dead and need not wait.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

SECONDS = 30.0  # of a lease
# Parts of a lease. A holder asks again for it so often, waits so long for an answer, and believes
# in it for so long: the three together stay below 1, with time left for its process to die.
RENEW, ANSWER, BELIEVE = 0.1, 0.2, 0.6
STOPPED = 128 + signal.SIGTERM  # the exit code of a run that was asked to stop, and saved
Ask = Callable[..., Any]  # ask("method", *arguments): a call of the registry or the shelf


class Holder(NamedTuple):
    """Who asks for something, or has it."""

    key: str  # what is held
    session: str  # of the driver that it works for
    host: str  # the machine and its process numbers; "" where they cannot be told apart
    pid: int
    began: str  # when this process began: its number may be given again
    token: int = 0  # rises with every lease that is given


class Answer(NamedTuple):
    granted: bool
    holder: Holder | None  # ours with its token, or the present one; None: nobody may hold yet
    stop: bool = False  # the driver has asked its runs to stop


Renewal = Literal["held", "stop", "lost"]


def myself(key: str, session: str) -> Holder:
    return Holder(key, session, host(), os.getpid(), began(os.getpid()))


def host() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def began(pid: int) -> str:
    """When a living process began, in the kernel's ticks; "" where there is none."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else fields[18]


def seen_dead(holder: Holder) -> bool:
    """Is the holder on this machine, and gone?"""
    return holder.host != "" and holder.host == host() and began(holder.pid) != holder.began


class Registry:
    """Who holds what. One that was started again waits until every lease it forgot has ended."""

    def __init__(self, seconds: float = SECONDS, *, forgot: bool = False) -> None:
        self.seconds = seconds
        self.held: dict[str, tuple[Holder, float]] = {}  # with the end of the lease
        self.stopping: set[str] = set()
        self.born = self.last = time.time_ns()  # so that tokens rise over a new start as well
        self.opens = time.monotonic() + (seconds if forgot else 0.0)

    def follow(self, former: int) -> int:
        """Told by a driver whose predecessor did not end well: which registry knew its leases.

        Says which this is; where it is another, it waits as one that was started again.
        """
        if former not in (0, self.born):
            self.opens = max(self.opens, time.monotonic() + self.seconds)
        return self.born

    def claim(self, who: Holder, dead: int = 0) -> Answer:
        """Ask for a lease; `dead`: the token of a holder that the asker knows to be gone."""
        if who.session in self.stopping:
            return Answer(False, None, stop=True)
        now = time.monotonic()
        holder, end = self.held.get(who.key, (None, 0.0))
        unheard = holder is not None and holder._replace(token=who.token) == who  # of its answer
        if holder is not None and end > now and holder.token != dead and not unheard:
            return Answer(False, holder)
        if now < self.opens:
            return Answer(False, None)
        self.last += 1
        granted = who._replace(token=self.last)
        self.held[who.key] = granted, now + self.seconds
        return Answer(True, granted)

    def renew(self, who: Holder) -> Renewal:
        now = time.monotonic()
        holder, _ = self.held.get(who.key, (None, 0.0))
        if holder != who and not (holder is None and now < self.opens):
            return "lost"
        self.held[who.key] = who, now + self.seconds
        return "stop" if who.session in self.stopping else "held"

    def release(self, who: Holder) -> None:
        if self.held.get(who.key, (None,))[0] == who:
            del self.held[who.key]

    def stop(self, session: str) -> None:
        """Every holder of this session is told at its next renewal."""
        self.stopping.add(session)

    def holders(self, session: str) -> dict[str, int]:
        """What is being worked on for a driver, with the tokens of the leases."""
        now = time.monotonic()
        mine = [(who, end) for who, end in self.held.values() if who.session == session]
        return {who.key: who.token for who, end in mine if end > now}

    def close(self) -> bool:
        """Is nobody holding anything? Then it may be ended: for a while nobody gets a lease."""
        now = time.monotonic()
        if any(end > now for _, end in self.held.values()):
            return False
        self.opens = now + self.seconds  # not for ever: who asked may die before it ends this
        return True


class Lease:
    """A lease while it is open: renewed by a thread, and `lost` when it can no longer be believed.

    `let_go` is called at once in that case, in that thread.
    """

    def __init__(
        self, ask: Ask, held: Holder, since: float, seconds: float, let_go: Callable[[], None]
    ) -> None:
        self.ask, self.held, self.seconds, self.let_go = ask, held, seconds, let_go
        self.stop, self.lost, self._closed = (threading.Event() for _ in range(3))
        self._confirmed = since  # when it was asked for: it lasts at least from there
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> "Lease":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()
        with suppress(Exception):  # a registry that cannot be reached lets it end by itself
            self.ask("release", self.held)

    def _keep(self) -> None:
        while not self._closed.wait(RENEW * self.seconds):
            asked = time.monotonic()
            try:
                answer: Renewal | None = self.ask("renew", self.held)
            except Exception:  # whatever keeps the registry from answering, it has not
                answer = None
            if answer in ("held", "stop"):
                self._confirmed = asked
            if answer == "stop":
                self.stop.set()
            if answer == "lost" or time.monotonic() - self._confirmed > BELIEVE * self.seconds:
                self.lost.set()
                self.let_go()
                return


def claim(ask: Ask, who: Holder) -> Answer:
    """Ask for a lease, past a holder that is seen to be dead."""
    answer: Answer = ask("claim", who)
    if not answer.granted and answer.holder is not None and seen_dead(answer.holder):
        answer = ask("claim", who, answer.holder.token)
    return answer
