"""A report as plain data, and as Markdown, HTML, LaTeX and JSON.

Blocks hold plain text, whatever a run directory put into it; each writer escapes everything it is
given, so no name can become markup. File names of pictures are our own.
"""

import html as _html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, assert_never


class Heading(NamedTuple):
    text: str
    level: int = 2


class Text(NamedTuple):
    text: str


class Items(NamedTuple):
    items: Sequence[str]


class Table(NamedTuple):
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Picture(NamedTuple):
    file: str  # relative to the report
    caption: str
    broad: bool = False  # of many panels: a narrow screen scrolls it instead of shrinking it


Block = Heading | Text | Items | Table | Picture


def plain(text: str) -> str:
    """One line of printable characters: no control codes, no line breaks, no reversed writing."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def markdown(blocks: Iterable[Block]) -> str:
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_marked(text)}"
        case Text(text):
            return _marked(text)
        case Items(items):
            return "\n".join(f"- {_marked(item)}" for item in items)
        case Table(caption, head, rows):
            top, *cells = [[_marked(cell) for cell in row] for row in (head, *rows)]
            rule = ["---"] + ["---:"] * (len(head) - 1)
            return f"{_marked(caption)}\n\n{_lines([top, rule, *cells])}"
        case Picture(file, caption):
            return f"![{_marked(caption)}]({file})"
        case other:
            assert_never(other)


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def marked_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of our own words, which may hold Markdown, such as bold; bars in them are escaped."""
    top, *cells = [[cell.replace("|", r"\|") for cell in row] for row in (head, *rows)]
    return "\n".join([_lines([top]), "|---" * len(top) + "|", *([_lines(cells)] if cells else [])])


def _marked(text: str) -> str:
    """With a backslash before whatever Markdown, or GitHub's links, could take for its own."""
    escaped = re.sub(r"[\\`*_\[\]<>|~&!#$@{}]", r"\\\g<0>", plain(text))
    return re.sub(r":(?=//)|\.(?<=www\.)", r"\\\g<0>", escaped, flags=re.IGNORECASE)


STYLE = """
:root { color-scheme: light dark; --ink: #1a1d21; --soft: #59626d; --line: #d9dee4;
  --paper: #fff; --accent: #0072b2 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa5b3; --line: #333c48;
  --paper: #12161c; --accent: #56b4e9 } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; color: var(--ink); background: var(--paper) }
h1, h2, h3 { line-height: 1.2; margin: 2em 0 .5em; overflow-wrap: anywhere } h1 { margin-top: 0 }
h2 { border-top: 2px solid var(--accent); padding-top: .6em }
h1 + p { font-size: 1.12em } p, ul { max-width: 46rem }
.wide { overflow-x: auto } table { border-collapse: collapse; margin: .5rem 0 1.5rem }
.caption { color: var(--soft); margin-bottom: .3rem; font-size: .93em }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; font-variant-numeric: tabular-nums }
thead th { border-bottom: 2px solid var(--soft); white-space: normal; vertical-align: bottom }
td.words { text-align: left; white-space: normal; min-width: 9rem; overflow-wrap: anywhere }
th:first-child { text-align: left; font-weight: 600 }
tbody th { white-space: normal; min-width: 6rem }
figure { margin: 1rem 0 2rem } figure img { max-width: 100%; height: auto; background: #fff;
  border-radius: 8px } figcaption { color: var(--soft); font-size: .93em }
@media (prefers-color-scheme: dark) { figure img { filter: invert(.92) hue-rotate(180deg) } }
li { margin: .2rem 0; overflow-wrap: anywhere }
@media (max-width: 40rem) { body { margin: 1rem auto; font-size: 15px }
  th, td { padding: .3rem .5rem } .broad { overflow-x: auto } .broad img { max-width: none;
  width: 60rem } }
"""


def html(title: str, blocks: Iterable[Block]) -> str:
    """One page that opens from disk; its pictures lie beside it."""
    body = "\n".join(_element(block) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en-GB">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _element(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_text(text)}</h{level}>"
        case Text(text):
            return f"<p>{_text(text)}</p>"
        case Items(items):
            return "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"
        case Table(caption, head, rows):
            top = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in head)
            body = "\n".join(f"<tr>{_row(row)}</tr>" for row in rows)
            return (  # the caption stands outside: it must not scroll with a wide table
                f'<p class="caption">{_text(caption)}</p>\n<div class="wide"><table>\n'
                f"<thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>"
            )
        case Picture(file, caption):
            words = _text(caption)
            image = f'<img src="{_text(file)}" alt="{words}">'
            image = f'<div class="broad">{image}</div>' if block.broad else image
            return f"<figure>{image}<figcaption>{words}</figcaption></figure>"
        case other:
            assert_never(other)


def _row(cells: Sequence[str]) -> str:
    first, *rest = cells
    return f'<th scope="row">{_text(first)}</th>' + "".join(map(_cell, rest))


def _cell(text: str) -> str:
    number = re.match(r"[-+–]?(\d|$)|NaN", text)
    return f"<td>{_text(text)}</td>" if number else f'<td class="words">{_text(text)}</td>'


def _text(text: str) -> str:
    return _html.escape(plain(text), quote=True)


LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "…": r"\ldots{}",
} | {letter: f"\\{letter}" for letter in "&%$#_{}"}


def latex(blocks: Iterable[Block]) -> str:
    """The tables alone, to be read by a paper: needs the package booktabs."""
    tables = [block for block in blocks if isinstance(block, Table)]
    return "\n\n".join(["% needs \\usepackage{booktabs}", *map(_tabular, tables)]) + "\n"


def _tabular(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"{' & '.join(map(_tex, cells))} \\\\"

    rows = "\n".join(map(line, table.rows))
    return (
        "\\begin{table}[ht]\n\\centering\n"
        f"\\caption{{{_tex(table.caption)}}}\n"
        f"\\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}\n\\toprule\n{line(table.head)}\n"
        f"\\midrule\n{rows}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}"
    )


def _tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in plain(text))


def as_json(values: Mapping[str, Any]) -> str:
    """What is not finite becomes null: JSON has no name for it."""

    def known(value: Any) -> Any:
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return known(value._asdict())
        if isinstance(value, Mapping):
            return {key: known(inner) for key, inner in value.items()}
        return [known(inner) for inner in value] if isinstance(value, list | tuple) else value

    return json.dumps(known(values), indent=1, allow_nan=False) + "\n"
