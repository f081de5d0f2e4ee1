"""Curves of a run: their panels and names, and one sentence for what cannot be read."""

import struct
from pathlib import Path

import pytest

from crosstraj.report.curves import curves_figure
from crosstraj.runs.read import as_kept
from tests.cli.answers import Capture, answer, refusal
from tests.conftest import Trained


def test_curves_draws_a_png_of_one_panel_per_kind_of_figure(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    out = tmp_path / "drawn.png"
    code, said, _ = answer(capfd, "curves", str(trained.directory), "--out", str(out))
    assert (code, said) == (0, f"{out}\n")
    picture = out.read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    # PPO has returns, ranks and a policy: three panels of 4.2 by 3.3 inches, 110 dots each.
    assert struct.unpack(">II", picture[16:24]) == (1386, 363)


def test_curves_carry_the_name_of_the_run_and_no_empty_panel() -> None:
    figures = ("train_return", "entropy", "view_cosine", "feature_rank")
    rows = [{"row": "update", "frames": 10 * n, **dict.fromkeys(figures, 0.5)} for n in (1, 2)]
    figure = curves_figure(rows, "ppo-maze-s0")
    assert figure is not None
    assert figure.get_suptitle() == "ppo-maze-s0"
    assert sum(axes.axison for axes in figure.axes) == sum(bool(a.lines) for a in figure.axes) == 4


def test_a_run_draws_its_own_curves(trained: Trained) -> None:
    assert (trained.directory / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_curves_are_drawn_of_a_kept_run_too(
    trained: Trained, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "my_variant/coinrun-s0.jsonl"
    kept.parent.mkdir()
    kept.write_bytes(as_kept(trained.directory))
    monkeypatch.chdir(tmp_path)
    assert answer(capfd, "curves", str(kept))[:2] == (0, "curves.png\n")
    assert answer(capfd, "curves", str(trained.directory), "--out", "own.png")[0] == 0
    assert Path("curves.png").stat().st_size == pytest.approx(
        Path("own.png").stat().st_size, rel=0.1
    )
    Path("notes.md").write_text("no run")
    assert "notes.md is neither a run directory nor" in refusal(capfd, "curves", "notes.md")


def test_curves_refuses_what_it_cannot_read_or_write(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    run = str(trained.directory)
    assert str(tmp_path) in refusal(capfd, "curves", str(tmp_path))
    assert "nowhere/a.png" in refusal(
        capfd, "curves", run, "--out", str(tmp_path / "nowhere/a.png")
    )
    assert "a.nonsense" in refusal(capfd, "curves", run, "--out", str(tmp_path / "a.nonsense"))
    (tmp_path / "metrics.jsonl").write_text('{"frames":1,"other":2}\n')
    assert str(tmp_path) in refusal(capfd, "curves", str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl"]
