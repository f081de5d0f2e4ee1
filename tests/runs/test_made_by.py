"""Which versions of the code made a run, and that nothing but its config.json knows."""

import json
import subprocess
from pathlib import Path

import pytest

import crosstraj
from crosstraj.runs import made_by
from crosstraj.runs.directory import Run
from crosstraj.runs.made_by import codes_of, this_code
from crosstraj.runs.read import as_kept
from tests.runs.opened import CONFIG, make_state, open_run


def made_with(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(made_by, "this_code", lambda: code)


def go_on(run: Run, step: int) -> None:
    run.restore()
    run.metrics.write({"row": "update", "frames": step})
    run.timing.write({"frames": step, "seconds": 1.0})
    assert run.save(make_state(step), step)


def test_a_run_names_each_version_that_went_on_with_it_and_refuses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step, code in ((1, "a"), (2, "a"), (3, "b with changes"), (4, "a")):
        made_with(monkeypatch, code)
        with open_run(tmp_path, CONFIG | {"frames": 99 + step}) as run:
            assert codes_of(tmp_path)[-1:] != (code,) or step == 2  # not before it goes on
            go_on(run, step)
            run.finish({"frames": 99 + step})
    assert codes_of(tmp_path) == ("a", "b with changes", "a")
    made_with(monkeypatch, "c")
    with open_run(tmp_path, CONFIG | {"frames": 103}) as run:
        assert run.finished  # and is only asked for its summary
    kept = tmp_path / "coinrun-s0.jsonl"
    monkeypatch.setattr("crosstraj.runs.read.without_place", lambda config: config)
    kept.write_bytes(as_kept(tmp_path))
    assert codes_of(kept) == codes_of(tmp_path) == ("a", "b with changes", "a")


def test_the_version_changes_no_other_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for code in ("a", "b"):
        made_with(monkeypatch, code)
        with open_run(place := tmp_path / code) as run:
            go_on(run, 1)
        files = {path.relative_to(place): path for path in place.rglob("*") if path.is_file()}
        found.append({name: path.read_bytes() for name, path in files.items()})
    different = {str(name) for name in found[0] if found[0][name] != found[1][name]}
    assert different == {"config.json"}


def test_a_run_of_before_says_nothing_of_its_code(tmp_path: Path) -> None:
    for code in ({}, {"code": "a"}, {"code": [1]}):
        (tmp_path / "config.json").write_text(json.dumps({"config": {}} | code))
        assert codes_of(tmp_path) == ()
    (tmp_path / "config.json").write_text("[]")  # others say what is wrong with it
    assert codes_of(tmp_path) == ()


def commit(place: Path, *words: str) -> None:
    name = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *name, *words], cwd=place, check=True, capture_output=True)


def test_a_checkout_is_known_by_its_commit_and_by_changes_of_the_package_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "checkout" / "crosstraj"
    package.mkdir(parents=True)
    monkeypatch.setattr(made_by, "PACKAGE", package)
    installed = f"crosstraj {crosstraj.__version__}"
    assert this_code.__wrapped__() == installed
    commit(tmp_path, "init")  # a repository around an installed package is another one
    assert this_code.__wrapped__() == installed
    commit(package.parent, "init")
    assert this_code.__wrapped__() == installed  # no commit yet
    (package / "a.py").write_text("1")
    commit(package.parent, "add", "-A")
    commit(package.parent, "commit", "-m", "x")
    clean = this_code.__wrapped__()
    assert len(clean) == 12
    (package.parent / "notes").write_text("1")
    assert this_code.__wrapped__() == clean
    (package / "a.py").write_text("2")
    assert this_code.__wrapped__() == f"{clean} with changes"
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert this_code.__wrapped__() == installed
