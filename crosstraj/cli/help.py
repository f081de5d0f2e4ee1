"""The help of a command: its options with their defaults, in groups, as plain text."""

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import MISSING
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from crosstraj.cli.options import Option, spelt

COLUMN = 34  # where the words begin; a longer name has a line of its own
WIDEST = 100
NAMES = {int: "N", float: "X", str: "TEXT", Path: "PATH"}


def help_text(
    command: str, description: str, options: Sequence[Option], everyday: Sequence[str]
) -> str:
    """All options in their groups; or, where some are `everyday`, these alone in that order."""
    places = [option for option in options if option.positional]
    rest = [option for option in options if not option.positional]
    usage = " ".join(["usage: crosstraj", command, *map(placeholder, places), "[OPTIONS]"])
    parts = [usage, _wrapped(description)]
    if places:
        parts.append(_block("", places))
    if everyday:
        named = {option.name: option for option in rest}
        shown = [named[name] for name in everyday if name in named]
        parts += [
            _block("options", shown),
            _wrapped(
                f"`crosstraj {command} --help-all` shows {len(rest) - len(shown)} more, for this "
                "method and this environment."
            ),
        ]
    else:
        ordered = sorted(rest, key=lambda option: option.group != "")
        for group, members in groupby(ordered, key=lambda option: option.group):
            parts.append(_block(f"{group} options".strip(), list(members)))
    return "\n\n".join(part for part in parts if part)


def placeholder(option: Option) -> str:
    """What stands for the value: RUN by its place, PATH or {a,b} after a flag."""
    if option.positional and get_origin(option.kind) is not Literal:
        word = spelt(option.name).upper()
        return f"{word.removesuffix('S')} ..." if option.several else word
    if get_origin(option.kind) is Literal:
        word = "{" + ",".join(map(str, get_args(option.kind))) + "}"
    else:
        word = NAMES[option.kind]
    return f"{word} ..." if option.several else word


def _block(title: str, options: Sequence[Option]) -> str:
    lines = [f"{title}:"] if title else []
    for option in options:
        lines += _entry(option)
    return "\n".join(lines)


def _entry(option: Option) -> list[str]:
    if option.positional:
        name = placeholder(option)
    elif option.kind is bool:
        name = f"--[no-]{spelt(option.name)}"
    else:
        name = f"{option.flag} {placeholder(option)}"
    words = " ".join(filter(None, (option.help, _default(option))))
    told = textwrap.wrap(words, _width() - COLUMN) or [""]
    if len(name) + 4 > COLUMN:
        return [f"  {name}", *(" " * COLUMN + line for line in told)]
    first, *more = told
    return [f"  {name:<{COLUMN - 2}}{first}".rstrip(), *(" " * COLUMN + line for line in more)]


def _default(option: Option) -> str:
    if option.default is MISSING:
        return "" if option.positional else "(required)"
    shown = _shown(option.default)
    return f"(default: {shown})" if shown else ""


def _shown(value: Any) -> str:
    match value:
        case True:
            return "on"
        case False:
            return "off"
        case None | "":
            return ""
        case tuple():
            return " ".join(map(str, value)) or "none"
        case _:
            return str(value)


def _wrapped(words: str) -> str:
    return textwrap.fill(" ".join(words.split()), _width())


def _width() -> int:
    return min(WIDEST, shutil.get_terminal_size().columns)
