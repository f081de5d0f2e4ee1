"""TensorBoard and W&B show what metrics.jsonl holds; if one breaks, the run does not."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from crosstraj.cli.main import main
from crosstraj.runs import mirrors as mirror
from crosstraj.runs.log import Log, read_rows
from tests.conftest import Trained


def shown(run: Path) -> dict[tuple[str, int], list[float]]:
    """(kind/figure, frames) -> every value that TensorBoard has for it."""
    found: dict[tuple[str, int], list[float]] = {}
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            found.setdefault((tag, event.step), []).append(event.value)
    return found


def logged(run: Path) -> dict[tuple[str, int], list[Any]]:
    return {
        (f"{row['row']}/{name}", row["frames"]): [pytest.approx(value)]
        for row in read_rows(run / "metrics.jsonl")
        for name, value in row.items()
        if name not in ("row", "frames")
    }


@pytest.fixture
def copy(trained: Trained, tmp_path: Path) -> Path:
    """A finished run, whose budget can be extended."""
    run = tmp_path / trained.directory.name
    shutil.copytree(trained.directory, run)
    return run


def extend(trained: Trained, copy: Path, frames: int) -> int:
    more = ("--frames", str(frames), "--saving.tensorboard")
    return main([*trained.command, *more, "--saving.runs", str(copy.parent)])


def test_every_row_is_shown_once_those_of_an_earlier_process_too(trained: Trained, copy: Path):
    assert extend(trained, copy, 768) == 0
    assert extend(trained, copy, 1024) == 0
    assert len(read_rows(copy / "metrics.jsonl")) > 4
    assert shown(copy) == logged(copy)


def test_what_is_shown_there_changes_no_byte_of_the_run(trained: Trained, copy: Path, tmp_path):
    plain = tmp_path / "plain" / copy.name
    shutil.copytree(copy, plain)
    command = [*trained.command, "--frames", "768"]
    assert main([*command, "--saving.runs", str(plain.parent)]) == 0
    assert extend(trained, copy, 768) == 0
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert (copy / name).read_bytes() == (plain / name).read_bytes()


def boards(place: Path) -> dict[str, Any]:
    return {"TensorBoard": lambda: mirror.TensorBoard(place / "tensorboard")}


def broken(*_: object) -> None:
    raise RuntimeError("the mirror is broken")


def test_a_mirror_that_cannot_be_made_is_said_in_words(tmp_path: Path, monkeypatch):
    said: list[str] = []
    log = Log(tmp_path / "metrics.jsonl", said.append)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    mirror.mirror_in(log, boards(tmp_path), said.append)
    monkeypatch.setattr(mirror.TensorBoard, "__init__", broken)
    mirror.mirror_in(log, boards(tmp_path), said.append)
    assert log.mirror is None
    assert "pip install tensorboard" in said[0]
    assert said[1] == "nothing is shown in TensorBoard: the mirror is broken"


def test_one_that_breaks_later_is_given_up_and_no_row_is_lost(tmp_path: Path, monkeypatch):
    said: list[str] = []
    log = Log(tmp_path / "metrics.jsonl", said.append)
    mirror.mirror_in(log, boards(tmp_path), said.append)
    assert log.mirror is not None
    rows = [{"row": "update", "frames": n, "loss": 0.5} for n in range(3)]
    log.write(rows[0])
    monkeypatch.setattr(mirror.TensorBoard, "show", broken)
    log.write(rows[1])
    log.write(rows[2])
    log.close()
    assert read_rows(log.path) == rows
    assert len(said) == 1
    assert "no longer shown in TensorBoard: the mirror is broken" in said[0]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (tmp_path / "tensorboard").symlink_to(elsewhere)
    mirror.TensorBoard(tmp_path / "tensorboard").close()
    assert [path.name for path in elsewhere.iterdir()] == ["precious"]


class FakeWandB:
    """What W&B's package does for us, as far as we use it."""

    def __init__(self, rows: int = 0) -> None:
        self.logged: list[dict[str, Any]] = []
        self.begun: dict[str, Any] = {}
        self.summary, self.config, self.finished = {"rows": rows}, self, False

    def init(self, **how: Any) -> "FakeWandB":
        self.begun = how
        return self

    def Settings(self, **how: Any) -> dict[str, Any]:  # noqa: N802
        return how

    def define_metric(self, *_: Any, **__: Any) -> None: ...

    def update(self, *_: Any, **__: Any) -> None: ...

    def log(self, row: dict[str, Any]) -> None:
        self.logged.append(row)

    def finish(self) -> None:
        self.finished = True


def test_wandb_has_each_row_once_by_its_frames_however_often_a_run_is_resumed(
    trained: Trained, copy: Path, monkeypatch
):
    rows = read_rows(copy / "metrics.jsonl")
    log = Log(copy / "metrics.jsonl", lambda text: pytest.fail(text))
    fresh = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fresh)
    mirror.mirror_in(log, {"W&B": lambda: mirror.WandB(copy, {"seed": 5})}, pytest.fail)
    log.close()
    assert fresh.finished
    assert fresh.begun["config"] == {"seed": 5}
    assert [row["frames"] for row in fresh.logged] == [row["frames"] for row in rows]
    name = "update/entropy"
    assert [r[name] for r in fresh.logged if name in r] == [
        row["entropy"] for row in rows if row["row"] == "update"
    ]
    again = FakeWandB(rows=len(rows) - 1)
    monkeypatch.setitem(sys.modules, "wandb", again)
    log = Log(copy / "metrics.jsonl", pytest.fail)
    mirror.mirror_in(log, {"W&B": lambda: mirror.WandB(copy, {})}, pytest.fail)
    log.close()
    assert again.logged == fresh.logged[-1:]
    assert again.begun["id"] == fresh.begun["id"]


def test_one_mirror_that_breaks_leaves_the_other_alone(tmp_path: Path):
    class Shown(list):
        show = list.append

        def close(self) -> None:
            raise RuntimeError("late")

    class Broken(Shown):
        show = broken

    said: list[str] = []
    shown, log = Shown(), Log(tmp_path / "metrics.jsonl", said.append)
    mirror.mirror_in(log, {"W&B": Broken, "TensorBoard": lambda: shown}, said.append)
    rows = [{"row": "update", "frames": n} for n in range(2)]
    for row in rows:
        log.write(row)
    log.close()
    assert shown == rows
    assert [line.split(":")[0] for line in said] == [
        *("rows are no longer shown in W&B", "TensorBoard may lack the last rows"),
    ]
