"""Many runs, one after another or several at a time, each a process of our own command line.

What a run has done is in its run directory, or in the logs kept of it: a finished one is skipped, a
partial one resumed by its own command. One that fails does not stop the others.
"""

import subprocess
import sys
import time
from pathlib import Path

from crosstraj.config.methods import words_for
from crosstraj.cores import memory, usable_cores
from crosstraj.errors import BadInput, Refusal
from crosstraj.experiments.jobs import Job
from crosstraj.experiments.plan import Value
from crosstraj.experiments.standing import display_for
from crosstraj.learning.signals import Interrupted, Stop
from crosstraj.runs.tail import last_words

LOOK = 0.3  # seconds between two looks at the children
# GiB for each run. 1.8 GB were measured with minibatches of 1024 frames and 2.6 with 2048, as
# `--preset procgen` has them (results/bench/full.json); the rest is the system's, of which nothing
# else is kept back. Another figure makes other numbers of runs, and so of threads, which round
# differently: an experiment that was begun could not go on.
RUN_MEMORY = 3.0


class Failed(Refusal):
    """Some runs failed; the exit code is theirs if they agree."""

    def __init__(self, codes: dict[str, int], total: int) -> None:
        several = ", ".join(f"{name} (exit code {codes[name]})" for name in sorted(codes))
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
    with Stop(hand_on) as stop, display_for(jobs, title) as display:
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
                    said = last_words(job.log) or "it said nothing"
                    end = f"ended with exit code {code}: {said}" if code else "is done"
                    display.say(f"{display.place(job)} {end}")
                    display.ended(job, code)
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


def words_of(job: Job, threads: int, allow_inexact: bool) -> list[str]:
    """What comes after `crosstraj` in the command of a run, but for --saving.runs."""
    more: dict[str, Value] = {}
    if threads:
        more["machine.threads"] = threads
    if allow_inexact:
        more["allow_inexact"] = True
    own = words_for(job.config.method)  # a flag and a file: the process may begin elsewhere
    return [*job.planned.command(more), *own[:1], *(str(Path(file).resolve()) for file in own[1:])]


def _start(job: Job, threads: int, allow_inexact: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "crosstraj", *words_of(job, threads, allow_inexact)]
    command += ["--saving.runs", str(job.config.saving.runs)]
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
