"""The run directory: one owner, its configuration, its logs, its checkpoints and its summary."""

import json
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from crosstraj import disk
from crosstraj.config.dotted import as_json, differences
from crosstraj.config.stored import FORMAT, stored_identity
from crosstraj.errors import BadInput
from crosstraj.runs import checkpoint
from crosstraj.runs.codec import State
from crosstraj.runs.lock import NAME as LOCK
from crosstraj.runs.lock import disown, own
from crosstraj.runs.log import Log, Warn, plain_number
from crosstraj.runs.made_by import sign

LOGS = ("metrics.jsonl", "timing.jsonl", "episodes.jsonl")


def run_directory(root: Path, method: str, game: str, seed: int, identity: str) -> Path:
    """`root/<method>-<game>-s<seed>-<8 hex digits>`: one safe file name, whatever the game's name.

    Two games that become the same name have different identities, hence different directories.
    """
    if not re.fullmatch(r"[0-9a-f]{8,}", identity):
        raise ValueError(f"identity {identity!r} is not a hexadecimal digest; use identity_of")
    safe = [re.sub(r"[^A-Za-z0-9_.]+", "-", name)[:80].strip(".-") for name in (method, game)]
    return Path(root) / f"{safe[0] or '_'}-{safe[1] or '_'}-s{int(seed)}-{identity[:8]}"


def machine_facts(compiled: bool) -> dict[str, Any]:
    """What has to be equal for a resumed run to give the same bits."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "compiled": compiled,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
    }


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


@contextmanager
def _usable(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"run directory {directory} cannot be used: {error.strerror}; "
            "choose one that can be made and written"
        ) from error


@dataclass
class Run:
    """A process's hold on a run directory. `open` it, `restore`, then write, save and `finish`.

    A finished run is only asked for its summary: `restore` cuts the logs back to the last save.
    """

    directory: Path
    config: dict[str, Any]
    facts: dict[str, Any]
    allow_inexact: bool
    warn: Warn
    lock: int
    metrics: Log
    timing: Log
    episodes: Log

    @classmethod
    def open(
        cls,
        directory: Path,
        config: Mapping[str, Any],
        identity: str,
        facts: Mapping[str, Any],
        *,
        allow_inexact: bool = False,
        warn: Warn = _say,
    ) -> Self:
        """Own the directory (made if need be), or say why not: `Owned` or `BadInput`."""
        directory = Path(directory)
        with _usable(directory):
            disk.make_directory(directory)
            lock = own(directory / LOCK)
            try:
                for place in (directory, directory / "checkpoints", directory / "snapshots"):
                    checkpoint.clean(place)
                identity = _settle_config(directory / "config.json", as_json(config), identity)
                metrics, timing, episodes = (Log(directory / name, warn) for name in LOGS)
                disk.fsync(directory)  # a checkpoint must not outlive the names of its logs
            except BaseException:
                disown(lock)
                raise
        known = as_json({**facts, "identity": identity})
        logs = (metrics, timing, episodes)
        return cls(directory, dict(config), known, allow_inexact, warn, lock, *logs)

    def save(self, state: State, step: int) -> bool:
        """Write a checkpoint that knows the lengths of the logs; on a full disk: warn, False."""
        if "logs" in state:
            raise ValueError("state['logs'] is kept for the lengths of the logs; rename it")

        def write() -> None:
            lengths = {log.path.name: log.sync() for log in self._logs}
            place = self.directory / "checkpoints"
            checkpoint.write(place, step, {**state, "logs": lengths}, self.facts)

        return self._try(f"checkpoint at step {step}", write)

    def snapshot(self, weights: Mapping[str, Tensor], step: int) -> bool:
        """Keep these weights for good; the same again is free. On a full disk: warn, False."""
        place = self.directory / "snapshots"
        return self._try(
            f"snapshot at step {step}",
            lambda: checkpoint.write_weights(place, step, weights, self.facts),
        )

    def dump(self, tensors: Mapping[str, Tensor], step: int) -> Path:
        """Keep tensors for somebody to look at: nonfinite/step-<n>; never read by us."""
        place = self.directory / "nonfinite"
        self._try(
            f"dump at step {step}",
            lambda: checkpoint.write_weights(place, step, tensors, self.facts),
        )
        return place / f"step-{step}"

    def finish(self, summary: Mapping[str, Any]) -> bool:
        """Write summary.json, with "frames" in it, after the last save; on failure: warn, False."""
        text = json.dumps({"frames": summary["frames"], **summary}, indent=1, default=plain_number)

        def write() -> None:
            for log in self._logs:
                log.sync()
            disk.write_whole(self.directory / "summary.json", text.encode())

        return self._try("summary", write)

    def _try(self, what: str, write: Callable[[], object]) -> bool:
        try:
            write()
        except OSError as error:
            self.warn(
                f"{what} of {self.directory} could not be written: {error.strerror or error}; "
                "what was saved before is kept, and the run goes on"
            )
            return False
        return True

    def restore(self) -> State | None:
        """The state of the newest valid checkpoint; rows written after it are cut from the logs.

        Without one the run begins again, with empty logs.
        """
        place = self.directory / "checkpoints"
        path = checkpoint.newest(place, self.warn)
        state: State = {}
        if path:
            state, facts = checkpoint.read(path)
            self._check_facts(path, facts)
        elif place.is_dir() and any(place.iterdir()):
            self.warn(f"no checkpoint in {place} is valid; the run begins again")
        lengths = state.pop("logs", {})
        for log in self._logs:
            log.check(lengths.get(log.path.name, 0))
        for log in self._logs:
            log.cut(lengths.get(log.path.name, 0))
        with _usable(self.directory):  # nothing has refused, so a larger budget holds from here on
            _settle_config(
                self.directory / "config.json", self.config, self.facts["identity"], extend=True
            )
        self._try("the version of the code", lambda: sign(self.directory))
        return state if path else None

    def saved_fact(self, name: str) -> Any:
        """What the newest checkpoint says of the machine that wrote it; None if it does not."""
        return checkpoint.newest_facts(self.directory / "checkpoints").get(name)

    def _check_facts(self, path: Path, found: dict[str, Any]) -> None:
        unsaid = self.facts.keys() - found.keys() - {"identity"}
        if unsaid:
            self.warn(f"{path} does not say with which {', '.join(sorted(unsaid))} it was written")
        different = differences(found, {k: v for k, v in self.facts.items() if k not in unsaid})
        if found.get("identity") != self.facts["identity"]:
            raise BadInput(f"{path} is of another configuration ({different}); remove it")
        if different and not self.allow_inexact:
            raise BadInput(
                f"{path} was written elsewhere ({different}), so resuming would not be exact; "
                "use what wrote it, or pass --allow-inexact"
            )
        if different:
            self.warn(f"{path} was written elsewhere ({different}); resuming is not exact")

    def summary(self) -> dict[str, Any] | None:
        """What `finish` wrote, also when a larger `frames` has made it stale: see `finished`."""
        return _read_json(self.directory / "summary.json", "frames")

    @property
    def finished(self) -> bool:
        summary = self.summary()
        return summary is not None and bool(summary["frames"] >= self.config["frames"])

    @property
    def _logs(self) -> tuple[Log, Log, Log]:
        return self.metrics, self.timing, self.episodes

    def close(self) -> None:
        for log in self._logs:
            log.close()
        disown(self.lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def former(directory: Path, identity: str) -> Path | None:
    """Where an earlier version has begun a run of these values, under a name of its own."""
    begin = directory.name.rpartition("-")[0]
    for place in sorted(directory.parent.glob(f"{begin}-????????")):
        try:
            found = _read_json(place / "config.json", "config", "frames")
        except BadInput:
            continue
        if found and stored_identity(found["config"], found.get("format")) == identity:
            return place
    return None


def _settle_config(
    path: Path, config: dict[str, Any], identity: str, *, extend: bool = False
) -> str:
    """Write config.json once; refuse another configuration; `extend`: take over a larger `frames`.

    Not where there are phases: another budget would move their beginnings. Returns the identity
    that the run goes by: that of the version that began it, which its checkpoints have, too.
    """
    found = _read_json(path, "config", "frames")
    if found is not None:
        known, version = str(found.get("identity")), found.get("format")
        if version not in range(1, FORMAT + 1):
            raise BadInput(
                f"{path} has format {version!r}, and this version goes on with {FORMAT}"
                "; use the version of crosstraj that wrote it, or another directory"
            )
        if identity not in (known, stored_identity(found["config"], version)):
            different = differences(found["config"], config)
            raise BadInput(
                f"{path.parent} holds another configuration ({different}); "
                "use its values, or another directory"
            )
        budget = found["config"]["frames"]
        if config.get("phases") and budget != config["frames"]:
            raise BadInput(
                f"frames={config['frames']}: {path.parent} was begun with {budget}, and its phases "
                f"are parts of that budget; use --frames {budget}, or another --saving.runs"
            )
        if budget >= config["frames"] or not extend:
            return known
        identity = known
    whole = (found or {}) | {"format": FORMAT, "identity": identity, "config": config}
    text = json.dumps(whole, indent=1)
    disk.write_whole(path, text.encode())
    return identity


def _read_json(path: Path, *keys: str) -> dict[str, Any] | None:
    """A JSON object with an int under these nested keys, or None if there is no file."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        value: Any = found
        for key in keys:
            value = value[key]
        if type(value) is not int:
            raise TypeError(f"{'.'.join(keys)} is {value!r}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, LookupError, TypeError) as error:
        raise BadInput(
            f"{path} is damaged ({type(error).__name__}: {error}); restore it, or remove it and "
            "run the same command again"
        ) from error
    return found
