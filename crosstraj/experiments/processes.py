"""Many runs, one after another or several at a time, each a process of our own command line.

What a run has done is in its run directory, or in the logs kept of it: a finished one is skipped, a
partial one resumed by its own command. One that fails does not stop the others.
"""

import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from crosstraj.config.methods import words_for
from crosstraj.cores import memory, usable_cores
from crosstraj.errors import BadInput, Refusal
from crosstraj.experiments.file import Value
from crosstraj.experiments.jobs import Job
from crosstraj.learning.display import Rate
from crosstraj.learning.signals import Interrupted, Stop

LOOK = 0.3  # seconds between two looks at the children
RUN_MEMORY = 3.0  # GiB that a run of the full size needs
SPEAK = 30.0  # seconds between two lines where there is no terminal


class Failed(Refusal):
    """Some runs failed; the exit code is theirs if they agree."""

    def __init__(self, codes: dict[str, int], total: int) -> None:
        several = ", ".join(f"{name} (exit code {code})" for name, code in codes.items())
        super().__init__(
            f"{len(codes)} of {total} runs failed: {several}; the same command tries them again"
        )
        self.exit_code = next(iter(codes.values())) if len(set(codes.values())) == 1 else 1


def packed(runs: int) -> int:
    """How many runs at a time are fastest: as many as there are cores, of one thread each.

    Two runs of one thread do more than one run of two, whose threads wait for each other
    (`make bench` measures both). It depends on all runs that were asked for, finished or not:
    threads round differently, so the same command must always choose the same.
    """
    return max(1, min(runs, usable_cores(), int(memory() / RUN_MEMORY)))


def share_threads(jobs: int, threads: int) -> int:
    """The threads of each run; 0, all cores, where it has the machine to itself."""
    if threads or jobs == 1:
        return threads
    return max(1, usable_cores() // jobs)


def run_all(
    jobs: list[Job], at_once: int, *, threads: int, allow_inexact: bool, title: str
) -> Failed | None:
    """Run what is not finished; a signal is handed on once, and its exit code is theirs."""
    todo = [job for job in jobs if not job.finished()]
    running: dict[Job, subprocess.Popen[bytes]] = {}
    failed: dict[str, int] = {}
    stopped: dict[str, int] = {}
    told = set[int]()  # the processes that know of the signal: twice would be at once

    def hand_on(number: int) -> None:
        for process in running.values():
            if process.pid not in told:
                told.add(process.pid)
                process.send_signal(number)

    asked = False
    with Stop(hand_on) as stop, _display(jobs, title) as display:
        kept = sum(job.logs == job.kept for job in jobs)
        where = f" ({kept} of them kept from before)" if kept else ""
        display.say(f"{title}: {len(jobs) - len(todo)} of {len(jobs)} runs are finished{where}")
        try:
            while running or (todo and not stop):
                while todo and not stop and len(running) < at_once:
                    job = todo.pop(0)
                    running[job] = _start(job, threads, allow_inexact)
                    display.say(f"{display.place(job)} began: {job.directory}")
                if stop.signal is not None and not asked:
                    asked = True
                    display.say(f"stopping {len(running)} runs; they save first")
                    hand_on(stop.signal)  # to those that began meanwhile
                time.sleep(LOOK)
                for job, code in _ended(running):
                    del running[job]
                    if code:
                        (stopped if asked else failed)[job.planned.name] = code
                    end = f"ended with exit code {code}: {_last(job.log)}" if code else "is done"
                    display.say(f"{display.place(job)} {end}")
                    display.done[job] = job.frames()
                display.show(list(running))
        finally:
            for process in running.values():  # only when something went wrong here
                process.terminate()
    if stop.signal is not None:
        interrupted = Interrupted(stop.signal)
        interrupted.exit_code = next(iter(stopped.values()), interrupted.exit_code)
        raise interrupted
    return Failed(failed, len(jobs)) if failed else None


def _ended(running: dict[Job, subprocess.Popen[bytes]]) -> list[tuple[Job, int]]:
    """Those that have ended, with exit codes as a shell gives them: 128 + n for signal n."""
    codes = [(job, process.poll()) for job, process in running.items()]
    return [(job, 128 - code if code < 0 else code) for job, code in codes if code is not None]


def _start(job: Job, threads: int, allow_inexact: bool) -> subprocess.Popen[bytes]:
    more: dict[str, Value] = {"saving.runs": str(job.config.saving.runs)}
    if threads:
        more["machine.threads"] = threads
    if allow_inexact:
        more["allow_inexact"] = True
    command = [sys.executable, "-m", "crosstraj", *job.planned.command(more)]
    command += words_for(job.config.method)
    try:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        log = job.log.open("ab")
    except OSError as error:
        raise BadInput(f"{job.log} cannot be written: {error.strerror}") from error
    with log:
        # A session of its own: Ctrl-C reaches us alone, and we hand it on. A child that got it
        # twice would leave at once, without saving.
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _last(log: Path) -> str:
    """The last line that a process said."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


# --- one progress display for all


class Lines:
    """Lines on standard output: when a run begins or ends, and one now and then."""

    def __init__(self, jobs: list[Job], title: str) -> None:
        self.order = {job.planned.name: index for index, job in enumerate(jobs, 1)}
        self.title = title
        self.budget = sum(job.planned.frames for job in jobs)
        self.done = {job: job.frames() for job in jobs}
        self.rate = Rate(self.budget)
        self.rate(sum(self.done.values()))
        self.spoke = time.monotonic()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None: ...

    def place(self, job: Job) -> str:
        return f"run {self.order[job.planned.name]} of {len(self.order)}, {job.planned.name},"

    def say(self, sentence: str) -> None:
        print(sentence, flush=True)

    def measure(self, running: list[Job]) -> tuple[int, float, str]:
        """Frames done of the whole, frames per second, time left."""
        for job in running:
            self.done[job] = job.frames()
        frames = sum(self.done.values())
        return frames, *self.rate(frames)

    def show(self, running: list[Job]) -> None:
        if not running or time.monotonic() - self.spoke < SPEAK:
            return
        self.spoke = time.monotonic()
        frames, rate, left = self.measure(running)
        now = "; ".join(f"{self.place(job)} {self.done[job]:,}" for job in running)
        print(f"{frames:,}/{self.budget:,} frames  {rate:.0f}/s  {left} left  ({now})", flush=True)


class Bars(Lines):
    """A bar for the whole and a line for each run under way, redrawn in place."""

    def __init__(self, jobs: list[Job], title: str) -> None:
        super().__init__(jobs, title)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:,}/{task.total:,} frames"),
        )
        self.task = self.bar.add_task(title, total=self.budget)
        self.live = Live(console=Console(), refresh_per_second=2)

    def __enter__(self) -> "Bars":
        self.live.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.live.__exit__(None, None, None)

    def say(self, sentence: str) -> None:
        self.live.console.print(sentence, markup=False, highlight=False)

    def show(self, running: list[Job]) -> None:
        frames, rate, left = self.measure(running)
        self.bar.update(self.task, completed=frames)
        table = Table("run", "frames", "of", title=f"{rate:.0f} frames/s, {left} left")
        for job in running:
            table.add_row(self.place(job), f"{self.done[job]:,}", f"{job.planned.frames:,}")
        self.live.update(Group(self.bar, table))


def _display(jobs: list[Job], title: str) -> Lines:
    return Bars(jobs, title) if sys.stdout.isatty() else Lines(jobs, title)
