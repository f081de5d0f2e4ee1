"""How long `crosstraj watch` takes and how large its clips are: `python -m benchmarks.clips RUN`.

Each clip is made by the command itself, in a process of its own, so that loading the run and the
libraries counts. Without a run, the agents that come with crosstraj are filmed; a run of a method
with prototypes shows what the frames of the same clusters cost. Where other work goes on beside it,
count processor seconds on one core (`taskset -c 0 python -m benchmarks.clips RUN`).
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from crosstraj.report.document import marked_table
from crosstraj.runs.chance import RESULTS
from crosstraj.runs.shipped import AGENTS


def measured(run: str, place: Path) -> list[str]:
    """A row of the table."""
    out = place / "clip.webp"
    command = [sys.executable, "-m", "crosstraj", "watch", run, "--out", str(out)]
    began, before = time.perf_counter(), processor_seconds()
    subprocess.run(command, check=True, capture_output=True)
    seconds, busy = time.perf_counter() - began, processor_seconds() - before
    with Image.open(out) as clip:
        pictures, size = getattr(clip, "n_frames", 1), f"{clip.width} x {clip.height}"
    megabytes = f"{out.stat().st_size / 1e6:.2f}"
    return [run, str(pictures), size, megabytes, f"{seconds:.1f}", f"{busy:.1f}"]


def processor_seconds() -> float:
    """Of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(runs: list[str]) -> None:
    shipped = sorted(path.name for path in (RESULTS / AGENTS).iterdir())
    head = ["run", "pictures", "pixels", "MB", "seconds", "processor seconds"]
    with tempfile.TemporaryDirectory() as place:
        rows = [measured(run, Path(place)) for run in runs or [f"{AGENTS}/{n}" for n in shipped]]
    print(marked_table(head, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
