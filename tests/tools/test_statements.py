"""Counting statements: what is one, and which commit has added it."""

import subprocess
from pathlib import Path

import pytest

from tools import statements as tool
from tools.statements import account, rooms, statements

SOURCE = '''"""What it is."""
import os

def double(x):
    """Twice."""
    if x:
        return 2 * x
    return x
'''


def test_imports_and_docstrings_are_no_statements_of_their_own() -> None:
    assert statements(SOURCE) == 4  # def, if, return, return
    assert statements(SOURCE.replace("2 * x", "(\n2\n* x\n)")) == 4


def test_statements_are_counted_by_room(tmp_path: Path) -> None:
    (tmp_path / "nn").mkdir()
    (tmp_path / "alone.py").write_text("x = 1\ny = 2\n")
    (tmp_path / "nn" / "ops.py").write_text(SOURCE)
    assert rooms(tmp_path) == {"(root)": 2, "nn": 4}


def test_what_a_part_and_other_commits_add_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "core.hooksPath=/dev/null")
        command = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(subject: str, **files: str) -> str:
        (tmp_path / "crosstraj" / "nn").mkdir(parents=True, exist_ok=True)
        for name, source in files.items():
            (tmp_path / "crosstraj" / "nn" / f"{name}.py").write_text(source)
        git("add", "-A")
        git("commit", "-q", "-m", subject)
        return git("rev-parse", "HEAD")

    git("init", "-q")
    first = commit("rooms", a=SOURCE)
    part = commit("an ability", b="x = 1\ny = 2\nz = 3\n")
    last = commit("shorter", a="def double(x):\n    return 2 * x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tool, "PARTS", {"asked: it": part[:7]})
    assert account(f"{first}..{last}").split("\n\n") == [
        "     +3  asked: it",
        f"     -2  {last[:7]} shorter",
        "     +1  all\n     +3  asked for with the rooms\n"
        "     -2  commits above that no part names\n     +0  merges",
    ]
