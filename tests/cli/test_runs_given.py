"""`runs/*` may hold more than runs: what is none is passed over, and one line says so."""

from pathlib import Path

import pytest

from crosstraj.cli.main import main
from crosstraj.cli.runs_given import only_runs
from tests.conftest import Trained

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("run", "nested/run", "empty"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("run", "nested/run"):
        (tmp_path / name / "config.json").write_text("{}")
    (tmp_path / "run.log").write_text("words")
    return tmp_path


def test_files_and_directories_without_a_run_are_passed_over(place: Path, capfd: Capture) -> None:
    paths = sorted(place.iterdir())
    assert [path.name for path in only_runs(paths)] == ["nested", "run"]
    said = f"passed over, for they hold no run: {place}/empty, {place}/run.log\n"
    assert capfd.readouterr().err == said


def test_a_path_that_is_not_there_is_left_for_its_reader_to_refuse(
    place: Path, capfd: Capture
) -> None:
    paths = [place / "run", place / "misspelt"]
    assert only_runs(paths) == paths
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("command", ["report", "analyse"])
def test_where_no_run_is_left_the_command_refuses(
    command: str, place: Path, capfd: Capture
) -> None:
    assert main([command, str(place / "run.log"), "--out", str(place / "out")]) == 2
    said = capfd.readouterr().err
    assert str(place / "run.log") in said
    assert said.count("\n") == 1


def test_a_report_of_a_run_and_the_log_beside_it_is_that_of_the_run(
    trained: Trained, tmp_path: Path, capfd: Capture
) -> None:
    log = tmp_path / f"{trained.directory.name}.log"
    log.write_text("what the process said")
    words = (str(trained.directory), str(log), "--out", str(tmp_path / "report"))
    assert main(["report", *words]) == 0
    assert f"passed over, for they hold no run: {log}" in capfd.readouterr().err
    assert list((tmp_path / "report").glob("*.html"))
