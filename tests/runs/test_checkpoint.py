"""The checkpoint: what goes in comes out, and nothing that happens to a disk makes it an error."""

import ast
import errno
import json
import math
import os
import pickle
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import crosstraj
from crosstraj import disk
from crosstraj.errors import BadInput
from crosstraj.runs import checkpoint
from tests.helpers import silent
from tests.runs.faults import Fault, equal

FACTS = {"torch": "2.13.0", "threads": 2, "compiled": False}


def make_state(step: int) -> checkpoint.State:
    return {
        "weights": {
            "encoder.bias": torch.full((40,), float(step)),
            "head": {"w": torch.ones(2, 3)},
        },
        "moments": {"first": torch.arange(30) + step},
        "step": step,
    }


LEAVES = {
    "float32": torch.randn(3, 4),
    "a parameter": torch.nn.Parameter(torch.randn(3)),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "a view": torch.arange(20)[3:17:2],
    "float64": torch.tensor([0.1, math.nan, math.inf], dtype=torch.float64),
    "bfloat16": torch.ones(3, dtype=torch.bfloat16),
    "uint8": torch.arange(255, dtype=torch.uint8),
    "int64": torch.tensor([-(2**63), 2**63 - 1]),
    "bool": torch.tensor([True, False]),
    "scalar tensor": torch.tensor(3.5),
    "empty tensor": torch.empty(0, 3),
    "array": np.arange(6.0).reshape(2, 3),
    "uint32 array": np.arange(6, dtype=np.uint32),
    "uint64 array": np.array([2**64 - 1], dtype=np.uint64),
    "scalar array": np.array(2, dtype=np.int16),
    "big-endian array": np.arange(3, dtype=">i4"),
    "read-only array": np.frombuffer(b"abc", dtype=np.uint8),
    "empty dict": {},
    "empty list": [],
    "integers": [0, -1, 2**63, -(2**127) - 1],
    "an integer of 5001 digits": 10**5000,
    "floats": [0.1, -0.0, 1e-320, math.inf, -math.inf, math.nan],
    "words": ["", "ä/\n\x00", "\ud800", "/tensor"],
    "constants": [True, False, None],
    "nested": {"deep": {"deeper": {"empty": {}, "x": torch.zeros(1), "last": 1}}},
}


@pytest.mark.parametrize("place", ["weights", "training"])
@pytest.mark.parametrize("kind", LEAVES)
def test_every_leaf_comes_back(tmp_path: Path, kind: str, place: str) -> None:
    state = {place: {"before": 1, kind: LEAVES[kind], "after": torch.ones(1)}}
    found, facts = checkpoint.read(checkpoint.write(tmp_path, 3, state, FACTS))
    assert equal(state, found)
    assert facts == FACTS


def test_what_comes_back_owns_aligned_memory(tmp_path: Path) -> None:
    state = {"x": {"odd": torch.zeros(3, dtype=torch.uint8), "wide": torch.zeros(5)}}
    found, _ = checkpoint.read(checkpoint.write(tmp_path, 0, state, {}))
    for tensor in found["x"].values():
        tensor.add_(1)
        assert tensor.data_ptr() % 64 == 0
        assert tensor.untyped_storage().nbytes() == tensor.nbytes


def test_tensors_that_share_memory_are_all_saved(tmp_path: Path) -> None:
    base = torch.arange(10.0)
    state = {"weights": {"a": base, "b": base, "c": base[2:5], "d": base.view(2, 5)}}
    assert equal(state, checkpoint.read(checkpoint.write(tmp_path, 0, state, {}))[0])


def test_the_files_are_those_of_the_design_and_equal_states_are_equal_bytes(tmp_path: Path) -> None:
    paths = [checkpoint.write(tmp_path / name, 5, make_state(5), FACTS) for name in "ab"]
    names = ["MANIFEST.json", "state.json", "training.safetensors", "weights.safetensors"]
    for path in paths:
        assert path.name == "step-5"
        assert sorted(os.listdir(path)) == names
        assert list(checkpoint.read_weights(path)) == ["encoder.bias", "head/w"]
    for name in names:
        assert (paths[0] / name).read_bytes() == (paths[1] / name).read_bytes()
    manifest = json.loads((paths[0] / "MANIFEST.json").read_text())
    assert manifest["facts"] == FACTS
    for name, entry in manifest["files"].items():
        assert entry["size"] == (paths[0] / name).stat().st_size


@pytest.mark.parametrize(
    "bad",
    [
        {"a/b": 1},
        {3: 1},
        {"": 1},
        {"__metadata__": torch.zeros(1)},
        {"x": (1, 2)},
        {"x": [[1]]},
        {"x": [torch.zeros(1)]},
        {"x": np.float32(1)},
        {"x": np.array(["text"])},
        {"x": {1, 2}},
        {"x": b"bytes"},
    ],
)
def test_what_would_come_back_different_is_refused_by_name(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(TypeError, match=r"\bx\b|key"):
        checkpoint.write(tmp_path, 0, bad, {})
    assert checkpoint.newest(tmp_path, silent) is None


# --- The two newest are kept


def test_the_two_newest_valid_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoint.write(tmp_path, step, make_state(step), FACTS)
    assert sorted(os.listdir(tmp_path)) == ["step-2", "step-3"]
    (tmp_path / "step-3" / "state.json").write_text("{}")
    checkpoint.write(tmp_path, 10, make_state(10), FACTS)  # 10 is newer than 2: not by spelling
    assert sorted(os.listdir(tmp_path)) == ["step-10", "step-2"]


def test_steps_of_a_life_that_was_given_up_go_with_the_next_save(tmp_path: Path) -> None:
    for step in (1, 9):
        checkpoint.write(tmp_path, step, make_state(step), FACTS)
    checkpoint.write(tmp_path, 5, make_state(5), FACTS)
    assert sorted(os.listdir(tmp_path)) == ["step-1", "step-5"]


@pytest.mark.parametrize("before", ["valid", "broken", "empty", "a file", "a link"])
def test_a_step_that_is_there_already_is_replaced(tmp_path: Path, before: str) -> None:
    target = tmp_path / "step-5"
    if before in ("valid", "broken"):
        checkpoint.write(tmp_path, 5, make_state(4), FACTS)
    if before == "broken":
        (target / "MANIFEST.json").unlink()
    if before == "empty":
        target.mkdir()
    if before == "a file":
        target.write_text("x")
    if before == "a link":
        target.symlink_to(tmp_path / "nowhere")
    assert equal(
        make_state(5), checkpoint.read(checkpoint.write(tmp_path, 5, make_state(5), {}))[0]
    )
    assert os.listdir(tmp_path) == ["step-5"]


def test_leftovers_are_removed_and_never_taken_for_a_checkpoint(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, 1, make_state(1), FACTS)
    shutil.copytree(tmp_path / "step-1", tmp_path / ".tmp-9-123")
    for name in ("step-07", "step-8x", "step-", "step-٣", "notes"):
        shutil.copytree(tmp_path / "step-1", tmp_path / name)
    assert checkpoint.newest(tmp_path, silent) == tmp_path / "step-1"
    checkpoint.clean(tmp_path)
    assert not list(tmp_path.glob(".tmp-*"))
    assert checkpoint.newest(tmp_path / "nowhere", silent) is None


# --- The process dies, or the disk fails, at every operation


def test_everything_is_on_the_disk_before_the_name_is_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal: list[tuple[str, str]] = []

    def noted(name: str, real: Callable[..., None]) -> Callable[..., None]:
        def operation(*arguments: Any) -> None:
            journal.append((name, arguments[0].name))
            real(*arguments)

        return operation

    for name in ("write_file", "fsync", "rename"):
        monkeypatch.setattr(disk, name, noted(name, getattr(disk, name)))
    checkpoint.write(tmp_path, 1, make_state(1), FACTS)
    files = [
        entry for file in checkpoint.FILES for entry in (("write_file", file), ("fsync", file))
    ]
    building = f".tmp-1-{os.getpid()}"
    end = [("fsync", building), ("rename", building), ("fsync", tmp_path.name)]
    assert journal == files + end


class Died(BaseException):
    """Stands for the end of the process: nothing of ours may run after it."""


def die() -> None:
    raise Died


def no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


SITUATIONS = {  # what is there before the save of step 5
    "nothing": (),
    "one": (4,),
    "two": (3, 4),
    "two and a later one": (3, 4, 6),
    "the same step": (5,),
    "the same step and one before": (4, 5),
}


def faults(
    tmp_path: Path, situation: str, when: str, fail: Callable[[], None]
) -> Iterator[tuple[Path, int | None]]:
    """A directory for every n, after a save of step 5 that failed at its n-th operation."""
    for at in range(1, 100):
        place = tmp_path / str(at)
        for step in SITUATIONS[situation]:
            checkpoint.write(place, step, make_state(step), FACTS)
        if 6 in SITUATIONS[situation]:
            (place / "step-6" / "state.json").unlink()
        with pytest.MonkeyPatch.context() as monkeypatch:
            fault = Fault(monkeypatch, at, when, fail)
            with suppress(Died, OSError):
                checkpoint.write(place, 5, {**make_state(5), "new": True}, FACTS)
        if fault.count < at:
            assert at > 13, "the save has at least 13 operations"
            return
        yield place, max((step for step in SITUATIONS[situation] if step < 6), default=None)
    raise AssertionError("a save has fewer than 100 operations")


@pytest.mark.parametrize("when", ["amid", "after"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_death_at_every_operation_leaves_the_old_or_the_new(
    tmp_path: Path, situation: str, when: str
) -> None:
    seen = set()
    for place, old in faults(tmp_path, situation, when, die):
        path = checkpoint.newest(place, lambda sentence: None)
        if path is None:
            assert old is None
            continue
        state, _ = checkpoint.read(path)
        seen.add("new" if "new" in state else "old")
        assert "new" in state or state["step"] == old
        checkpoint.clean(place)
        checkpoint.write(place, 5, make_state(5), FACTS)  # the next life saves over what is left
        assert checkpoint.newest(place, silent) == place / "step-5"
        assert not [name for name in os.listdir(place) if not name.startswith("step-")]
    assert "new" in seen
    assert "old" in seen or situation == "nothing"


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_full_disk_at_every_operation_leaves_the_old_or_the_new(
    tmp_path: Path, situation: str
) -> None:
    for place, old in faults(tmp_path, situation, "amid", no_space):
        path = checkpoint.newest(place, lambda sentence: None)
        assert path is not None or old is None
        assert path is None or checkpoint.read(path)[0]["step"] in (5, old)


def test_a_failed_save_removes_its_leftovers(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(disk, "rename", lambda source, target: no_space())
    with pytest.raises(OSError, match="No space"):
        checkpoint.write(tmp_path, 1, make_state(1), FACTS)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("at", range(1, 20, 3))
def test_a_process_that_really_ends_in_a_save(tmp_path: Path, at: int) -> None:
    checkpoint.write(tmp_path, 1, make_state(1), FACTS)
    child = os.fork()
    if child == 0:
        Fault(pytest.MonkeyPatch(), at, "amid", lambda: os._exit(9))
        with suppress(BaseException):
            checkpoint.write(tmp_path, 2, make_state(2), FACTS)
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, 9)
    path = checkpoint.newest(tmp_path, silent)
    assert path is not None
    assert checkpoint.read(path)[0]["step"] in (1, 2)


# --- Damage


def damaged(tmp_path: Path, damage: Callable[[Path], None]) -> str:
    """Damage the newer of two checkpoints; the older must be used, and it must be said."""
    sentences: list[str] = []
    broken = tmp_path / "step-2"
    shutil.rmtree(broken, ignore_errors=True)
    if not (tmp_path / "original").exists():
        checkpoint.write(tmp_path, 1, make_state(1), FACTS)
        checkpoint.write(tmp_path, 2, make_state(2), FACTS).rename(tmp_path / "original")
    shutil.copytree(tmp_path / "original", broken)
    damage(broken)
    assert checkpoint.newest(tmp_path, sentences.append) == tmp_path / "step-1"
    with pytest.raises(BadInput, match=r"is broken: .*; remove it or restore it"):
        checkpoint.read(broken)
    assert len(sentences) == 1
    assert str(broken) in sentences[0]
    return sentences[0]


def test_200_flipped_bytes_are_all_detected(tmp_path: Path) -> None:
    dice = random.Random(0)
    for turn in range(200):

        def flip(broken: Path, turn: int = turn) -> None:
            path = sorted(broken.iterdir())[turn % 4]
            data = bytearray(path.read_bytes())
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            path.write_bytes(data)

        damaged(tmp_path, flip)


def test_50_truncations_are_all_detected(tmp_path: Path) -> None:
    dice = random.Random(1)
    for turn in range(50):

        def truncate(broken: Path, turn: int = turn) -> None:
            path = sorted(broken.iterdir())[turn % 4]
            os.truncate(path, 0 if turn < 4 else dice.randrange(path.stat().st_size))

        damaged(tmp_path, truncate)


@pytest.mark.parametrize("name", [*checkpoint.FILES, "an extra file", "a link", "a pipe"])
def test_missing_foreign_and_odd_files_are_detected(tmp_path: Path, name: str) -> None:
    def damage(broken: Path) -> None:
        weights = broken / "weights.safetensors"
        match name:
            case "an extra file":
                (broken / "extra").write_text("")
            case "a link":
                weights.rename(broken.parent / "elsewhere")
                weights.symlink_to(broken.parent / "elsewhere")
            case "a pipe":
                weights.unlink()
                os.mkfifo(weights)
            case _:
                (broken / name).unlink()

    sentence = damaged(tmp_path, damage)
    assert {"an extra file": "extra", "a link": "weights", "a pipe": "plain"}.get(name, name) in (
        sentence
    )


def reseal(path: Path, **changes: Any) -> None:
    """Give a directory a manifest that verifies, as a stranger who knows the format can."""
    files = {p.name: checkpoint._digest(p.read_bytes()) for p in path.iterdir()}
    files.pop("MANIFEST.json", None)
    body = {"format": checkpoint.FORMAT, "files": files, "facts": FACTS, **changes}
    (path / "MANIFEST.json").write_bytes(checkpoint._seal(body))


def test_other_formats_are_refused(tmp_path: Path) -> None:
    path = checkpoint.write(tmp_path, 1, make_state(1), FACTS)
    for other in (checkpoint.FORMAT + 1, checkpoint.FORMAT - 1, "1", None, -(10**15)):
        reseal(path, format=other)
        for attempt in (lambda: checkpoint.read(path), lambda: checkpoint.newest(tmp_path, silent)):
            with pytest.raises(BadInput, match=f"format {other}, and this version reads"):
                attempt()


@pytest.mark.parametrize(
    "changes", [{"files": []}, {"files": {"../x": {}}}, {"facts": 3}, {"files": {"state.json": 1}}]
)
def test_a_sealed_manifest_of_another_shape_is_broken(tmp_path: Path, changes: Any) -> None:
    path = checkpoint.write(tmp_path, 1, make_state(1), FACTS)
    reseal(path, **changes)
    with pytest.raises(checkpoint.Broken):
        checkpoint.read(path)


# --- Nothing is ever executed


class Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("name", checkpoint.FILES)
def test_a_malicious_pickle_never_runs(tmp_path: Path, name: str, sealed: bool) -> None:
    marker, path = tmp_path / "ran", checkpoint.write(tmp_path, 1, make_state(1), FACTS)
    poison = pickle.dumps(Payload(marker))
    (path / name).write_bytes(poison)
    if sealed and name != "MANIFEST.json":
        reseal(path)
    for reader in (checkpoint.read, checkpoint.read_weights):
        if reader is checkpoint.read or "weights" in name or not sealed:
            with pytest.raises(BadInput, match="is broken"):
                reader(path)
    checkpoint.newest(tmp_path, lambda sentence: None)
    assert not marker.exists()
    pickle.loads(poison)
    assert marker.exists(), "the payload works: a reader that unpickled would have been caught"


def test_reading_looks_up_no_class_and_starts_no_program(tmp_path: Path) -> None:
    path = checkpoint.write(tmp_path, 1, make_state(1), FACTS)
    program = f"""
import os, sys
from pathlib import Path
from crosstraj.runs import checkpoint
seen = set()
sys.addaudithook(lambda event, arguments: seen.add(event))
path = checkpoint.newest(Path({str(tmp_path)!r}), print)
assert path is not None and checkpoint.read(path)[0]["step"] == 1
assert checkpoint.read_weights(path)
assert "open" in seen
bad = seen & {{"pickle.find_class", "exec", "marshal.loads", "os.system", "subprocess.Popen"}}
assert not bad, bad
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert path.exists()


def test_no_module_of_the_package_can_unpickle() -> None:
    modules = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
    loaders = {"torch.load", "torch.jit.load", "torch.hub", "torch.package"}
    files = list(Path(crosstraj.__file__).parent.rglob("*.py"))
    assert len(files) > 5
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & modules, where
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in modules, where
                assert not {f"{node.module}.{alias.name}" for alias in node.names} & loaders, where
            if isinstance(node, ast.Attribute):
                assert ast.unparse(node) not in loaders, where
            if isinstance(node, ast.keyword):
                assert node.arg not in ("allow_pickle", "weights_only"), where
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "__import__"), where


# --- Snapshots and observers


def test_weights_alone_are_kept_for_good_and_writing_them_again_is_free(tmp_path: Path) -> None:
    weights = {"encoder.bias": torch.arange(4.0)}
    for step in (1, 2, 3):
        path = checkpoint.write_weights(tmp_path, step, weights, FACTS)
    assert sorted(os.listdir(tmp_path)) == ["step-1", "step-2", "step-3"]
    before = os.stat(path)
    assert os.stat(checkpoint.write_weights(tmp_path, 3, weights, FACTS)) == before
    assert equal(weights, checkpoint.read_weights(path))
    other = {"encoder.bias": torch.zeros(4)}
    assert equal(other, checkpoint.read_weights(checkpoint.write_weights(tmp_path, 3, other, {})))
    (path / "weights.safetensors").write_bytes(b"")
    assert equal(other, checkpoint.read_weights(checkpoint.write_weights(tmp_path, 3, other, {})))


def test_nothing_is_removed_under_a_name_that_an_observer_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    real = disk.remove

    def noted(path: Path) -> None:
        if path.exists():
            removed.append(path.name)
        real(path)

    monkeypatch.setattr(disk, "remove", noted)
    for step in (1, 2, 2, 3):  # one is replaced, one pruned
        checkpoint.write(tmp_path, step, make_state(step), FACTS)
    shutil.copytree(tmp_path / "step-3", tmp_path / "step-3.old")  # left by a life that died
    checkpoint.write(tmp_path, 3, make_state(3), FACTS)
    (tmp_path / "step-3" / "state.json").unlink()
    checkpoint.write(tmp_path, 3, make_state(3), FACTS)
    taken = [".tmp-step-2.old", ".tmp-step-1", ".tmp-step-3.old", ".tmp-step-3.old", ".tmp-step-3"]
    assert removed == taken


def test_an_observer_always_finds_a_valid_checkpoint(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, 0, make_state(0), FACTS)
    over = threading.Event()
    looks: list[Path | None] = []
    sentences: list[str] = []

    def look() -> None:
        while not over.is_set():
            looks.append(checkpoint.newest(tmp_path, sentences.append))

    observer = threading.Thread(target=look)
    observer.start()
    for step in range(300):
        checkpoint.write(tmp_path, step // 2, make_state(step), FACTS)  # each step twice
    over.set()
    observer.join()
    assert len(looks) > 30
    assert None not in looks
    assert sentences == []
