"""Links to files of this repository outside docs/: each leads to a page that shows the file.

A directory's page lists what is in it. The pages are made as Sphinx's own `viewcode` makes its:
they are no documents, so they are in no table of contents and no search.
"""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.core import publish_parts
from sphinx import addnodes
from sphinx.highlighting import PygmentsBridge
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".c": "c", ".json": "json"}
INNER_LINK = re.compile(r'<a class="[^"]*" href="(?!https?:)[^"]*">(.*?)</a>', re.DOTALL)
TABLE = '<div class="table-wrapper docutils container"><table class="docutils">'
LARGEST = 200_000  # bytes of a file that is shown


class LinksToFiles(SphinxTransform):
    """A link to a file or directory outside docs/ becomes one to its page, before Sphinx looks."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        here = Path(self.env.doc2path(self.env.docname)).parent
        for node in list(self.document.findall(is_link)):
            if not (found := outside(here / node["reftarget"], Path(self.env.srcdir))):
                continue
            page = page_of(found)
            self.env.domaindata.setdefault("crosstraj_files", {})[page] = str(found)
            up = "../" * self.env.docname.count("/")
            link = nodes.reference("", "", *node.children, refuri=f"{up}{page}.html", internal=True)
            node.replace_self(link)


def outside(target: Path, site: Path) -> Path | None:
    """The file or directory that is meant, if it is no page of the site itself."""
    for path in (target.resolve(), target.with_name(f"{target.name}.md").resolve()):
        ours = path.is_relative_to(site) and not path.name.endswith(".in.md")
        if path.exists() and path.is_relative_to(ROOT) and not ours:
            return path
    return None


def is_link(node: nodes.Node) -> bool:
    links = isinstance(node, addnodes.download_reference | addnodes.pending_xref)
    return links and "reftarget" in node.attributes


def page_of(path: Path) -> str:
    return f"files/{path.relative_to(ROOT).as_posix()}"


def pages(app: "Sphinx") -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file that is linked to, and for the text files of linked directories."""
    wanted: dict[str, str] = dict(app.env.domaindata.get("crosstraj_files", {}))
    for name in list(wanted.values()):
        if Path(name).is_dir():
            wanted |= {page_of(file): str(file) for file in listed(Path(name)) if shown(file)}
    for page, name in sorted(wanted.items()):
        path = Path(name)
        if not path.exists():  # since a former build, whose pages Sphinx remembers
            continue
        title = path.relative_to(ROOT).as_posix()
        body = directory(path) if path.is_dir() else content(path)
        head = f'<h1 class="file"><code>{escape(title)}</code></h1>'
        yield page, {"title": title, "body": head + body}, "page.html"


def listed(place: Path) -> list[Path]:
    return sorted(p for p in place.iterdir() if not p.name.startswith((".", "__")))


def shown(path: Path) -> bool:
    small = path.is_file() and path.stat().st_size <= LARGEST
    return small and path.suffix in {*LANGUAGES, ".md", ".sbatch", ".sh", ""}


def directory(place: Path) -> str:
    """What is in it; text files are links, one directory down."""
    rows = []
    for path in listed(place):
        name = escape(path.name) + ("/" if path.is_dir() else "")
        target = f"{escape(place.name)}/{name}.html"
        rows.append(f'<a href="{target}">{name}</a>' if shown(path) else name)
    return "<ul>" + "".join(f"<li>{row}</li>" for row in rows) + "</ul>"


def content(path: Path) -> str:
    """Markdown as a page, but for templates (docs/*.in.md); all else as highlighted text."""
    if path.suffix == ".md" and not path.name.endswith(".in.md"):
        return rendered(path)
    text = path.read_text()[:LARGEST]
    bridge = PygmentsBridge("html")
    return str(bridge.highlight_block(text, LANGUAGES.get(path.suffix, "text")))


def rendered(path: Path) -> str:
    """Pictures are inside the page; links within the repository fall away."""
    from myst_parser.parsers.docutils_ import Parser

    settings = {"myst_all_links_external": True, "report_level": 5, "image_loading": "embed"}
    parts = publish_parts(
        path.read_text(),
        source_path=str(path),
        parser=Parser(),
        writer="html5",
        settings_overrides=settings,
    )
    page = INNER_LINK.sub(r"\1", str(parts["fragment"]))
    page = re.sub("<table[^>]*>", TABLE, page)  # as the theme has it, to scroll by itself
    return page.replace("</table>", "</table></div>")


def setup(app: "Sphinx") -> None:
    app.add_transform(LinksToFiles)
    app.connect("html-collect-pages", pages)
