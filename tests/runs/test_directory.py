"""The run directory: one owner, one configuration, logs that agree with the checkpoint."""

import errno
import json
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosstraj import disk
from crosstraj.config.dotted import identity_of
from crosstraj.config.stored import FORMAT
from crosstraj.errors import BadInput
from crosstraj.runs import checkpoint
from crosstraj.runs import directory as run_module
from crosstraj.runs.directory import Run, machine_facts, run_directory
from crosstraj.runs.log import read_rows
from tests.helpers import silent
from tests.runs.opened import CONFIG, FACTS, make_state, open_run


def test_opening_and_closing_leaks_no_file_handles(tmp_path: Path) -> None:
    open_run(tmp_path).close()
    before = len(os.listdir("/proc/self/fd"))
    for turn in range(20):
        with open_run(tmp_path) as run:
            run.restore()
            run.save(make_state(turn), turn)
            run.snapshot(make_state(turn)["weights"], turn)
    assert len(os.listdir("/proc/self/fd")) == before


# --- The configuration


def test_the_configuration_is_written_once(tmp_path: Path) -> None:
    open_run(tmp_path / "a" / "b").close()
    path = tmp_path / "a" / "b" / "config.json"
    found = json.loads(path.read_text())
    assert found["format"] == FORMAT
    assert found["identity"] == identity_of(CONFIG, ["frames"])
    assert found["config"] == json.loads(json.dumps(CONFIG))
    before = path.stat()
    open_run(path.parent).close()
    open_run(path.parent, {**CONFIG, "frames": 50}).close()
    assert path.stat() == before


def test_another_configuration_is_refused_with_both_values(tmp_path: Path) -> None:
    open_run(tmp_path).close()
    before = (tmp_path / "config.json").read_bytes()
    other = {"frames": 200, "seed": 0, "objective": {"weight": 1.0, "layers": (1, 2)}, "new": None}
    with pytest.raises(BadInput) as refusal:
        open_run(tmp_path, other)
    assert "objective.weight is 0.5 there, 1.0 here; new is 'absent' there, None here" in str(
        refusal.value
    )
    assert "frames" not in str(refusal.value)
    assert "layers" not in str(refusal.value)
    assert (tmp_path / "config.json").read_bytes() == before


def budget_of(directory: Path) -> object:
    return json.loads((directory / "config.json").read_text())["config"]["frames"]


def test_more_frames_extend_a_run_and_make_its_summary_stale(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        assert run.summary() is None
        assert [run.finished, run.finish({"frames": 100, "score": np.float32(0.5)})] == [
            False,
            True,
        ]
    with open_run(tmp_path, {**CONFIG, "frames": 80}) as run:
        assert run.finished
    with open_run(tmp_path, {**CONFIG, "frames": 101}) as run:
        assert run.summary() == {"frames": 100, "score": 0.5}
        assert budget_of(tmp_path) == 100  # until nothing can refuse any more
        run.restore()
        assert budget_of(tmp_path) == 101
        assert [run.finished, run.finish({"frames": 104}), run.finished] == [False, True, True]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "3", '{"config": 3}', '{"config": {"frames": "9"}}', "[" * 10**5],
)
def test_a_damaged_configuration_or_summary_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BadInput, match=r"config\.json is damaged .*; restore it"):
        open_run(tmp_path)
    (tmp_path / "config.json").unlink()
    with open_run(tmp_path) as run:
        (tmp_path / "summary.json").write_text(text)
        with pytest.raises(BadInput, match=r"summary\.json is damaged"):
            run.summary()


def test_a_configuration_of_another_format_is_refused(tmp_path: Path) -> None:
    open_run(tmp_path).close()
    path = tmp_path / "config.json"
    text = path.read_text()
    for version in ("0", str(FORMAT + 1), "null", '"1"'):
        path.write_text(text.replace(f'"format": {FORMAT}', f'"format": {version}'))
        with pytest.raises(
            BadInput, match=f"has format .*, and this version goes on with {FORMAT}"
        ):
            open_run(tmp_path)


# --- Directories that cannot be used


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user whom permissions bind; they do not bind root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_directory_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir(mode=0o555)
    for directory in (tmp_path / "file", tmp_path / "file" / "run", tmp_path / "file" / "a" / "b"):
        with pytest.raises(BadInput, match=r"cannot be used: .*; choose one"):
            open_run(directory)
    for directory in (tmp_path / "closed", tmp_path / "closed" / "run", tmp_path / ("x" * 300)):
        with unprivileged(), pytest.raises(BadInput, match="cannot be used") as refusal:
            open_run(directory)
        assert refusal.value.exit_code == 2


def test_a_directory_that_becomes_read_only_costs_the_save_not_the_run(tmp_path: Path) -> None:
    sentences: list[str] = []
    with open_run(tmp_path, warn=sentences.append) as run:
        assert run.save(make_state(1), 1)
        (tmp_path / "checkpoints").chmod(0o555)
        with unprivileged():
            assert not run.save(make_state(2), 2)
        (tmp_path / "checkpoints").chmod(0o755)
        assert "checkpoint at step 2" in sentences[0]
        assert "Permission denied" in sentences[0]
        assert run.save(make_state(3), 3)
    assert len(sentences) == 1


# --- A full disk


def test_a_full_disk_costs_the_save_not_the_run(tmp_path: Path, monkeypatch: Any) -> None:
    sentences: list[str] = []
    with open_run(tmp_path, warn=sentences.append) as run:
        assert run.save(make_state(1), 1)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "write_file", full_disk)
            assert not run.save(make_state(2), 2)
            assert not run.snapshot(make_state(2)["weights"], 2)
            assert not run.finish({"frames": 2})
        assert len(sentences) == 3
        assert all("No space left on device" in sentence for sentence in sentences)
        assert os.listdir(tmp_path / "checkpoints") == ["step-1"]
        assert not list(tmp_path.rglob(".tmp-*"))
        assert run.save(make_state(3), 3)
        state = run.restore()
        assert state is not None
        assert state["step"] == 3


def full_disk(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


LIMITED = """
import resource, sys, torch
from pathlib import Path
from crosstraj.runs.directory import Run
sentences = []
with Run.open(Path(sys.argv[1]), {"frames": 100}, "0" * 64, {}, warn=sentences.append) as run:
    assert run.save({"weights": {"w": torch.zeros(10)}, "step": 1}, 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    assert not run.save({"weights": {"w": torch.zeros(100_000)}, "step": 2}, 2)
    assert "File too large" in sentences[0], sentences
    assert run.restore()["step"] == 1
    run.metrics.write({"row": "x" * 99_990})
    run.metrics.write({"row": 2})
    run.metrics.write({"row": 3})
    assert "its rows wait" in sentences[1] and len(sentences) == 2, sentences
    assert not run.save({"step": 3}, 3)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert run.save({"weights": {"w": torch.zeros(100_000)}, "step": 4}, 4)
"""


def test_a_process_that_may_not_write_more_goes_on_and_loses_no_row(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], check=True, timeout=60)
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == limits
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [len(str(row["row"])) for row in rows] == [99_990, 1, 1]
    with Run.open(tmp_path, {"frames": 100}, "0" * 64, {}, warn=silent) as run:
        state = run.restore()
        assert state is not None
        assert state["step"] == 4


# --- Saving and restoring


def test_a_broken_checkpoint_is_named_and_the_one_before_it_is_used(tmp_path: Path) -> None:
    sentences: list[str] = []
    with open_run(tmp_path, warn=sentences.append) as run:
        for step in (1, 2):
            run.metrics.write({"step": step})
            run.save(make_state(step), step)
        (tmp_path / "checkpoints" / "step-2" / "state.json").unlink()
        state = run.restore()
        assert state is not None
        assert state["step"] == 1
        assert read_rows(run.metrics.path) == [{"step": 1}]
        assert len(sentences) == 1
        (tmp_path / "checkpoints" / "step-1" / "state.json").unlink()
        assert run.restore() is None
        assert "the run begins again" in sentences[-1]


def test_other_facts_are_refused_unless_inexact_is_allowed(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        run.save(make_state(1), 1)
    other = {"torch": "2.14.0", "threads": 2}
    sentences: list[str] = []
    with open_run(tmp_path, {**CONFIG, "frames": 10**6}, facts=other) as run:
        with pytest.raises(
            BadInput, match=r"torch is '2\.13\.0' there, '2\.14\.0' here"
        ) as refusal:
            run.restore()
        assert "threads" not in str(refusal.value)
        assert "--allow-inexact" in str(refusal.value)
    assert budget_of(tmp_path) == CONFIG["frames"]
    with open_run(tmp_path, facts=other, allow_inexact=True, warn=sentences.append) as run:
        assert run.restore() is not None
    assert "not exact" in sentences[0]


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    for name, config in (("a", CONFIG), ("b", {**CONFIG, "seed": 1})):
        with open_run(tmp_path / name, config) as run:
            run.save(make_state(1), 1)
    (tmp_path / "a" / "checkpoints").rename(tmp_path / "gone")
    (tmp_path / "b" / "checkpoints").rename(tmp_path / "a" / "checkpoints")
    allowed = open_run(tmp_path / "a", allow_inexact=True)
    with allowed as run, pytest.raises(BadInput, match="another configuration"):
        run.restore()


def test_the_key_logs_is_reserved(tmp_path: Path) -> None:
    with open_run(tmp_path) as run, pytest.raises(ValueError, match="kept for the lengths"):
        run.save({"logs": 1}, 1)


def test_leftovers_are_removed_at_open_and_snapshots_stay(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        for step in (1, 2, 3, 3):
            assert run.snapshot(make_state(step)["weights"], step)
            assert run.save(make_state(step), step)
    for place in (tmp_path, tmp_path / "checkpoints", tmp_path / "snapshots"):
        (place / ".tmp-9-1").mkdir()
    open_run(tmp_path).close()
    assert not list(tmp_path.rglob(".tmp-*"))
    assert sorted(os.listdir(tmp_path / "snapshots")) == ["step-1", "step-2", "step-3"]
    weights = checkpoint.read_weights(tmp_path / "snapshots" / "step-2")
    assert weights["w"].tolist() == [2, 2, 2]


class Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def test_a_malicious_pickle_in_any_file_of_the_directory_never_runs(tmp_path: Path) -> None:
    def attempt(directory: Path) -> None:
        with open_run(directory, warn=lambda sentence: None) as run:
            run.restore()
            run.summary()
            for log in run_module.LOGS:
                read_rows(directory / log)

    with open_run(tmp_path / "run") as run:
        run.metrics.write({"a": 1})
        run.save(make_state(1), 1)
        run.finish({"frames": 1})
    marker = tmp_path / "ran"
    poison = pickle.dumps(Payload(marker)) + b"\n"
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) == 10
    for path in files:
        before = path.read_bytes()
        path.write_bytes(poison)
        with suppress(BadInput):
            attempt(tmp_path / "run")
        assert not marker.exists()
        path.write_bytes(before)


# --- Names


@pytest.mark.parametrize(
    "game",
    [
        "ALE/Pong-v5",
        "pkg:Env-v0",
        "../../etc/passwd",
        "..",
        ".",
        "",
        "/",
        "a\nb\0c",
        "ä" * 300,
        "a b",
    ],
)
def test_whatever_the_game_is_called_its_directory_is_one_name_under_the_root(game: str) -> None:
    for method, name in (("ctrl", game), (game, "coinrun")):
        path = run_directory(Path("runs"), method, name, 3, "0123456789abcdef")
        assert path.parent == Path("runs")
        assert path.name.endswith("-s3-01234567")
        assert path.name.isascii()
        assert len(path.name) < 200
        assert not set(path.name) & set("/\\: \n\0")
        assert not path.name.startswith((".", "-"))


def test_the_name_of_a_plain_run() -> None:
    path = run_directory(Path("runs"), "ctrl", "bigfish", 0, "ab" * 32)
    assert path == Path("runs/ctrl-bigfish-s0-abababab")
    for identity in ("../../..", "", "ABCDEFGH", "0123/567"):
        with pytest.raises(ValueError, match="not a hexadecimal digest"):
            run_directory(Path("runs"), "ctrl", "bigfish", 0, identity)


def test_the_facts_of_this_machine() -> None:
    facts = machine_facts(compiled=True)
    assert facts["torch"] == torch.__version__
    assert facts["threads"] == torch.get_num_threads()
    assert facts["compiled"] is True
    assert facts["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert set(facts) == {"torch", "threads", "cpu", "compiled", "python", "machine"}
    assert json.loads(json.dumps(facts)) == facts


def test_a_fact_that_an_older_checkpoint_does_not_state_is_named_and_does_not_stop_it(
    tmp_path: Path,
) -> None:
    """Checkpoints from before more of the machine was written down load, and it is said."""
    with open_run(tmp_path) as run:
        run.save({"weights": {}}, 1)
    said: list[str] = []
    more = FACTS | {"bfloat16": False, "device": "cpu"}
    with open_run(tmp_path, facts=more, warn=said.append) as run:
        assert run.restore() == {"weights": {}}
    assert len(said) == 1
    assert said[0].endswith("does not say with which bfloat16, device it was written")
    with (
        open_run(tmp_path, facts=more | {"threads": 3}, warn=said.append) as run,
        pytest.raises(BadInput, match=r"written elsewhere \(threads is 2 there, 3 here\)"),
    ):
        run.restore()
