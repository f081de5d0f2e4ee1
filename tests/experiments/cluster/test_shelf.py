"""The shelf: parcels arrive whole or not at all, and what was there before stays."""

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from crosstraj import disk
from crosstraj.errors import BadInput
from crosstraj.experiments.cluster.parcel import Packer, Parcel, safe, unpack
from crosstraj.experiments.cluster.shelf import Courier, Shelf
from crosstraj.runs import checkpoint

RUN = "ppo-starpilot-s0-00000000"


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "owner.lock"
    }


def save(run: Path, step: int, state: bytes = b"state") -> None:
    """As a run does it: longer logs, a checkpoint, and no more than two of them."""
    (run / "checkpoints").mkdir(parents=True, exist_ok=True)
    with (run / "metrics.jsonl").open("a") as log:
        log.write(json.dumps({"row": "update", "frames": step}) + "\n")
    (run / "config.json").write_text("{}")
    shutil.rmtree(run / f"checkpoints/step-{step}", ignore_errors=True)
    (run / f".tmp-{step}").mkdir()
    (run / f".tmp-{step}/state.json").write_bytes(state)
    (run / f".tmp-{step}").rename(run / f"checkpoints/step-{step}")
    for old in sorted(run.glob("checkpoints/step-*"), key=lambda p: int(p.name[5:]))[:-2]:
        shutil.rmtree(old)


class Line:
    """Between courier and shelf; counts the bytes, and may spoil what it carries."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.sent, self.spoil = shelf, list[set[str]](), False

    def __call__(self, method: str, *arguments: Any) -> Any:
        if method == "put":
            name, token, parcel, said = arguments
            self.sent.append(set(parcel.files))
            if self.spoil:
                path = next(iter(parcel.files))
                files = parcel.files | {path: parcel.files[path] + b"!"}
                arguments = (name, token, parcel._replace(files=files), said)
        return getattr(self.shelf, method)(*arguments)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    (tmp_path / "shelf").mkdir()
    return Line(Shelf(str(tmp_path / "shelf")))


def courier(line: Line, place: Path, token: int = 1) -> Courier:
    place.mkdir(exist_ok=True)
    return Courier(line, RUN, token, place)


def test_saves_arrive_and_another_node_goes_on_from_them(line: Line, tmp_path: Path) -> None:
    one = courier(line, tmp_path / "one")
    one.fetch()
    assert one.put_news() == ""
    assert line.sent == []  # nothing has been saved
    save(one.directory, 100)
    save(one.directory, 200)
    (one.directory / "snapshots/step-100").mkdir(parents=True)
    (one.directory / "snapshots/step-100/weights").write_bytes(b"w")
    one.log.write_bytes(b"the first life\n")
    assert one.put_news() == ""
    shelved = line.shelf.root / RUN
    assert contents(shelved) == contents(one.directory)
    assert (line.shelf.root / f"{RUN}.log").read_bytes() == b"the first life\n"
    assert one.put_news() == ""
    assert len(line.sent) == 1  # no news, no parcel

    two = courier(line, tmp_path / "two", token=2)
    two.directory.mkdir()
    (two.directory / "left").write_text("by an earlier life")
    two.fetch()
    wanted = contents(shelved)
    assert wanted.pop("snapshots/step-100/weights") == b"w"  # which no run reads
    assert contents(two.directory) == wanted
    assert two.log.read_bytes() == b"the first life\n"
    save(two.directory, 300)
    (two.directory / "summary.json").write_text("{}")
    assert two.put_news() == ""
    assert line.sent[-1] == {"checkpoints/step-300/state.json", "metrics.jsonl", "config.json",
                             "summary.json"}  # fmt: skip
    assert sorted(p.name for p in (shelved / "checkpoints").iterdir()) == ["step-200", "step-300"]
    assert (shelved / "snapshots/step-100/weights").exists()
    two.leave()
    assert list((tmp_path / "two").iterdir()) == []


def test_a_checkpoint_that_is_saved_again_under_its_name_is_replaced(
    line: Line, tmp_path: Path
) -> None:
    one = courier(line, tmp_path / "one")
    one.fetch()
    save(one.directory, 100, b"before the evaluation")
    assert one.put_news() == ""
    save(one.directory, 100, b"after")
    assert one.put_news() == ""
    assert contents(line.shelf.root / RUN)["checkpoints/step-100/state.json"] == b"after"


def test_a_damaged_parcel_is_refused_and_the_next_one_arrives(line: Line, tmp_path: Path) -> None:
    one = courier(line, tmp_path / "one")
    one.fetch()
    save(one.directory, 100)
    assert one.put_news() == ""
    before = contents(line.shelf.root)
    save(one.directory, 200)
    line.spoil = True
    assert "was damaged on its way" in one.put_news()
    assert contents(line.shelf.root) == before
    line.spoil = False
    assert one.put_news() == ""
    assert contents(line.shelf.root / RUN) == contents(one.directory)


def operations(monkeypatch: pytest.MonkeyPatch, fail_at: int, error: BaseException) -> list[str]:
    """Every change of the disk from now on; the one with this number fails."""
    done: list[str] = []
    for name in ("write_file", "fsync", "rename", "mkdir", "remove"):
        real = getattr(disk, name)

        def watched(*arguments: Any, name: str = name, real: Any = real) -> Any:
            done.append(name)
            if len(done) == fail_at:
                raise error
            return real(*arguments)

        monkeypatch.setattr(disk, name, watched)
    return done


class Death(BaseException):
    """The process is gone: nothing is tidied up."""


def saved(run: Path, step: int) -> Parcel:
    """A run after a save of so many frames, and with its summary after 512."""
    log = run / "metrics.jsonl"
    run.mkdir(exist_ok=True)
    log.write_bytes(b"{}\n" * step)
    state = {"step": step, "logs": {log.name: log.stat().st_size}}
    checkpoint.write(run / "checkpoints", step, state, {})
    checkpoint.write_weights(run / "snapshots", step, {"w": torch.full((3,), float(step))}, {})
    if step == 512:
        (run / "summary.json").write_text("{}")
    return Packer(run).pack()[0]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), Death()])
def test_a_full_disk_or_a_death_at_any_operation_leaves_a_valid_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """There is always a checkpoint that verifies, and logs are as long as it says."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # a busy disk takes its time
    source = tmp_path / "source"
    earlier, later = (saved(source, step) for step in (256, 512))
    number = 0
    while True:
        number += 1
        shelf = Shelf(str(tmp_path / f"{number}"))
        assert shelf.put(RUN, 1, earlier, b"") == ""
        place = shelf.root / RUN
        with pytest.MonkeyPatch.context() as patch:
            done = operations(patch, number, error)
            try:
                answer = shelf.put(RUN, 1, later, b"")
            except Death:
                answer = "died"
        if len(done) < number:
            break
        found = checkpoint.newest(place / "checkpoints", lambda said: pytest.fail(said))
        if found is None:  # a death between two names: the fetch mends it
            shelf.fetch(RUN, 2)
            found = checkpoint.newest(place / "checkpoints", lambda said: pytest.fail(said))
        assert found is not None
        state, _ = checkpoint.read(found)
        for log, length in state["logs"].items():
            assert (place / log).stat().st_size >= length
        assert answer == "died" or "No space left" in answer or not answer
        assert shelf.put(RUN, 1, later, b"") == ""  # and once there is space again, all of it
        assert contents(place).keys() >= later.files.keys()
        shutil.rmtree(shelf.root)
    assert number > 20


def test_only_the_latest_owner_may_put(line: Line, tmp_path: Path) -> None:
    one, two = courier(line, tmp_path / "one"), courier(line, tmp_path / "two", token=2)
    one.fetch()
    save(one.directory, 100)
    two.fetch()
    assert "another owner" in one.put_news()
    assert not (line.shelf.root / RUN).exists()


def test_a_shelf_that_lost_a_checkpoint_is_sent_all(line: Line, tmp_path: Path) -> None:
    one = courier(line, tmp_path / "one")
    one.fetch()
    save(one.directory, 100)
    assert one.put_news() == ""
    shutil.rmtree(line.shelf.root / RUN)
    save(one.directory, 200)
    assert one.put_news() == ""
    assert contents(line.shelf.root / RUN) == contents(one.directory)


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/x",
        "a/../../x",
        "./x",
        "a//b",
        "",
        ".tmp-x",
        "owner.lock",
        "a/.b",
        "a\0b",
        "a/",
    ],
)
def test_no_path_leads_out_of_the_run_directory(path: str, tmp_path: Path) -> None:
    parcel = Parcel({path: b"x"}, {path: hashlib.sha256(b"x").hexdigest()}, ())
    with pytest.raises(BadInput, match="not of a run directory"):
        unpack(parcel, tmp_path / "run")
    assert list(tmp_path.rglob("*")) == []
    for name in ("..", "a/b", ".hidden", ""):
        assert "not the name of a run" in Shelf(str(tmp_path)).put(name, 1, parcel, b"")
    with pytest.raises(BadInput, match="no checkpoint or snapshot"):
        Parcel({}, {}, ("checkpoints/../..",)).check()


def test_names_that_runs_have_are_safe() -> None:
    for path in ("config.json", "checkpoints/step-0/state.json", "tensorboard/events.out.1.host"):
        assert safe(path)
