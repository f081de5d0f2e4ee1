"""`crosstraj watch`."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.cli.runs_given import known, place_in
from crosstraj.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class WatchArguments:
    run: Annotated[Path, POSITIONAL]
    """A run directory, or an agent that comes with crosstraj: agents/<name>."""
    out: Path | None = None
    """The file to write, .webp, .gif or .mp4; default: watch.webp in the run directory."""
    format: Literal["webp", "gif", "mp4"] = "webp"
    """Kind of file without --out; mp4 needs ffmpeg."""
    live: bool = False
    """Show it in this terminal instead of writing a file; Ctrl-C ends it."""
    seen: int = 2
    """Tiles with levels that the agent was trained on."""
    unseen: int = 2
    """Tiles with levels that it has never seen."""
    steps: int = 300
    """Steps to play; each is one picture."""
    fps: int = 15
    """Pictures per second."""
    greedy: bool = False
    """Take the most probable action instead of a sampled one."""
    seed: int = 0
    """Which levels are played and how actions are drawn."""
    step: int | None = None
    """A snapshot or checkpoint by its frame count instead of the newest checkpoint."""
    clusters: bool = True
    """Show frames of the same cluster from other levels, if the method has prototypes."""


def watch(arguments: list[str]) -> None:
    """Watch an agent play levels it was trained on and levels it has never seen, side by side."""
    given = parse(WatchArguments, "watch", watch.__doc__, arguments)
    with uncollected():
        from crosstraj.analysis.output import Output
        from crosstraj.analysis.watching import Scene, watch_live
        from crosstraj.analysis.watching import watch as watch_run

    scene = Scene(
        *(given.seen, given.unseen, given.steps, given.fps),
        *(given.greedy, given.seed, given.step, given.clusters),
    )
    run = known(given.run)
    if given.live:
        watch_live(run, scene)
        return
    out = given.out or place_in(run, f"watch.{given.format}")
    if out.is_dir() and not out.is_symlink():
        raise BadInput(f"--out {out} is a directory; give the file to write, such as clip.webp")
    with uncollected():
        print(watch_run(run, scene, Output(out.parent), out.name))


@contextmanager
def uncollected() -> Iterator[None]:
    """Python does not look for garbage in the block: it would find none, and take half a second."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
