"""One driver's time with the cluster: its lease on the experiment, its tasks, its shelf."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import ray

from crosstraj import disk
from crosstraj.errors import Owned
from crosstraj.experiments.cluster.actors import Registrar, actor, caller
from crosstraj.experiments.cluster.node_task import Order, Outcome, work
from crosstraj.experiments.cluster.owners import ANSWER, Holder, Lease, claim, myself
from crosstraj.experiments.cluster.shelf import Shelf
from crosstraj.experiments.jobs import Job
from crosstraj.experiments.standing import Lines
from crosstraj.learning.signals import Stop

LOOK = 1.0  # seconds between two looks at the cluster
REGISTRY = "registry"


class Session:
    """Open it, `submit` runs and `wait` for them."""

    def __init__(
        self, root: Path, title: str, *, shelf: bool, lease: float, local: bool = False
    ) -> None:
        self.root, self.seconds = root, lease
        machine = f"{socket.gethostname()}:" if shelf else ""  # a shared place is one place
        self.place = f"{machine}{root}"
        self.name = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"
        self.registry = actor(Registrar, name=REGISTRY, lifetime="detached").remote(lease)
        self.shelf: Any = actor(Shelf).remote(str(root)) if shelf else None
        self.mark = root / f".{title}.open"
        if local:  # no machine but this one, where dead holders are seen
            self.mark.unlink(missing_ok=True)
        held, asked = self._claim(myself(f"{title} in {self.place}", self.name))
        ask = caller(self.registry, ANSWER * lease)
        self.lease = Lease(ask, held, asked, lease, lambda: None)
        self.work = ray.remote(work)
        self.jobs: dict[str, Job] = {}  # by what its lease is for
        self.pending: dict[Any, Job] = {}  # by the reference of its task

    def __enter__(self) -> Self:
        self.lease.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.lease.__exit__(*failure)
        if not self.pending:
            self.mark.unlink(missing_ok=True)
        with suppress(ray.exceptions.RayError):  # one that is gone already needs no end
            if caller(self.registry, self.seconds)("close"):  # nobody else needs it
                ray.kill(self.registry)

    def _ask(self, method: str, *arguments: Any) -> Any:
        return caller(self.registry, None)(method, *arguments)

    def _claim(self, who: Holder) -> tuple[Holder, float]:
        """The experiment for this driver alone, and when it was asked for."""
        try:
            born = self._ask("follow", _number(self.mark))
            asked, answer = time.monotonic(), claim(self._ask, who)
            while not answer.granted and answer.holder is None:  # a registry that has to wait
                time.sleep(LOOK)
                asked, answer = time.monotonic(), claim(self._ask, who)
        except ray.exceptions.RayActorError:  # the last driver that needed it has just left
            raise Owned("another driver is just ending; try again in a moment") from None
        if not answer.granted or answer.holder is None:
            raise Owned(f"another driver has {who.key}; wait for it, or stop it")
        disk.write_whole(self.mark, str(born).encode())
        return answer.holder, asked

    def submit(self, job: Job, command: list[str], options: dict[str, Any]) -> None:
        """A task that Ray tries again for ever where a node or worker dies, and only there."""
        name = job.directory.name
        order = Order(
            name=name,
            owned=f"{self.place}/{name}",
            session=self.name,
            command=tuple(command),
            runs=str(self.root),
            lease=self.seconds,
        )
        self.jobs[order.owned] = job
        task = self.work.options(max_retries=-1, retry_exceptions=False, **options)
        self.pending[task.remote(order, self.registry, self.shelf)] = job

    def wait(self, display: Lines, stop: Stop) -> dict[str, int]:
        """Until all have ended, or have saved after a signal; the codes of those that failed."""
        codes: dict[str, int] = {}
        holders: dict[str, int] = {}
        asked = False
        while self.pending:
            if self.lease.lost.is_set():
                raise Owned("this driver was not heard of for too long, and another may go on")
            if stop and not asked:
                asked = True
                display.say(f"stopping {len(holders)} runs; they save first")
                self._stop(holders)
            waiting = list(self.pending)
            for reference in ray.wait(waiting, num_returns=len(waiting), timeout=LOOK)[0]:
                job = self.pending.pop(reference)
                if (outcome := _outcome(reference)) is None:
                    continue  # it never began
                if outcome.code:
                    codes[job.planned.name] = outcome.code
                display.say(f"{display.place(job)} {outcome}")
                display.ended(job, outcome.code)
            holders = self._look(holders, display)
            display.show([self.jobs[key] for key in holders])
        return codes

    def _stop(self, holders: dict[str, int]) -> None:
        """Those that run are told by their leases; the others never begin."""
        self._ask("stop", self.name)
        for reference, job in self.pending.items():
            if f"{self.place}/{job.directory.name}" not in holders:
                ray.cancel(reference)

    def _look(self, before: dict[str, int], display: Lines) -> dict[str, int]:
        """Which runs are under way, with the tokens of their owners; says which are new."""
        pending = set(self.pending.values())
        held = self._ask("holders", self.name)
        now = {key: token for key, token in held.items() if self.jobs.get(key) in pending}
        for key, token in now.items():
            place = display.place(self.jobs[key])
            if key not in before:
                display.say(f"{place} began: {self.jobs[key].directory}")
            elif token != before[key]:
                display.say(f"{place} goes on: its node or worker has died")
        return now


def _number(mark: Path) -> int:
    """The registry of a driver that did not end well; 0: there was none."""
    try:
        return int(mark.read_text())
    except (OSError, ValueError):
        return 0


def _outcome(reference: Any) -> Outcome | None:
    """How a task ended; None if it was cancelled."""
    try:
        outcome: Outcome = ray.get(reference)
        return outcome
    except ray.exceptions.TaskCancelledError:
        return None
    except ray.exceptions.RayError as error:
        return Outcome(1, str(error).strip().split("\n")[-1], "the cluster")
