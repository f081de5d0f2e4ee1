"""The site: `make docs` has Sphinx build it from docs/, and this extension fills in the lists.

Where a page of docs/ has `{{commands: ...}}` or another name of `FILLED` on a line of its own, the
list is read off the code or results/ at build time, so no page can be out of date. What follows the
name is for those who read the page without the site: where they find the list. Links to files of
this repository outside docs/ lead to pages that show the file (files.py).
"""

import re
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from tools.site import commands, docstrings, files, long_marks, values

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _studies() -> ModuleType:
    """Not at the top: `python -m tools.site.studies` would find itself imported already."""
    from tools.site import studies

    return studies


FILLED: dict[str, Callable[[], str]] = {
    "commands": commands.every_command,
    "values": values.every_value,
    "presets": values.every_preset,
    "times": lambda: str(_studies().times()),
    "never_run": lambda: str(_studies().never_run()),
    "main_table": lambda: str(_studies().main_table()),
}
MARK = re.compile(r"^\{\{(\w+)(?:: [^}]*)?\}\}$", re.MULTILINE)


def fill(text: str) -> str:
    """A page with its lists; a name that nobody knows stays, and a test finds it."""
    return MARK.sub(lambda mark: FILLED[mark[1]]() if mark[1] in FILLED else mark[0], text)


def _read(app: "Sphinx", page: str, source: list[str]) -> None:
    source[0] = fill(source[0])


def setup(app: "Sphinx") -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", _read)
    files.setup(app)
    docstrings.setup(app)
    long_marks.setup(app)
    return {"parallel_read_safe": False, "parallel_write_safe": True}  # linked files are noted
