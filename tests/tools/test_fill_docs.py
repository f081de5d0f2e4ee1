"""Pages whose numbers are those of results/: filled in, and the ones we ship up to date."""

import json
from pathlib import Path

import pytest

from crosstraj.errors import BadInput
from tools.fill_docs import fill

TABLE = """# Title

**Partial**: 1 of 2 runs are finished

| a | b |
|---|---|
| 1 | 2 |

| c |
|---|

Notes | with a bar
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    place = tmp_path / "one"
    place.mkdir()
    (place / "table.md").write_text(TABLE)
    figures = {"unseen_return": {"mean": 3.14159}}
    cell = {"variant": "a, b", "game": "bigfish", "figures": figures}
    cells = [cell | {"extremes": {"unseen_return": [1.0, 7.0]}}]
    (place / "table.json").write_text(json.dumps({"cells": cells}))
    return tmp_path


def test_tables_state_and_figures_are_filled_in(results: Path) -> None:
    assert fill("x {{one: a, b | bigfish | unseen_return}} y", results) == "x 3.14 y"
    assert fill("{{one: table 1}}\n{{one: table 2}}", results) == "\n".join(
        ["| a | b |", "|---|---|", "| 1 | 2 |", "| c |", "|---|"]
    )
    assert fill("{{one: state}}.", results) == "**Partial**: 1 of 2 runs are finished."
    ends = "{{one: a, b | bigfish | min unseen_return}}-{{one: a, b | bigfish | max unseen_return}}"
    assert fill(ends, results) == "1.00-7.00"
    assert fill("{a} stays", results) == "{a} stays"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("table 3", "has 2 tables"),
        ("c | bigfish | unseen_return", "unknown cell 'c | bigfish'"),
        ("a, b | bigfish | mid unseen_return", "unknown figure 'mid unseen_return'"),
        ("a, b | bigfish | unseen", "unknown figure 'unseen': did you mean 'unseen_return'"),
    ],
)
def test_what_is_not_there_is_named(results: Path, wanted: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence.replace("|", r"\|")):
        fill(f"{{{{one: {wanted}}}}}", results)


def test_our_pages_say_what_results_say() -> None:
    templates = sorted(Path("docs").glob("*.in.md"))
    assert templates
    for template in templates:
        page = template.with_name(template.name.replace(".in.md", ".md"))
        assert page.read_text() == fill(template.read_text(), Path("results")), (
            f"{page} is out of date: python -m tools.fill_docs {template} {page}"
        )
