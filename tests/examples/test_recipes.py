"""The recipes for other libraries: short, first what to copy, all of them on the page."""

import ast
from pathlib import Path

import pytest

from tests.examples.recipes import EXAMPLES

RECIPES = sorted(EXAMPLES.glob("*_ppo_ctrl.py"))
PAGE = (EXAMPLES.parent / "docs" / "your_agent.md").read_text()


def test_there_is_one_for_each_of_three_libraries() -> None:
    assert [path.name.partition("_")[0] for path in RECIPES] == ["cleanrl", "sb3", "torchrl"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_short_and_says_first_what_to_copy(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 150
    said = ast.get_docstring(ast.parse(text)) or ""
    assert said.splitlines()[2].startswith("What to copy: ")
    assert f"python examples/{path.name}" in said
    assert f"](../examples/{path.name})" in PAGE
    assert f"\npython examples/{path.name}" in PAGE


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_uses_public_names_alone(path: Path) -> None:
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    froms = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    whole = [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
    ours = [name for name in [*froms, *whole] if name and name.startswith("crosstraj")]
    assert ours == ["crosstraj"]
