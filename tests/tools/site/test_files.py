"""Pages for files outside docs/: which links are meant, and what such a page shows."""

import re
from pathlib import Path

from tools.site.files import ROOT, content, directory, outside, page_of

DOCS = ROOT / "docs"


def test_a_link_is_to_a_file_outside_docs_with_or_without_its_ending() -> None:
    assert outside(DOCS / "../crosstraj/loop.py", DOCS) == ROOT / "crosstraj/loop.py"
    assert outside(DOCS / "../results/ledger", DOCS) == ROOT / "results/ledger.md"
    assert outside(DOCS / "searches.in", DOCS) == DOCS / "searches.in.md"  # no page of the site
    assert outside(DOCS / "methods.md", DOCS) is None
    assert outside(DOCS / "../nowhere.py", DOCS) is None
    assert outside(Path("/etc/hostname"), DOCS) is None
    assert page_of(ROOT / "crosstraj/loop.py") == "files/crosstraj/loop.py"


def test_what_a_page_shows(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1 < 2\n")
    (tmp_path / "b.md").write_text("# B\n\n[y](a.py) [z](https://z)\n\n| c |\n|---|\n| d |\n")
    (tmp_path / "e.bin").write_bytes(b"\0")
    assert "&lt;" in content(tmp_path / "a.py")
    page = content(tmp_path / "b.md")
    assert "<td><p>d</p></td>" in page
    assert '<div class="table-wrapper docutils container"><table class="docutils">' in page
    assert re.findall('href="(.*?)"', page) == ["https://z"]  # a.py may have no page
    listed = directory(tmp_path)
    assert f'<a href="{tmp_path.name}/a.py.html">a.py</a>' in listed
    assert "<li>e.bin</li>" in listed
