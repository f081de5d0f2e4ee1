"""What the help of a command says of its options, and which it shows; argparse lays it out."""

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from crosstraj.cli.options import Option, spelt

NAMES = {int: "N", float: "X", str: "TEXT", Path: "PATH"}


class Layout(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        width = min(100, shutil.get_terminal_size().columns)
        super().__init__(prog, max_help_position=34, width=width)


def titles(
    options: dict[str, Option], everyday: Sequence[str] = (), hidden: Sequence[str] = ()
) -> dict[str, str]:
    """The options that the help shows, in its order, each with the title above it."""
    places = {name: "arguments" for name, option in options.items() if option.positional}
    if everyday:
        usual = [name for name in everyday if name in options and options[name].group not in hidden]
        return places | dict.fromkeys(usual, "options")
    flags = [o for o in options.values() if not o.positional and o.group not in hidden]
    flags.sort(key=lambda option: option.group != "")
    return places | {option.name: f"{option.group} options".strip() for option in flags}


def placeholder(option: Option) -> str:
    """What stands for the value: RUN by its place, PATH or {a,b} after a flag."""
    if get_origin(option.kind) is Literal:
        return "{" + ",".join(map(str, get_args(option.kind))) + "}"
    if option.positional:
        word = spelt(option.name).upper()
        return f"{word.removesuffix('S')} ..." if option.several else word
    return NAMES[option.kind]


def sentence(option: Option) -> str:
    """The text below the field, and its default; argparse would fill in what follows a `%`."""
    default = "" if option.positional else "(required)"
    if option.default is not MISSING:
        value = shown_value(option.default)
        default = f"(default: {value})" if value else ""
    return f"{option.help} {default}".strip().replace("%", "%%")


def shown_value(value: Any) -> str:
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
