"""What a person sees of many runs: one display for all, wherever they run.

Progress over frames and runs, frames per second in sum, the time left, failures, and the table so
far: the mean return of finished runs, by variant and game. Redrawn in place on a terminal, plain
lines elsewhere.
"""

import math
import sys
import time

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress
from rich.table import Table

from crosstraj.errors import BadInput
from crosstraj.experiments import random_play
from crosstraj.experiments.jobs import Job
from crosstraj.learning.display import Rate, progress_text, screen
from crosstraj.runs.read import summary

SPEAK = 30.0  # seconds between two lines where there is no terminal
TABULATE = 1800.0  # and between two tables
ROWS = 12  # runs under way that are shown one by one


def return_of(job: Job) -> float | None:
    """The return on held-out levels of a finished run, if its summary tells of one."""
    try:
        found = summary(job.logs)
        return float(found.get("unseen_return", found.get("validation_return", "none")))
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def random_play_of(job: Job) -> float:
    """What random play earns on the levels that `return_of` tells of; NaN: nobody knows."""
    only_validation = job.config.evaluation.held_out == "validation"
    try:
        return random_play.read(job.config, "validation" if only_validation else "unseen")
    except BadInput:  # a damaged file must not end the runs
        return math.nan


class Standing:
    """Which runs are finished, and their mean return by variant and game."""

    def __init__(self, jobs: list[Job]) -> None:
        self.games = list(dict.fromkeys(job.planned.game for job in jobs))
        self.variants = list(dict.fromkeys(job.planned.variant for job in jobs))
        self.total, self.finished, self.failed = len(jobs), set[Job](), set[Job]()
        self.returns: dict[tuple[str, str], list[float]] = {}
        first = {job.planned.game: job for job in reversed(jobs)}
        self.random = {game: random_play_of(first[game]) for game in self.games}
        for job in jobs:
            if job.finished():
                self.ended(job, 0)

    def ended(self, job: Job, code: int) -> None:
        if code:
            self.failed.add(job)
            return
        self.finished.add(job)
        if (found := return_of(job)) is not None:
            self.returns.setdefault((job.planned.variant, job.planned.game), []).append(found)

    def words(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{len(self.finished)} of {self.total} runs finished{failed}"

    def rows(self) -> list[list[str]]:
        """A header, a row for each variant with a finished run: mean return (runs); random play."""
        of = self.returns
        rows = [["return so far", *self.games]]
        for variant in self.variants:
            cells = [of.get((variant, game)) for game in self.games]
            if any(cells):
                shown = (f"{sum(c) / len(c):.2f} ({len(c)})" if c else "-" for c in cells)
                rows.append([variant, *shown])
        if len(rows) == 1:
            return []
        if any(map(math.isfinite, self.random.values())):
            shown = (f"{x:.2f}" if math.isfinite(x) else "-" for x in self.random.values())
            rows.append(["random play", *shown])
        return rows


class Lines:
    """Lines on standard output: when a run begins or ends, and one now and then."""

    def __init__(self, jobs: list[Job], title: str) -> None:
        self.order = {job.planned.name: index for index, job in enumerate(jobs, 1)}
        self.title = title
        self.budget = sum(job.planned.frames for job in jobs)
        self.done = {job: job.frames() for job in jobs}
        self.standing = Standing(jobs)
        self.rate = Rate(self.budget)
        self.rate(sum(self.done.values()))
        self.spoke = self.tabulated = time.monotonic()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None: ...

    def place(self, job: Job) -> str:
        return f"run {self.order[job.planned.name]} of {len(self.order)}, {job.planned.name},"

    def say(self, sentence: str) -> None:
        print(sentence, flush=True)

    def ended(self, job: Job, code: int) -> None:
        """A run has ended, with this exit code."""
        self.done[job] = job.frames()
        self.standing.ended(job, code)

    def measure(self, running: list[Job]) -> tuple[int, float, str]:
        """Frames done of the whole, frames per second, time left."""
        for job in running:
            self.done[job] = job.frames()
        frames = sum(self.done.values())
        return frames, *self.rate(frames)

    def show(self, running: list[Job]) -> None:
        now = time.monotonic()
        if not running or now - self.spoke < SPEAK:
            return
        self.spoke = now
        frames, rate, left = self.measure(running)
        some = "; ".join(f"{self.place(job)} {self.done[job]:,}" for job in running[:ROWS])
        more = f"; and {len(running) - ROWS} more" if len(running) > ROWS else ""
        print(
            f"{frames:,}/{self.budget:,} frames  {rate:.0f}/s  {left} left  "
            f"{self.standing.words()}  ({some}{more})",
            flush=True,
        )
        if now - self.tabulated >= TABULATE:
            self.tabulated = now
            for row in self.standing.rows():
                print("  ".join(row), flush=True)


class Bars(Lines):
    """A bar for the whole and a line for each run under way, redrawn in place."""

    def __init__(self, jobs: list[Job], title: str) -> None:
        super().__init__(jobs, title)
        self.bar = Progress(
            progress_text("{task.description}"),
            BarColumn(bar_width=None),
            progress_text("{task.completed:,}/{task.total:,} frames"),
        )
        self.task = self.bar.add_task(title, total=self.budget)
        self.live = Live(console=screen(), refresh_per_second=2)

    def __enter__(self) -> "Bars":
        self.live.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.live.__exit__(None, None, None)

    def say(self, sentence: str) -> None:
        self.live.console.print(sentence)

    def show(self, running: list[Job]) -> None:
        frames, rate, left = self.measure(running)
        self.bar.update(self.task, completed=frames)
        title = f"{rate:.0f} frames/s, {left} left, {self.standing.words()}"
        under_way = Table("run", "frames", "of", title=title)
        for job in running[:ROWS]:
            under_way.add_row(self.place(job), f"{self.done[job]:,}", f"{job.planned.frames:,}")
        if len(running) > ROWS:
            under_way.add_row(f"and {len(running) - ROWS} more", "", "")
        parts: list[Progress | Table] = [self.bar, under_way]
        if rows := self.standing.rows():
            so_far = Table(*rows[0])
            for row in rows[1:]:
                so_far.add_row(*row)
            parts.append(so_far)
        self.live.update(Group(*parts))


def display_for(jobs: list[Job], title: str) -> Lines:
    return Bars(jobs, title) if sys.stdout.isatty() else Lines(jobs, title)
