"""The glossary: every figure has its words, and every bound stands there alone."""

import ast
import math
from pathlib import Path
from typing import get_args

import crosstraj
from crosstraj.config.groups import LevelSplit
from crosstraj.health.glossary import GLOSSARY, GROUPS, Range, as_markdown, shorts
from crosstraj.learning.display import columns_of
from crosstraj.learning.evaluation import Episode, summarise
from crosstraj.report.curves import PANELS
from crosstraj.runs.log import read_rows
from tests.conftest import Trained

ROOT = Path(crosstraj.__file__).parent


def test_a_range_is_between_its_bounds_and_says_so() -> None:
    assert [x for x in (0.9, 1.0, 2.0, 3.0, 3.1) if Range(1, 3).holds(x)] == [2.0]
    assert Range(1, 3).margin(2.5) == 0.5
    assert Range(low=1).margin(-2.0) == -3.0
    assert not Range().holds(math.nan)
    ranges = (Range(), Range(low=20), Range(high=0.7), Range(1e-4, 0.05))
    assert [str(r) for r in ranges] == ["", "above 20", "below 0.7", "0.0001 to 0.05"]


def test_a_figure_stands_in_one_group_and_headings_are_plain() -> None:
    assert len(GLOSSARY) == sum(map(len, GROUPS.values()))
    assert all(f.short and f.label and "|" not in f.label for f in GLOSSARY.values())
    # What is healthy is alive: a table cannot praise what a sentence complains of.
    both = [f for f in GLOSSARY.values() if Range() not in (f.healthy, f.alive)]
    assert len(both) >= 2
    assert all(f.alive.low <= f.healthy.low and f.alive.high >= f.healthy.high for f in both)


def test_evaluations_and_curves_use_its_names(trained: Trained) -> None:
    episode = Episode(0, "", 1.0, 5, "solved")
    assert (
        summarise({split: [episode] * 2 for split in get_args(LevelSplit)}).keys()
        <= GLOSSARY.keys()
    )
    assert {name for _, series in PANELS for name in series} <= GLOSSARY.keys()
    for log in ("metrics.jsonl", "timing.jsonl"):
        for row in read_rows(trained.directory / log):
            assert row.keys() - {"row"} <= GLOSSARY.keys()


def test_the_progress_line_has_its_headings_and_a_persons_own_figures_last() -> None:
    row = {"mine/told": 0.5, "feature_rank": 30.0, "train_return": 1.0, "clipped": 0.1}
    expected = {"train_return": "train", "feature_rank": "effective rank", "mine/told": "told"}
    assert list(columns_of(row).items()) == list(expected.items())
    assert shorts("kl", "cluster") == {"kl": "KL", "cluster": "L_clust"}


def compared(source: str) -> list[str]:
    """Comparisons of a number other than 0 and 1 with something that names a figure."""
    found = []
    for node in ast.walk(ast.parse(source)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        numbers = [s.value for s in sides if isinstance(s, ast.Constant)]
        strings = [n.value for s in sides for n in ast.walk(s) if isinstance(n, ast.Constant)]
        named = any(text in GLOSSARY for text in strings if isinstance(text, str))
        if named and any(isinstance(n, int | float) and n not in (0, 1) for n in numbers):
            found.append(ast.unparse(node))
    return found


def bounds() -> set[float]:
    ranges = [r for figure in GLOSSARY.values() for r in (figure.healthy, figure.alive)]
    return {bound for r in ranges for bound in r if math.isfinite(bound)}


def test_no_bound_of_a_figure_stands_anywhere_else() -> None:
    assert compared("x = 0.8 < row['view_cosine']") == ["0.8 < row['view_cosine']"]
    for path in ROOT.rglob("*.py"):
        source = path.read_text()
        assert compared(source) == [], path
        judges = ".alive" in source or ".healthy" in source
        if judges and path.name != "glossary.py":
            floats = [n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant)]
            written = {x for x in floats if isinstance(x, float)}
            assert not written & {b for b in bounds() if b != int(b)}, path


def test_the_page_on_figures_is_the_glossary() -> None:
    _, _, tables = Path("docs/figures.md").read_text().partition("\n\n## ")
    assert f"## {tables}" == as_markdown(), "put what glossary.as_markdown() gives into the page"
