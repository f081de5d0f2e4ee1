"""Counting statements: what is one, and what came since."""

from pathlib import Path

import crosstraj
from tools.statements import SINCE, counted, statements, table

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


def test_rooms_and_features_add_up_and_every_feature_is_there() -> None:
    shown = table({"a.py": 1, "cli/x.py": 2, "outside/y.py": 4})
    assert "      1  (root)\n      2  cli\n      4  outside\n" in shown
    assert shown.endswith("      7  all\n      3  without what came since")
    modules = counted(Path(crosstraj.__file__).parent)
    starts = [start for feature in SINCE.values() for start in feature]
    assert all(any(name.startswith(start) for name in modules) for start in starts)
