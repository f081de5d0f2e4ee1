"""How the house is kept: short files, names given once, a guide and a place for tests in each."""

import ast
import re
from pathlib import Path

import crosstraj
import tests

ROOT = Path(crosstraj.__file__).parent
PLACES = list(ROOT.rglob("*.py"))


def test_files_and_functions_are_short_enough_to_be_read_at_once() -> None:
    """A longer file gives its reason in its first lines: "longer than other files, because ..."."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in PLACES}
    long = {name for name, text in texts.items() if len(text.splitlines()) > 300}
    assert {name for name in long if "longer than other files, because" not in texts[name]} == set()
    functions = [
        (name, node)
        for name, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    spans = {(name, f.name): (f.end_lineno or 0) - f.lineno + 1 for name, f in functions}
    assert {which: span for which, span in spans.items() if span > 60} == {}


# Their packages say what their files are: a command, a table of an experiment, a section of a page.
BY_KIND = ("cli", "experiments/tables", "report/sections")


def test_a_name_is_given_to_one_module_and_the_root_has_few() -> None:
    names = [path.relative_to(ROOT) for path in PLACES if path.name != "__init__.py"]
    own = [name.stem for name in names if str(name.parent) not in BY_KIND]
    assert sorted(name for name in set(own) if own.count(name) > 1) == []
    assert len([path for path in ROOT.iterdir() if path.is_file()]) <= 8


def test_each_package_says_what_lives_there_and_the_map_names_places_that_exist() -> None:
    found = [path for path in PLACES if path.name == "__init__.py" and path.parent != ROOT]
    guides = {str(g): ast.get_docstring(ast.parse(g.read_text())) or "" for g in found}
    lines = {place: len(guide.splitlines()) for place, guide in guides.items()}
    assert {place: n for place, n in lines.items() if not 3 <= n <= 10} == {}
    table = Path("docs/architecture.md").read_text().partition("## Where is the code that")[2]
    places = re.findall(r"\| `([^`]+)` \|", table)
    assert len(places) >= 20
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_a_modules_tests_are_found_by_its_name_or_by_the_list_in_the_guide() -> None:
    listed = dict(re.findall(r"^    (\S+\.py): (.+)$", tests.__doc__ or "", re.MULTILINE))
    own = Path(tests.__file__).parent
    files = {str(path.relative_to(own)): path for path in own.rglob("test_*.py")}
    named = {  # tools and examples stand beside the package
        name for name, path in files.items()
        if any((home / name).with_name(path.name[5:]).exists() for home in (ROOT, ROOT.parent))
        or (ROOT.parent / name).with_name(path.stem[5:]).is_dir()
    }  # fmt: skip
    modules = {str(path.relative_to(ROOT)): path for path in PLACES if path.stem != "__init__"}
    alone = {m for m in modules if str(Path(m).with_name(f"test_{Path(m).name}")) not in files}
    trees = {module: ast.walk(ast.parse(modules[module].read_text())) for module in alone}
    large = {m for m, tree in trees.items() if sum(isinstance(n, ast.stmt) for n in tree) > 40}
    assert set(files) - named | large <= set(listed)
    assert set(listed) <= set(files) - named | alone, "what the rule finds need not be listed"
    assert [listed[module] for module in alone & set(listed) if listed[module] not in files] == []
    imports = re.compile(r"^ *(?:from|import) tests\.[\w.]*\btest_", re.MULTILINE)
    assert [name for name, path in files.items() if imports.search(path.read_text())] == []
