"""Watches the processes of runs: are two ever training the same one?"""

import threading
from pathlib import Path

LOOK = 0.5  # seconds between two looks


def processes_of(place: Path) -> dict[int, str]:
    """The living processes that train runs in this place, by number, with their command."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if "train" in words and str(place) in words[-2] and state not in "ZX":
            found[int(path.name)] = " ".join(words)
    return found


class Watch:
    """While it is open, notes every run that two processes train; a moment of dying is none."""

    def __init__(self, place: Path) -> None:
        self.place, self.twice = place, list[str]()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _look(self) -> None:
        before: set[tuple[int, ...]] = set()
        while not self._closed.wait(LOOK):
            by_seed: dict[str, list[int]] = {}
            for pid, command in processes_of(self.place).items():
                by_seed.setdefault(command.partition("--seed ")[2].split()[0], []).append(pid)
            pairs = {tuple(sorted(pids)) for pids in by_seed.values() if len(pids) > 1}
            self.twice += [f"processes {pair} trained one run" for pair in pairs & before]
            before = pairs
