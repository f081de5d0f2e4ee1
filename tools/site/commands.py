"""Every command with its options, from the one table of commands and their dataclasses."""

import importlib
from collections.abc import Iterable
from dataclasses import MISSING, fields

from crosstraj.cli.help import placeholder, shown_value
from crosstraj.cli.main import COMMANDS
from crosstraj.cli.options import Option, options_of
from crosstraj.config.values import Config

OF_A_RUN = {field.name for field in fields(Config)}  # on the page of values


def every_command() -> str:
    """A section for each command, in the order of `crosstraj --help`."""
    return "\n\n".join(section(name, what) for name, what in COMMANDS.items())


def section(name: str, what: str) -> str:
    """What a command does, how it is called, and each of its options."""
    options = own_options(name)
    places = [placeholder(option) for option in options if option.positional]
    parts = [
        f"## crosstraj {name}",
        f"{what[0].upper()}{what[1:]}.",
        f"```text\n{' '.join(['crosstraj', name, *places, '[OPTIONS]'])}\n```",
        f"```{{program}} crosstraj {name}\n```",
        *described(options),
    ]
    if name in ("train", "experts"):
        parts.append("It also takes [every value of a run](values.md).")
    return "\n\n".join(parts)


def own_options(name: str) -> list[Option]:
    """What a command can be told, without the values of a run."""
    module = importlib.import_module(f"crosstraj.cli.{name}")
    kind = getattr(module, f"{name.capitalize()}Arguments")
    default = kind(Config()) if "config" in {field.name for field in fields(kind)} else None
    found = options_of(kind, default).values()
    return [o for o in found if default is None or o.name.partition(".")[0] not in OF_A_RUN]


def described(options: Iterable[Option]) -> list[str]:
    """Each option as Sphinx's own directive, which can be linked to and is in the index."""
    return [f"```{{option}} {call(option)}\n{words(option)}\n```" for option in options]


def call(option: Option) -> str:
    """`--frames N`; `--greedy, --no-greedy`; RUN."""
    if option.positional:
        return placeholder(option)
    if option.kind is bool:
        return f"{option.flag}, {option.negated}"
    return f"{option.flag} {placeholder(option)}{' ...' if option.several else ''}"


def words(option: Option) -> str:
    """The help, and the default."""
    default = "" if option.default is MISSING else shown_value(option.default)
    return option.help + (f" Default: `{default}`." if default else "")
