"""`<!-- long -->` before a block of commands: they take minutes or more, which the site shows.

A test runs every other command of the pages.
"""

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MARK = "<!-- long -->"


class ShowLong(SphinxTransform):
    """The block after the mark gets a class of its own; _static/site.css has the words."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        for mark in list(self.document.findall(nodes.raw)):
            if mark.astext().strip() == MARK:
                block = mark.next_node(descend=False, siblings=True)
                assert isinstance(block, nodes.literal_block), f"{MARK} stands before no block"
                block["classes"].append("long")
                mark.parent.remove(mark)


def setup(app: "Sphinx") -> None:
    app.add_transform(ShowLong)
