"""What a command answers: its exit code, what it says, and the files it leaves."""

import re
from pathlib import Path

import pytest

from crosstraj.cli.main import main

Capture = pytest.CaptureFixture[str]


def answer(capfd: Capture, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    capfd.readouterr()
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    said = capfd.readouterr()
    return code, said.out, said.err


def refusal(capfd: Capture, *arguments: str) -> str:
    """What a refused command says: one line on standard error, and nothing else."""
    code, out, error = answer(capfd, *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"crosstraj: [^\n]+\n", error), error
    return error


def tree(directory: Path) -> dict[str, bytes]:
    """Every file but the lock, in which an owner leaves its number."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "owner.lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}
