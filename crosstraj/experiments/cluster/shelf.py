"""Run directories on one machine, for runs on machines that share no disk with it.

A run is fetched when it begins on a node and put back at every save. A parcel is checked whole
before a byte of it is written, and written in an order that leaves a valid run directory at every
moment: a damaged parcel, a full disk or a death amid it leaves what was there before, at most with
longer logs. Only the latest owner of a run may put anything.
"""

from pathlib import Path

from crosstraj import disk
from crosstraj.errors import BadInput
from crosstraj.experiments.cluster.owners import Ask
from crosstraj.experiments.cluster.parcel import Packer, Parcel, Stamp, mend, safe, unpack

ALL = "send all of it"  # the answer to a parcel that leaves out what is not here


class Shelf:
    """The keeper: an actor on the driver's machine."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self.latest: dict[str, int] = {}  # the token of the last owner of each run

    def fetch(self, name: str, token: int) -> tuple[Parcel, bytes]:
        """What a run needs to go on, and what its processes said.

        Its snapshots, which no run reads, stay here.
        """
        self.latest[name] = max(token, self.latest.get(name, 0))
        mend(self.root / name)
        parcel, _ = Packer(self.root / name, leave_out=("snapshots",)).pack()
        return parcel, _said(self.root / f"{name}.log")

    def put(self, name: str, token: int, parcel: Parcel, said: bytes) -> str:
        """Take over what a node has saved; "" or what stands against it."""
        try:
            place = self._place(name, token)
            parcel.check()
            brought = {path.rpartition("/")[0] for path in parcel.files}
            if any(unit not in brought and not (place / unit).is_dir() for unit in parcel.units):
                return ALL
            unpack(parcel, place)
            disk.write_whole(place.with_name(f"{name}.log"), said)
        except BadInput as error:
            return str(error)
        except OSError as error:
            return f"{self.root / name} cannot be written: {error.strerror or error}"
        return ""

    def _place(self, name: str, token: int) -> Path:
        if not safe(name) or "/" in name:
            raise BadInput(f"{name!r} is not the name of a run directory")
        if token < self.latest.get(name, 0):
            raise BadInput(f"{name} has another owner by now; what this one sends is not taken")
        self.latest[name] = token
        return self.root / name


class Courier:
    """The node's side: fetches a run at its start, and puts it back whenever it has saved."""

    def __init__(self, ask: Ask, name: str, token: int, place: Path) -> None:
        self.ask, self.name, self.token = ask, name, token
        self.directory, self.log = place / name, place / f"{name}.log"
        self.packer = Packer(self.directory)
        self.seen: dict[str, Stamp | None] = {}

    def fetch(self) -> None:
        """What the shelf has, in place of whatever an earlier life left on this machine."""
        disk.remove(self.directory)
        parcel, said = self.ask("fetch", self.name, self.token)
        disk.write_whole(self.log, said)
        if parcel.files:
            unpack(parcel, self.directory)
        self.packer.sent = self.packer.pack()[1]
        self.seen = self.packer.saves()

    def put_news(self) -> str:
        """If the run has saved since the last look, put it back; "" or what went wrong."""
        return self.put() if self.packer.saves() != self.seen else ""

    def put(self) -> str:
        seen = self.packer.saves()
        try:
            parcel, sent = self.packer.pack()
            answer = self.ask("put", self.name, self.token, parcel, _said(self.log))
            if answer == ALL:
                self.packer.sent = {}
                parcel, sent = self.packer.pack()
                answer = self.ask("put", self.name, self.token, parcel, _said(self.log))
        except OSError as error:
            return f"{self.directory} cannot be read: {error.strerror or error}"
        if not answer:
            self.packer.sent, self.seen = sent, seen
        return str(answer)

    def leave(self) -> None:
        """Nothing stays on the node of what has arrived on the shelf."""
        disk.remove(self.directory)
        disk.remove(self.log)


def _said(log: Path) -> bytes:
    return log.read_bytes() if log.exists() else b""
