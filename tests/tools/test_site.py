"""The site as a whole: it builds without a warning, its links hold, and its commands are ours."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import crosstraj
from crosstraj.cli import parse
from crosstraj.cli.main import COMMANDS, main
from crosstraj.config.methods import METHODS, brought
from crosstraj.report import drawing
from tests.tools.site.pages import ROOT, Command, commands_of, inline_commands, pages

# Programs of others, which only docs/cluster.md and the pages on installing call.
OTHERS = ("pip", "ray", "export", "sbatch", "docker", "kubectl", "tensorboard")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
OURS = ("experiments/", "examples/", "results/", "tests/", "tools/")  # a path there must exist
COMMANDS_OF_PAGES = [
    command for page in pages() for command in commands_of(page.name, page.read_text())
]


@pytest.fixture
def nothing_brought() -> Iterator[None]:
    """A method that a command brought along is gone afterwards."""
    yield
    for name in brought():
        del METHODS[name]


class Read(Exception):
    """The words of a command made sense."""


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands read their words and end there."""
    build = parse.build

    def end(*arguments: object) -> None:
        build(*arguments)  # type: ignore[arg-type]
        raise Read

    monkeypatch.setattr(parse, "build", end)


def test_commands_are_found_in_a_page() -> None:
    text = (
        "# Page\n\n```\nmake a && crosstraj b   # long: x\nfor i in 0 1; do c $i; done\n```\n\n"
        "<!-- long -->\n```sh\nd \\\n  e   # why so long\n```\n\n```text\nno\n```\n`crosstraj f`\n"
    )
    found = [(" ".join(c.words), c.long) for c in commands_of("p", text)]
    assert found == [("make a", True), ("crosstraj b", True), ("c 0", False), ("d e", True)]
    assert [c.words for c in inline_commands("p", text)] == [("crosstraj", "f")]


def test_the_version_is_the_same_wherever_it_is_cited() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == crosstraj.__version__
    assert f"\nversion: {crosstraj.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"= {{{crosstraj.__version__}}}" in (ROOT / "docs/cite.md").read_text()
    assert f"## {crosstraj.__version__}" in (ROOT / "docs/changelog.md").read_text()


def ours(command: Command) -> tuple[str, ...] | None:
    """What follows `crosstraj`; None for another program."""
    return command.words[1:] if Path(command.words[0]).name == "crosstraj" else None


@pytest.mark.usefixtures("read_only", "nothing_brought")
def test_every_command_in_the_pages_can_be_read() -> None:
    inline = [c for page in pages() for c in inline_commands(page.name, page.read_text())]
    readme = commands_of("README.md", (ROOT / "README.md").read_text())
    faults = [
        f"{command.page}: {' '.join(command.words)}: {fault}"
        for command in [*COMMANDS_OF_PAGES, *inline, *readme]
        if (fault := wrong(command))
    ]
    assert faults == []
    assert len(COMMANDS_OF_PAGES) > 60


def wrong(command: Command) -> str:
    """What is wrong with a command; empty if nothing is."""
    program, *rest = command.words
    missing = [w for w in rest if w.startswith(OURS) and not (ROOT / w).exists()]
    if missing:
        return f"there is no {missing[0]}"
    match Path(program).name, rest:
        case "crosstraj", _:
            return refused(rest)
        case "make", [target, *_]:
            return "" if target in TARGETS else "no such target"
        case "python", ["-m", module, *_]:
            return "" if (ROOT / module.replace(".", "/")).with_suffix(".py").exists() else module
        case (("python" | "pytest"), _):
            return ""  # its file exists, as all paths of ours
        case name, _:
            return "" if name in OTHERS else "neither ours nor known"


def refused(words: list[str]) -> str:
    if words[0] not in COMMANDS:
        return "no such command"
    if len(words) == 1:  # a sentence about the command
        return ""
    try:
        code = main(words)
    except Read:
        return ""
    except SystemExit as end:
        code = int(end.code or 0)
    return "" if code == 0 else f"exit code {code}"


QUICK = ("methods", "runs", "clean", "curves", "report")
ONLY_LOOKS = {"--list", "--dry-run", "--table"}  # of an experiment


def is_quick(words: tuple[str, ...]) -> bool:
    return words[0] in QUICK or (words[0] == "experiment" and bool(ONLY_LOOKS & {*words}))


def short_commands() -> list[tuple[str, ...]]:
    found = [words for c in COMMANDS_OF_PAGES if not c.long and (words := ours(c)) is not None]
    return list(dict.fromkeys(found))


def test_what_takes_long_is_called_so() -> None:
    """`# long: ...` behind it, or the mark before its block; what has no mark is run by a test."""
    assert unmarked(COMMANDS_OF_PAGES) == []


def test_a_program_that_no_test_runs_needs_the_mark_as_well() -> None:
    text = "```\npip install .\npython examples/a.py   # long: a minute\ncrosstraj train\n```\n"
    assert unmarked(commands_of("p", text)) == ["p: pip install .", "p: crosstraj train"]


def unmarked(commands: Sequence[Command]) -> list[str]:
    """Commands that no test runs, ours or not, and that are not called long."""
    return [
        f"{command.page}: {' '.join(command.words)}"
        for command in commands
        if not command.long and ((words := ours(command)) is None or not is_quick(words))
    ]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, clustered: Path) -> Path:
    """A checkout with one small run and the experiment file of the tutorial."""
    place = tmp_path_factory.mktemp("work")
    (place / "results").mkdir()  # commands write there
    for name in ("experiments", "examples", "results/learn"):
        (place / name).symlink_to(ROOT / name)
    shutil.copytree(clustered, place / "runs" / "<run>")
    shutil.copytree(clustered, place / "RUNS...")
    tutorial = (ROOT / "docs/tutorials/compare.md").read_text()
    (place / "mine.toml").write_text(tutorial.split("```toml\n")[1].split("```")[0])
    return place


@pytest.mark.parametrize("words", [*filter(is_quick, short_commands())], ids=" ".join)
def test_a_command_that_is_not_called_long_runs(
    words: tuple[str, ...], workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "n")
    monkeypatch.setattr(drawing, "png", lambda figure: b"not drawn")  # which takes seconds
    assert main(words) == 0


# --- the built site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, by the command of `make docs`."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    done = subprocess.run(
        [*command, "-d", str(out / "doctrees"), "docs", str(out / "html")],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


class Page(HTMLParser):
    """The links of a page, what it loads, and the names that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.loads, self.names = set[str](), set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in ("script", "img", "link") and (source := given.get("src", given.get("href"))):
            self.loads.add(source)


def test_the_site_builds_without_a_warning_and_every_link_inside_it_holds(site: Path) -> None:
    read = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    assert len(read) > 60
    broken = []
    for path, page in read.items():
        for link in page.links | page.loads:
            where = urlsplit(link)
            if where.scheme or where.netloc:
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            names = read[target].names if target in read else {""}
            if not target.exists() or (where.fragment and unquote(where.fragment) not in names):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_fetched_and_nothing_was_left_unfilled(site: Path) -> None:
    """A page opens from disk: scripts, styles and pictures are all beside it."""
    for path in site.rglob("*.html"):
        text = path.read_text()
        fetched = {load for load in Page(text).loads if urlsplit(load).scheme in ("http", "https")}
        assert fetched == set(), path
        assert "{{" not in re.sub(r"<(code|pre|script).*?</\1>", "", text, flags=re.DOTALL), path
