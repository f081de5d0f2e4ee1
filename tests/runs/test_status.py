"""Every run at a glance: the status of each kind of end, told without touching anything."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crosstraj.errors import BadInput, NonFinite, Owned
from crosstraj.learning.signals import Interrupted
from crosstraj.runs import lock
from crosstraj.runs.status import STATUSES, glance, glances
from tests.runs.logs import judged, make, update


@contextmanager
def owned(run: Path) -> Iterator[None]:
    held = lock.own(run / "owner.lock")
    try:
        yield
    finally:
        lock.disown(held)


def say(run: Path, words: str, later: float = 1.0) -> None:
    """What an experiment's process said last, so many seconds after the run's last write."""
    log = run.with_name(f"{run.name}.log")
    log.write_text(words)
    written = max(path.stat().st_mtime for path in run.iterdir()) if run.exists() else time.time()
    os.utime(log, (written + later, written + later))


def test_each_end_has_its_status_and_its_figures(tmp_path: Path) -> None:
    rows = (judged(0, 1.0), update(256), judged(512, 2.5), update(768))
    stopped = glance(make(tmp_path / "stopped", *rows))
    assert (stopped.status, stopped.why, stopped.frames, stopped.budget) == (
        "stopped",
        "",
        768,
        1000,
    )
    assert (stopped.method, stopped.game, stopped.seed) == ("ctrl", "bigfish", 3)
    assert (stopped.score, stopped.levels) == (2.5, "unseen")
    done = glance(make(tmp_path / "done", *rows, summary={"frames": 1024, "unseen_return": 4}))
    assert (done.status, done.frames, done.score) == ("finished", 1024, 4.0)
    more = glance(make(tmp_path / "more", *rows, summary={"frames": 999, "unseen_return": 4}))
    assert (more.status, more.frames, more.score) == ("stopped", 768, 2.5), "it is being extended"
    young = glance(make(tmp_path / "young"))
    assert (young.status, young.frames, young.score) == ("stopped", 0, None)
    valid = glance(make(tmp_path / "valid", judged(5, 7.0, "validation")))
    assert (valid.score, valid.levels) == (7.0, "validation")
    assert glance(make(tmp_path / "nan", judged(5, float("nan")))).score is None


def test_a_run_whose_lock_is_held_is_running_and_its_owner_is_named(tmp_path: Path) -> None:
    run = make(tmp_path / "run", update(512))
    say(run, "crosstraj: of an earlier life")
    with owned(run):
        found = glance(run)
        assert (found.status, found.why, found.frames) == ("running", "", 512)
        assert found.owner == (os.getpid(), socket.gethostname())
        with pytest.raises(Owned):
            lock.own(run / "owner.lock")
    assert glance(run).owner is None


def test_what_was_not_finite_counts_until_the_run_has_got_past_it(tmp_path: Path) -> None:
    run = make(tmp_path / "run", update(256), update(512))
    (run / "nonfinite/step-256").mkdir(parents=True)
    (run / "nonfinite/.tmp-step-9999").mkdir()
    assert glance(run).status == "stopped"
    (run / "nonfinite/step-512").mkdir()
    say(run, f"crosstraj: {NonFinite('after 512 frames the loss is nan')}")
    found = glance(run)
    assert found.status == "not finite"
    assert "nonfinite/step-512" in found.why
    with owned(run):
        assert glance(run).status == "running"


def test_the_last_words_beside_a_stopped_run_tell_a_refusal_from_a_stop(tmp_path: Path) -> None:
    run = make(tmp_path / "ctrl-bigfish-s3-01234567", update(512))
    held = Owned("process 12 on far-1 is writing runs/x; wait for it, or stop it")
    for words, status, why in (
        ("step-5 was written elsewhere (threads is 2 there, 1 here)\n", "stopped", ""),
        ("crosstraj: x was written elsewhere; use what wrote it\n", "refused", "x was written"),
        (f"crosstraj: {Interrupted(15)}\n", "stopped", ""),
        (f"crosstraj: {held}\n", "stopped", ""),
        ("Traceback\n  File\nRuntimeError: no \x1b[31mmemory\n", "failed", "RuntimeError: no"),
        ("KeyError\n", "failed", "KeyError"),
        ("1,024/2,048 frames  no Error: yet\n", "stopped", ""),
    ):
        say(run, words)
        found = glance(run)
        assert (found.status, found.why[: len(why)]) == (status, why), words
    say(run, "crosstraj: refused once", later=-60.0)
    assert glance(run).status == "stopped", "it has gone on since, by another command"
    (run / "summary.json").write_text('{"frames": 1000}')
    say(run, "crosstraj: too late")
    assert glance(run).status == "finished"


def test_a_run_that_was_refused_before_it_began_is_known_by_its_log_alone(tmp_path: Path) -> None:
    run = tmp_path / "daac-ALE-Pong-v5-s12-89abcdef"
    say(run, "crosstraj: machine.device=cuda: there is none here\n")
    say(tmp_path / "ppo-bigfish-s0-00000000", "nothing wrong so far\n")
    say(tmp_path / "notes", "crosstraj: somebody wrote this\n")
    (found,) = glances([tmp_path])
    assert (found.path, found.status, found.why[:14]) == (run, "refused", "machine.device")
    assert (found.method, found.game, found.seed) == ("daac", "ALE-Pong-v5", 12)


def test_an_owner_elsewhere_that_never_left_makes_the_status_unknown(tmp_path: Path) -> None:
    run = make(tmp_path / "run", update(512))
    (run / "owner.lock").write_text("77 another-node.site\n")
    found = glance(run)
    assert (found.status, found.owner) == ("unknown", (77, "another-node.site"))
    (run / "owner.lock").write_text(f"77 {socket.gethostname()}\n")
    assert glance(run).status == "stopped", "killed here: its lock would be seen"
    (run / "owner.lock").write_text("77\n")
    assert glance(run).status == "stopped"


def test_what_no_process_owned_here_is_kept_not_stopped(tmp_path: Path) -> None:
    """A shelf has the runs of other machines, and kept logs the runs of other days."""
    run = make(tmp_path / "run", update(512))
    (run / "owner.lock").unlink()
    assert glance(run).status == "kept"
    say(run, "crosstraj: this node has no such device")
    assert glance(run).status == "refused", "the shelf has its log as well"
    (run / "summary.json").write_text('{"frames": 1000}')
    assert glance(run).status == "finished"


DAMAGES: dict[str, tuple[str, bytes | None, str]] = {
    "no JSON": ("config.json", b"{", "config.json is damaged (JSONDecodeError"),
    "no text": ("config.json", b"\xff\xff", "config.json is damaged (UnicodeDecodeError"),
    "deep": ("config.json", b"[" * 100_000, "config.json is damaged (RecursionError"),
    "no object": ("config.json", b"[1]", "config.json is damaged: it holds no object"),
    "no values": ("config.json", b"{}", "config.json: method is None, and must be str"),
    "true": (
        "config.json",
        b'{"config":{"method":"a","env":"b","seed":true}}',
        "config.json: seed",
    ),
    "absent": ("config.json", None, "config.json is missing"),
    "summary": ("summary.json", b'{"frames":"many"}', "summary.json: frames is 'many'"),
    "row": ("metrics.jsonl", b"{}\n[\n", "metrics.jsonl is damaged"),
    "list": ("metrics.jsonl", b"[3]\n", "metrics.jsonl is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_broken_with_the_reason_and_stops_no_listing(
    damage: str, tmp_path: Path
) -> None:
    name, data, sentence = DAMAGES[damage]
    make(tmp_path / "fine", update(5))
    broken = make(tmp_path / "broken", update(5)) / name
    broken.unlink(missing_ok=True)
    if data is not None:
        broken.write_bytes(data)
    first, second = glances([tmp_path])
    assert (first.path.name, first.status) == ("broken", "broken")
    assert first.why.startswith(sentence), first.why
    assert second.status == "stopped"


def test_links_and_pipes_are_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    outside = make(tmp_path / "outside/run", update(5))
    (outside / "large").write_bytes(b"x" * 10_000)
    piped, linked = make(tmp_path / "in/piped"), make(tmp_path / "in/linked")
    (piped / "config.json").unlink()
    os.mkfifo(piped / "config.json")
    (linked / "config.json").unlink()
    (linked / "config.json").symlink_to(outside / "config.json")
    (tmp_path / "in/away").symlink_to(outside)
    (linked / "checkpoints").symlink_to(outside)
    found = {run.path.name: run for run in glances([tmp_path / "in"])}
    assert {name: run.status for name, run in found.items()} == {
        "piped": "broken",
        "linked": "broken",
    }
    assert found["linked"].size < 1000


def test_every_run_is_listed_once_and_what_is_no_run_is_passed_over(tmp_path: Path) -> None:
    done = {"frames": 1000}
    make(tmp_path / "a/b/s10", seed=10)
    make(tmp_path / "a/b/s9", seed=9)
    make(tmp_path / "a/b/z", summary=done)
    with owned(make(tmp_path / "live", method="zzz")):
        make(tmp_path / "live/inside")  # nothing below a run is another run
        (tmp_path / "a/notes").mkdir()
        (tmp_path / "a/notes/metrics.jsonl").write_text("")
        found = glances([tmp_path, tmp_path / "a", tmp_path / "a/b/../b"])
    assert [run.path.name for run in found] == ["live", "s9", "s10", "z"]
    assert glances([tmp_path / "a/notes"]) == []
    assert glances([tmp_path / "a/notes/metrics.jsonl"]) == []
    with pytest.raises(BadInput, match=r"there is no .*nowhere"):
        glances([tmp_path, tmp_path / "nowhere"])


def test_size_is_that_of_all_files_and_age_that_of_the_last_log(tmp_path: Path) -> None:
    run = make(tmp_path / "run", update(5))
    for path in run.iterdir():
        path.write_bytes(b"12345")
    (run / "checkpoints/step-5").mkdir(parents=True)
    (run / "checkpoints/step-5/weights").write_bytes(b"x" * 1000)
    for name, seconds in (("config.json", 100), ("metrics.jsonl", 300), ("owner.lock", 900)):
        os.utime(run / name, (seconds, seconds))
    found = glance(run)
    assert found.size == 1015
    assert found.written == 300, "another owner may have come and gone without writing"


def test_looking_makes_and_changes_no_file(tmp_path: Path) -> None:
    assert lock.look(tmp_path / "owner.lock") == (False, None)
    assert list(tmp_path.iterdir()) == []
    make(tmp_path / "run", update(5))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    glances([tmp_path])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


FAST = """
import sys, time
from pathlib import Path
from crosstraj.runs.status import glances
began = time.process_time()
assert len(glances([Path(sys.argv[1])])) == 1440
spent = time.process_time() - began
heavy = {"torch", "numpy", "rich"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else f"{spent:.1f} s" if spent > 5 else 0)
"""


def test_1440_runs_are_listed_at_once_and_nothing_heavy_is_imported(tmp_path: Path) -> None:
    """About half a second of the processor here; reading whole logs would take many."""
    rows = [judged(0, 1.0), *map(update, range(1, 500)), judged(500, 2.0), update(501)]
    first = make(tmp_path / "run-0", *rows)
    for number in range(1, 1440):
        run = tmp_path / f"run-{number}"
        run.mkdir()
        for path in first.iterdir():
            os.link(path, run / path.name)
    process = subprocess.run([sys.executable, "-c", FAST, str(tmp_path)], capture_output=True)
    assert process.returncode == 0, process.stderr


def test_statuses_are_those_that_are_documented() -> None:
    import crosstraj.runs.status as module

    assert module.__doc__ is not None
    for status in STATUSES:
        assert f"    {status} " in module.__doc__
