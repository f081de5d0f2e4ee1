"""The words of a command become its dataclass, by argparse, or a refusal of one sentence.

    --frames 1M   --frames=1e6   --saving.tensorboard --no-saving.tensorboard

Of a flag given twice the last counts. Nothing heavy is imported here.
"""

import argparse
import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from decimal import Decimal
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_origin

from crosstraj.cli.help import Layout, placeholder, sentence, titles
from crosstraj.cli.options import Option, build, options_of, spelt
from crosstraj.errors import BadInput

Arguments = TypeVar("Arguments")
Given = dict[str, Any]  # what was said, by the dotted names of options
COUNT = {"k": 1_000, "K": 1_000, "M": 1_000_000}  # --frames 250k
LARGEST = 2**63 - 1


def parse(
    kind: type[Arguments],
    command: str,
    description: str | None,
    words: Sequence[str],
    *,
    default: Arguments | None = None,
    everyday: Sequence[str] = (),
    hidden: Sequence[str] = (),
    elsewhere: Callable[[str], str] = lambda flag: "",
    adapt: Callable[[Given], Given] = lambda given: given,
) -> Arguments:
    """What the words say, over the default.

    `--help` shows the `everyday` options, and `--help-all` all but the groups in `hidden`; without
    `everyday`, both show all. `elsewhere` says of an unknown flag where it would be known, and
    `adapt` completes what was given before the dataclass is made.
    """
    options = options_of(kind, default)
    every = titles(options, hidden=hidden)
    shown = every if "--help-all" in words else titles(options, everyday, hidden)
    parser = _parser(f"crosstraj {command}", description, options, shown)
    if more := len(every) - len(shown):
        parser.epilog = (
            f"`{parser.prog} --help-all` shows {more} more, for this method and this environment."
        )
    if not {"-h", "--help", "--help-all"}.isdisjoint(words):
        parser.print_help()
        raise SystemExit(0)
    given = adapt(_read(parser, words, options, elsewhere))
    for name, option in options.items():
        if given.get(name, option.default) is MISSING:
            what = placeholder(option) if option.positional else option.flag
            raise BadInput(
                f"{what} is missing: {option.help.rstrip('.')}; give it, "
                f"as `{parser.prog} --help` shows"
            )
    made: Arguments = build(kind, default, given)
    return made


def _parser(
    command: str, description: str | None, options: dict[str, Option], shown: dict[str, str]
) -> argparse.ArgumentParser:
    """The parser of all options; its help shows some, under their titles."""
    places = [placeholder(option) for option in options.values() if option.positional]
    parser = argparse.ArgumentParser(
        prog=command,
        usage=" ".join([command, *places, "[OPTIONS]"]),
        description=description,
        formatter_class=Layout,
        argument_default=argparse.SUPPRESS,  # what was not given is not there
        add_help=False,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser._negative_number_matcher = re.compile(r"-\.?\d")  # Python 3.14's own: -1e-3 is one, too
    groups = {
        title: parser.add_argument_group(title) for title in [*dict.fromkeys(shown.values()), None]
    }
    for name in dict.fromkeys([*shown, *options]):
        option, title = options[name], shown.get(name)
        how: dict[str, Any] = {"help": sentence(option) if title else argparse.SUPPRESS}
        if option.kind is bool:
            how |= {"action": argparse.BooleanOptionalAction}
        else:
            how |= {"type": partial(convert, option), "metavar": placeholder(option)}
            how["nargs"] = "*" if option.several else "?" if option.positional else None
        if option.positional:
            none = option.several and option.default is MISSING
            how["default"] = () if none else option.default
            groups[title].add_argument(name, **how)
        else:
            groups[title].add_argument(option.flag, dest=name, **how)
    return parser


def _read(
    parser: argparse.ArgumentParser,
    words: Sequence[str],
    options: dict[str, Option],
    elsewhere: Callable[[str], str],
) -> Given:
    """Each option that was given, with its value."""
    flags = {option.flag: option for option in options.values() if not option.positional}
    negated = {option.negated: option for option in flags.values() if option.kind is bool}
    plain = _plain(words, list(negated.values()))
    try:
        found, left = parser.parse_known_intermixed_args(plain)
    except argparse.ArgumentError as refused:
        flag = (refused.argument_name or "").partition("/")[0]
        if isinstance(refused.__context__, argparse.ArgumentTypeError):  # by `convert`
            raise BadInput(f"{flag} {refused.message}") from None
        if (no := flags[flag].negated) in negated:
            wrong = next(word for word in plain if word.startswith((f"{flag}=", f"{no}=")))
            raise BadInput(f"{wrong}: this is on or off; write {flag}, or {no}") from None
        raise BadInput(f"{flag} has no value; write {flag} {placeholder(flags[flag])}") from None
    for word in left:
        if word.startswith("-"):
            raise _unknown_flag(word.partition("=")[0], [*flags, *negated], parser.prog, elsewhere)
    if left:
        raise BadInput(
            f"{left[0]!r} belongs to no flag; leave it out, or see `{parser.prog} --help` "
            "(a flag that is on or off stands alone)"
        )
    return {name: tuple(v) if isinstance(v, list) else v for name, v in vars(found).items()}


def _plain(words: Sequence[str], switches: Sequence[Option]) -> list[str]:
    """Flags with dashes; `--fast` and `--no-fast` for `--fast True` and `--fast=False`."""
    said = {(option.flag, "True"): option.flag for option in switches}
    said |= {(option.flag, "False"): option.negated for option in switches}
    plain: list[str] = []
    for word in words:
        flag, sign, value = word.partition("=")
        if flag.startswith("--"):
            flag = f"--{spelt(flag.removeprefix('--'))}"
        if (flag, value) in said:
            plain.append(said[flag, value])
        elif plain and (plain[-1], word) in said:
            plain[-1] = said[plain[-1], word]
        else:
            plain.append(flag + sign + value)
    return plain


def convert(option: Option, word: str) -> Any:
    """A word as a value of the option's type."""
    if option.optional and word == "None":
        return None
    if get_origin(option.kind) is Literal:
        choices = {str(choice): choice for choice in get_args(option.kind)}
        if word not in choices:
            raise argparse.ArgumentTypeError(f"{word}: must be one of {', '.join(choices)}")
        return choices[word]
    if option.kind is int:
        return _whole(word)
    try:
        return option.kind(word)  # a float, a Path, a str
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word}: must be a number, such as 0.5 or 1e-4") from None


def _whole(word: str) -> int:
    """A count: 250000, 250_000, 250k, 2.5e5; refused where that is no whole number."""
    factor = COUNT.get(word[-1:], 1)
    try:
        number = Decimal(word if factor == 1 else word[:-1]) * factor
        if abs(number) <= LARGEST and number == int(number):
            return int(number)
    except (ArithmeticError, ValueError):  # no number, NaN, or beyond all bounds
        pass
    raise argparse.ArgumentTypeError(f"{word}: must be a whole number, such as 250000, 250k or 1e6")


def _unknown_flag(
    flag: str, flags: Sequence[str], command: str, elsewhere: Callable[[str], str]
) -> BadInput:
    """Where the flag belongs, or which one may be meant, or where all are listed."""
    if known_to := elsewhere(flag):
        return BadInput(f"{flag} {known_to}")
    leaf = flag.removeprefix("--")
    near = [one for one in flags if one.endswith(f".{leaf}")]
    near = near[:3] or difflib.get_close_matches(flag, flags, n=1, cutoff=0.75)
    if near:
        return BadInput(f"unknown flag {flag}: did you mean {' or '.join(near)}?")
    return BadInput(f"unknown flag {flag}; `{command} --help-all` lists those there are")
