"""What a person sees of a long run: a live table on a terminal, plain lines otherwise."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from crosstraj.health.glossary import GLOSSARY, shorts

COLUMNS = shorts(  # what is shown, in this order
    *("phase", "train_return", "seen_return", "unseen_return", "validation_return", "entropy"),
    *("kl", "cluster", "view_cosine", "code_entropy", "codes_about_level", "action_gain"),
    *("skill_accuracy", "feature_rank"),
)


def screen(stderr: bool = False, width: int | None = None) -> Console:
    """A terminal on which a name with [brackets] stays text."""
    return Console(stderr=stderr, width=width, markup=False, highlight=False)


def progress_text(words: str) -> TextColumn:
    """The same for a column of a bar, which has a mind of its own."""
    return TextColumn(words, markup=False)


def columns_of(row: dict[str, float]) -> dict[str, str]:
    """Name -> heading of what is shown of a row; a person's own ("mine/accuracy") come last."""
    own = {name: name.partition("/")[2] for name in row if "/" in name}
    return {name: heading for name, heading in (COLUMNS | own).items() if name in row}


class Display(Protocol):
    def show(self, frames: int, row: dict[str, float]) -> None: ...

    def say(self, sentence: str) -> None: ...


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


class Rate:
    """Frames per second since this process began, and the time that is left."""

    def __init__(self, budget: int) -> None:
        self.budget, self.began, self.first = budget, time.monotonic(), -1

    def __call__(self, frames: int) -> tuple[float, str]:
        if self.first < 0:
            self.first, self.began = frames, time.monotonic()
        passed = time.monotonic() - self.began
        rate = (frames - self.first) / passed if passed > 0 else 0.0
        return rate, clock(max(0, self.budget - frames) / rate) if rate else "-:--:--"


@contextmanager
def spared() -> Iterator[None]:
    """What is shown may go to a disk that is full: this costs the line, never the run."""
    try:
        yield
    except BrokenPipeError:  # nobody listens any more, which is another matter
        raise
    except OSError:
        pass


class Plain:
    """One line per update, for logs and pipes; lines go to standard output, sentences to error."""

    def __init__(self, budget: int) -> None:
        self.budget, self.rate = budget, Rate(budget)
        self.latest: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, frames: int, row: dict[str, float]) -> None:
        self.latest |= row
        rate, left = self.rate(frames)
        figures = "  ".join(
            f"{heading} {self.latest[name]:.3g}"
            for name, heading in columns_of(self.latest).items()
        )
        line = f"{frames:>10,}/{self.budget:,}  {rate:5.0f}/s  {left} left  {figures}"
        with spared():
            print(line, flush=True)

    def say(self, sentence: str) -> None:
        with spared():
            print(sentence, file=sys.stderr, flush=True)


class Terminal:
    """A bar, the rate, the time left and the latest figures, redrawn in place."""

    def __init__(self, budget: int, title: str) -> None:
        self.rate, self.title, self.latest = Rate(budget), title, dict[str, float]()
        self.console = screen()
        self.bar = Progress(
            progress_text("{task.description}"),
            BarColumn(bar_width=None),
            progress_text("{task.completed:,}/{task.total:,} frames"),
            console=self.console,
        )
        self.task = self.bar.add_task(title, total=budget)
        self.live = Live(console=self.console, refresh_per_second=2)

    def __enter__(self) -> Self:
        self.live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.live.__exit__(kind, error, trace)

    def show(self, frames: int, row: dict[str, float]) -> None:
        self.latest |= row
        rate, left = self.rate(frames)
        self.bar.update(self.task, completed=frames)
        known = columns_of(self.latest)
        table = Table(GLOSSARY["speed"].short, "left", *known.values())
        table.add_row(f"{rate:.0f}", left, *(f"{self.latest[name]:.3g}" for name in known))
        with spared():
            self.live.update(Group(self.bar, table))

    def say(self, sentence: str) -> None:
        with spared():
            self.live.console.print(sentence, style="yellow")


def display_for(budget: int, title: str) -> Plain | Terminal:
    return Terminal(budget, title) if sys.stdout.isatty() else Plain(budget)


@contextmanager
def stage(name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show one stage of a computation on standard error: a bar on a terminal, else two lines.

    The block is given a function that it calls with how many more of `total` are done; without a
    total the bar only shows that work goes on.
    """
    console, began = screen(stderr=True), time.monotonic()
    if not console.is_terminal:
        print(f"{name} ...", file=sys.stderr, flush=True)
        yield lambda count: None
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        return
    columns = (
        progress_text("{task.description:<31}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(name, total=total)
        yield lambda count: bar.advance(task, count)
        done = total or 1
        bar.update(task, total=done, completed=done)
