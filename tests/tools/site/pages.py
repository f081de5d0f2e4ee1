"""The pages of the site as text: their blocks of commands, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.site.long_marks import MARK

ROOT = Path(__file__).parents[3]
SHELL = ("", "sh")
LOOP = re.compile(r"\bfor (?P<name>\w+) in (?P<first>\S+)[^;]*;\s*do\b")


class Command(NamedTuple):
    page: str
    words: tuple[str, ...]
    long: bool


def pages() -> list[Path]:
    found = (path for path in (ROOT / "docs").rglob("*.md") if not path.name.endswith(".in.md"))
    return [*sorted(found), ROOT / "CONTRIBUTING.md"]


def blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """(kind, the line before, text) of each fenced block."""
    before, kind, lines = "", None, list[str]()
    for line in text.splitlines():
        if not line.startswith("```"):
            if kind is not None:
                lines.append(line)
            elif line.strip():
                before = line
        elif kind is None:
            kind, lines = line[3:].strip(), []
        else:
            yield kind, before, "\n".join(lines)
            before, kind = "", None


def commands_of(page: str, text: str) -> list[Command]:
    """Every command in the blocks of a page; a loop is gone through once."""
    found = []
    for kind, before, block in blocks(text):
        if kind not in SHELL:
            continue
        inner = block.replace("\\\n", " ")
        for loop in LOOP.finditer(inner):
            inner = inner.replace(f"${loop['name']}", loop["first"])
        for line in LOOP.sub("", inner).splitlines():
            code, _, comment = line.partition(" # ")
            long = before.strip() == MARK or comment.strip().startswith("long")
            for part in re.split(r"&&|;", code) if "'" not in code else [code]:
                words = [w for w in shlex.split(part) if not re.match(r"[A-Z_]+=", w)]
                if words and words != ["done"]:
                    found.append(Command(page, tuple(words), long))
    return found


def inline_commands(page: str, text: str) -> list[Command]:
    """Those in the middle of a sentence, `crosstraj NAME ...`; they are read and never run."""
    without = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"(?<!`)`(crosstraj [a-z][^`]*)`(?!`)", without)
    return [Command(page, tuple(shlex.split(" ".join(words.split()))), True) for words in found]
