"""The checkpoint: safetensors, JSON and a sealed manifest in a directory that appears whole.

A state is a nested dict with string keys; its leaves are tensors, numpy arrays, int, float, str,
bool, None, and lists of those plain values. Reading gives it back with every tensor and array as
a contiguous CPU tensor that owns its memory (the dtype is kept, strides are not; copy it into the
tensor it belongs to). Nothing here can unpickle: a checkpoint from a stranger is data.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from crosstraj import disk
from crosstraj.errors import BadInput
from crosstraj.runs import codec as tree
from crosstraj.runs.codec import State

Facts = Mapping[str, Any]

FORMAT = 1

WEIGHTS, TRAINING = "weights.safetensors", "training.safetensors"
STATE, MANIFEST = "state.json", "MANIFEST.json"
FILES = (WEIGHTS, TRAINING, STATE, MANIFEST)


class Broken(BadInput):
    """A checkpoint that does not verify; the one before it may."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is broken: {reason}; remove it or restore it from a copy")
        self.reason = reason


def clean(parent: Path) -> None:
    """Remove what a process that died in a save left behind."""
    for path in parent.glob(".tmp-*"):
        disk.remove(path)


# --- Writing


def write(parent: Path, step: int, state: State, facts: Facts) -> Path:
    """Save a state as `parent/step-<step>`; keep it and the newest valid one before it."""
    tensors: dict[str, Tensor] = {}
    values = tree.encode(state, "", tensors)
    weights = {name: tensor for name, tensor in tensors.items() if name.startswith("weights/")}
    training = {name: tensor for name, tensor in tensors.items() if name not in weights}
    files = {
        WEIGHTS: tree.pack({name.removeprefix("weights/"): weights[name] for name in weights}),
        TRAINING: tree.pack(training),
        STATE: json.dumps(values, separators=(",", ":")).encode(),
    }
    path = _publish(parent, step, files, facts)
    with suppress(OSError):  # what cannot be removed costs space, and the next save tries again
        _prune(parent, path)
    return path


def write_weights(parent: Path, step: int, weights: Mapping[str, Tensor], facts: Facts) -> Path:
    """Save weights alone as `parent/step-<step>`; nothing is pruned, the same again is free."""
    files = {WEIGHTS: tree.pack(weights)}
    path = parent / f"step-{step}"
    with suppress(Broken):
        if _contents(path)[1] == files:
            return path
    return _publish(parent, step, files, facts)


def _digest(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _seal(body: Mapping[str, Any]) -> bytes:
    """A manifest as text with the hash of its own content, so that a flip in it is seen too.

    "format" and "seal" keep their meaning in every format to come.
    """
    seal = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps({**body, "seal": seal}, sort_keys=True, indent=1).encode()


def _publish(parent: Path, step: int, files: dict[str, bytes], facts: Facts) -> Path:
    disk.make_directory(parent)
    target, building = parent / f"step-{step}", parent / f".tmp-{step}-{os.getpid()}"
    listed = {name: _digest(data) for name, data in files.items()}
    manifest = _seal({"format": FORMAT, "files": listed, "facts": dict(facts)})
    try:
        disk.remove(building)
        disk.mkdir(building)
        for name, data in {**files, MANIFEST: manifest}.items():
            disk.write_file(building / name, data)
            disk.fsync(building / name)
        disk.fsync(building)
        _set_aside(target)
        disk.rename(building, target)
        disk.fsync(parent)
    except Exception:
        with suppress(OSError):
            disk.remove(building)
        raise
    with suppress(OSError):
        discard(_old(target))
    return target


def _old(path: Path) -> Path:
    return path.with_name(f"{path.name}.old")


def _set_aside(target: Path) -> None:
    """Free a name that is taken; what is valid stays findable until its successor is there."""
    try:
        _contents(target)
    except Broken:
        discard(target)
    else:
        discard(_old(target))
        disk.rename(target, _old(target))


def _prune(parent: Path, latest: Path) -> None:
    """Keep the latest and the newest valid one before it.

    Later steps go too: they belong to a life whose log rows were cut when the run was resumed.
    """
    paths = candidates(parent)
    keep = {latest}
    for path in paths[paths.index(latest) + 1 :]:
        with suppress(Broken):
            _contents(path)
            keep.add(path)
            break
    for path in paths:
        if path not in keep:
            discard(path)


def discard(path: Path) -> None:
    """Remove a checkpoint, if there is one; an observer never meets half of it."""
    if os.path.lexists(path):
        trash = path.with_name(f".tmp-{path.name}")
        disk.remove(trash)
        disk.rename(path, trash)
        disk.remove(trash)


# --- Reading


def newest(parent: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that verifies in full; `warn` is told of each broken one."""
    while True:
        for path in candidates(parent):
            before = _stamp(path)
            try:
                _contents(path)
                return path
            except Broken as broken:
                if before is None or _stamp(path) != before:
                    break  # its owner replaced or removed it while it was read: look again
                warn(f"{path} is broken: {broken.reason}; trying the checkpoint before it")
        else:
            return None


def newest_facts(parent: Path) -> dict[str, Any]:
    """The facts of the newest checkpoint with a whole manifest; no other file is looked at."""
    return next((found for path in candidates(parent) if (found := facts_of(path))), {})


def facts_of(path: Path) -> dict[str, Any]:
    """What a checkpoint or a snapshot says of the machine that wrote it; {} if it does not."""
    with suppress(Broken, OSError, KeyError, TypeError):
        return dict(_manifest(path)["facts"])
    return {}


def read(path: Path) -> tuple[State, dict[str, Any]]:
    """The state and the facts of a checkpoint, or `BadInput` that says what is wrong with it."""
    manifest, contents = _contents(path)
    try:
        tensors = tree.unpack(contents[TRAINING])
        for name, tensor in tree.unpack(contents[WEIGHTS]).items():
            tensors[f"weights/{name}"] = tensor
        state: State = tree.decode(json.loads(contents[STATE]), "", tensors)
        if tensors or not isinstance(state, dict):
            raise ValueError(f"tensors that {STATE} does not name: {sorted(tensors)}")
    except Exception as error:  # whatever a stranger's file makes a parser say, we say one sentence
        raise Broken(path, f"{type(error).__name__}: {error}") from error
    return state, manifest["facts"]


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint or of a snapshot, by name."""
    _, contents = _contents(path)
    try:
        return tree.unpack(contents[WEIGHTS])
    except Exception as error:
        raise Broken(path, f"{WEIGHTS}: {type(error).__name__}: {error}") from error


def candidates(parent: Path) -> list[Path]:
    """Every `step-<n>`, newest first; `step-<n>.old` was being replaced when its process died."""
    names = os.listdir(parent) if parent.is_dir() else []
    steps = [re.fullmatch(r"step-(0|[1-9][0-9]*)(\.old)?", name) for name in names]
    found = [(int(step[1]), not step[2], step[0]) for step in steps if step]
    return [parent / name for _, _, name in sorted(found, reverse=True)]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _contents(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the files of a checkpoint: read once, and verified as they were read."""
    try:
        names = set(os.listdir(path)) - {MANIFEST}
        manifest = _manifest(path)
        listed, _ = manifest["files"], manifest["facts"].items()
        if names != set(listed):
            odd = ", ".join(sorted(names ^ set(listed)))
            raise Broken(path, f"its files are not those of its manifest ({odd})")
        contents = {name: disk.read_plain_file(path / name) for name in listed}
        for name, data in contents.items():
            if len(data) != listed[name]["size"]:
                raise Broken(path, f"{name} has {len(data)} of {listed[name]['size']} bytes")
            if _digest(data) != listed[name]:
                raise Broken(path, f"the SHA-256 of {name} is not that of its manifest")
    except OSError as error:
        raise Broken(path, f"{Path(error.filename or path).name}: {error.strerror}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise Broken(path, f"{MANIFEST} has not the fields of its format ({error})") from error
    return manifest, contents


def _manifest(path: Path) -> dict[str, Any]:
    text = disk.read_plain_file(path / MANIFEST)
    try:
        manifest: dict[str, Any] = json.loads(text)
        del manifest["seal"]
        if _seal(manifest) != text:
            raise ValueError("the text does not match its seal")
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise Broken(path, f"{MANIFEST} is not as it was written ({error})") from error
    if (found := manifest["format"]) != FORMAT:
        raise BadInput(
            f"{path} has format {found}, and this version reads {FORMAT}: "
            "use the version of crosstraj that wrote it, or start the run in another directory"
        )
    return manifest
