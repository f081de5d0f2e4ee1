"""What can go of a run directory goes, all else stays: live runs, links, what somebody needs."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from crosstraj.runs import checkpoint, lock
from crosstraj.runs.leftovers import Spared, leftovers, remove
from tests.runs.saves import everything, open_run, saved


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def names(run: Path) -> list[str]:
    return [str(leftover.path.relative_to(run)) for leftover in leftovers(run)]


def restored(run: Path) -> int:
    with open_run(run) as opened:
        state = opened.restore()
    assert state is not None
    return int(state["step"])


@pytest.mark.parametrize("finish", [False, True])
def test_all_checkpoints_but_the_newest_go_and_the_run_goes_on_from_it(
    finish: bool, tmp_path: Path
) -> None:
    run = saved(tmp_path / "run", 256, 512, 768, finish=finish)
    before = everything(run)
    (found,) = leftovers(run)
    assert found.path == run / "checkpoints/step-512"
    assert found.size == sum(path.stat().st_size for path in found.path.iterdir())
    assert everything(run) == before, "looking removes nothing"
    assert remove(run, [found]) == [found]
    kept = {name: data for name, data in before.items() if "checkpoints/step-512" not in name}
    assert everything(run) == kept
    assert restored(run) == 768
    assert leftovers(run) == []


def test_where_the_newest_is_broken_the_one_before_it_stays(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256, 512)
    (run / "checkpoints/step-512/state.json").write_text("{}")
    assert names(run) == ["checkpoints/step-512"]
    remove(run, leftovers(run))
    assert restored(run) == 256


def test_where_none_or_another_versions_verifies_all_stay(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256, 512)
    for step in (256, 512):
        (run / f"checkpoints/step-{step}/state.json").write_text("{}")
    assert names(run) == []
    other = saved(tmp_path / "other", 256, 512)
    manifest = checkpoint._seal({"format": 99, "files": {}, "facts": {}})
    (other / "checkpoints/step-512/MANIFEST.json").write_bytes(manifest)
    assert names(other) == []


def test_what_a_death_in_a_save_left_goes(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256)
    for place in (run, run / "checkpoints", run / "snapshots"):
        (place / ".tmp-9-1").mkdir()
    os.rename(run / "checkpoints/step-256", run / "checkpoints/step-256.old")
    assert names(run) == [".tmp-9-1", "checkpoints/.tmp-9-1", "snapshots/.tmp-9-1"]
    remove(run, leftovers(run))
    assert restored(run) == 256, "what was set aside is all there is"


def test_dumps_go_when_the_run_has_got_past_them(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256, 512)
    with open_run(run) as opened:
        for step in (256, 512):
            opened.dump({"reward": torch.zeros(9)}, step)
    assert names(run) == ["checkpoints/step-256", "nonfinite/step-256"]


def test_a_run_that_never_saved_goes_whole_unless_somebody_left_something(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with open_run(run) as opened:
        opened.metrics.write({"row": "update", "frames": 256})
    (run / "checkpoints").mkdir()
    (run / "checkpoints/.tmp-256-1").mkdir()
    (found,) = leftovers(run)
    assert (found.path, found.what) == (run, "a run that never came to a checkpoint")
    for name in ("notes.txt", "summary.json", "checkpoints/step-256", "snapshots/step-256"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("mine")
        assert run not in [leftover.path for leftover in leftovers(run)], name
        (run / name).unlink()
    assert remove(run, [found]) == [found]
    assert list(tmp_path.iterdir()) == []
    open_run(run).close()  # the same command begins it again


def test_kept_logs_are_not_touched(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256, 512)
    (run / lock.NAME).unlink()
    assert leftovers(run) == []
    assert not (run / lock.NAME).exists()


def test_a_live_run_is_spared_when_looked_at_and_when_it_came_alive_since(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256, 512)
    shown = leftovers(run)
    with open_run(run):
        before = everything(run)
        for attempt in (lambda: leftovers(run), lambda: remove(run, shown)):
            with pytest.raises(Spared, match=f"process {os.getpid()} is writing"):
                attempt()
        assert everything(run) == before
    assert remove(run, shown) == shown


def test_a_run_that_went_on_and_ended_since_loses_only_what_still_can_go(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256, 512)
    shown = leftovers(run)
    assert [leftover.path.name for leftover in shown] == ["step-256"]
    (run / "checkpoints/step-512/state.json").write_text("{}")  # and 256 is the newest again
    assert remove(run, shown) == []
    assert restored(run) == 256
    saved(run, 700, 900)  # the run goes on: 256 is long gone
    assert remove(run, shown) == []


def test_a_run_that_may_be_live_on_another_machine_is_spared(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256, 512)
    (run / lock.NAME).write_text("5 another-node\n")
    with pytest.raises(Spared, match="process 5 on another-node may be writing it"):
        leftovers(run)
    (run / lock.NAME).write_text(f"5 {socket.gethostname()}\n")  # was killed here
    assert names(run) == ["checkpoints/step-256"]


def away(run: Path) -> Callable[[str], Path]:
    """Moves a part of a run out of it and leaves a link; gives what is outside."""

    def move(name: str) -> Path:
        outside = run.parent / f"outside-{name.replace('/', '-')}"
        os.rename(run / name, outside)
        (run / name).symlink_to(outside)
        return outside

    return move


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints/step-256", "checkpoints/step-512"])
def test_what_lies_behind_a_link_stays(name: str, tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256, 512)
    outside = away(run)(name)
    (outside / ".tmp-1-1").mkdir()
    before = everything(tmp_path)
    remove(run, leftovers(run))
    assert everything(tmp_path) == before


def test_links_among_leftovers_go_as_links(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("mine")
    (run / ".tmp-link").symlink_to(precious)
    (run / "nonfinite").symlink_to(precious)
    (precious / "step-1").mkdir()
    (precious / ".tmp-1").mkdir()
    assert names(run) == [".tmp-link"]
    remove(run, leftovers(run))
    assert not os.path.lexists(run / ".tmp-link")
    assert sorted(path.name for path in precious.iterdir()) == [".tmp-1", "data", "step-1"]


def test_a_lock_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", 256, 512)
    (tmp_path / "mine").write_text("text")
    (run / lock.NAME).unlink()
    (run / lock.NAME).symlink_to(tmp_path / "mine")
    with pytest.raises(Spared, match="is no plain file"):
        leftovers(run)
    assert (tmp_path / "mine").read_text() == "text"
