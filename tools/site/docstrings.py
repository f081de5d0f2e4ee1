"""Our docstrings, which are plain text for people, as reStructuredText for Sphinx.

In them `x` is code, an indented block after a colon is an example, and a paragraph whose lines are
`name: words` describes arguments.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NAMED = re.compile(r"(\w+): (?=\S)")
CODE = re.compile(r"`([^`]+)`")


def as_rst(lines: list[str]) -> list[str]:
    """Paragraph by paragraph; examples are left as they are."""
    found: list[str] = []
    for paragraph in paragraphs(lines):
        if paragraph[0].startswith(" "):  # an example
            if found:
                found[-2] += ":" if found[-2].endswith(":") else ""
            found += [*paragraph, ""]
        elif NAMED.match(paragraph[0]) and len(paragraph) > 1:
            found += [*arguments(paragraph), ""]
        else:
            found += [*map(marked, paragraph), ""]
    return found


def paragraphs(lines: list[str]) -> list[list[str]]:
    """Runs of lines between empty ones; an example with empty lines in it comes as several."""
    text = "\n".join(lines).strip("\n")
    return [part.split("\n") for part in re.split(r"\n{2,}", text)] if text else []


def arguments(paragraph: list[str]) -> list[str]:
    """A list of names, each with its words; what is indented goes on with the name before it."""
    return [
        f"* ``{named[1]}``: {marked(line[named.end() :])}"
        if (named := NAMED.match(line))
        else f"  {marked(line.strip())}"
        for line in paragraph
    ]


def marked(line: str) -> str:
    """`x` as code, and no star or trailing underscore that would mean something."""
    plain = [
        part if number % 2 else part.replace("*", r"\*").replace("_ ", r"\_ ")
        for number, part in enumerate(CODE.split(line))
    ]
    return "".join(f"``{part}``" if number % 2 else part for number, part in enumerate(plain))


def process(
    app: "Sphinx", what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    lines[:] = as_rst(lines)


def setup(app: "Sphinx") -> None:
    app.connect("autodoc-process-docstring", process)
