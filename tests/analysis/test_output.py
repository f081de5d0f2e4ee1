"""Names of files and directories of an analysis: inside its place, and each its own."""

import re

import pytest

from crosstraj.analysis import output


@pytest.mark.parametrize("name", ["..", "a/../..", ".hidden", "x" * 300, "a\nb", "ü<>"])
def test_file_names_stay_inside_the_output(name, tmp_path):
    (safe,) = output.file_names([tmp_path / name])
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", safe)
    assert len(safe) <= 100


def test_equal_names_become_different_directories(tmp_path):
    runs = [tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "c" / "run"]
    assert len(set(output.file_names(runs))) == 3
