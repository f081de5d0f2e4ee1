"""The public names: each is there, is what a type checker is told it is, and comes when asked."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import crosstraj
import crosstraj.loop  # a module of ours must hide none of them

SOURCE = ast.parse(Path(crosstraj.__file__).read_text())


def declared() -> dict[str, str]:
    """Each name that a type checker sees, with its module."""
    (block,) = [node for node in SOURCE.body if isinstance(node, ast.If)]
    pairs = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in pairs for alias in node.names}


@pytest.mark.parametrize("name", crosstraj.__all__)
def test_a_name_is_what_a_type_checker_is_told(name: str) -> None:
    value = getattr(crosstraj, name)
    assert value is getattr(import_module(declared()[name]), name)
    assert callable(value)
    assert value.__doc__  # and explained
    assert name in dir(crosstraj)


def test_the_list_is_whole() -> None:
    assert sorted(crosstraj.__all__) == sorted(declared())
    with pytest.raises(AttributeError, match="module 'crosstraj' has no attribute 'Trajectory'"):
        _ = crosstraj.Trajectory  # type: ignore[attr-defined]


def test_no_module_hides_a_name() -> None:
    assert callable(crosstraj.train)
    modules = {path.stem for path in Path(crosstraj.__file__).parent.iterdir()}
    assert not modules & set(crosstraj.__all__)
