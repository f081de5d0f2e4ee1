"""The one parser: the words of a command become its dataclass, or a refusal of one sentence.

    --frames 1M   --frames=1e6   --saving.tensorboard --no-saving.tensorboard

Of a flag given twice the last counts. A flag that is on or off stands alone; the word True or
False after it is understood. Nothing heavy is imported here.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from crosstraj.cli.help import help_text, placeholder
from crosstraj.cli.options import Option, build, options_of, spelt
from crosstraj.errors import BadInput

Arguments = TypeVar("Arguments")
Given = dict[str, Any]  # what was said, by the dotted names of options
COUNT = {"k": 1_000, "K": 1_000, "M": 1_000_000}  # --frames 250k
LARGEST = 2**63 - 1
TRUTH = {"True": True, "False": False}


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
    if asked := [word for word in words if word in ("-h", "--help", "--help-all")]:
        shown = [option for option in options.values() if option.group not in hidden]
        first = () if "--help-all" in asked else everyday
        print(help_text(command, description or "", shown, first))
        raise SystemExit(0)
    given = adapt(_read(list(words), options, f"crosstraj {command}", elsewhere))
    for option in options.values():
        if option.default is MISSING and option.name not in given:
            what = placeholder(option) if option.positional else option.flag
            raise BadInput(
                f"{what} is missing: {option.help.rstrip('.')}; give it, "
                f"as `crosstraj {command} --help` shows"
            )
    made: Arguments = build(kind, default, given)
    return made


def _read(
    words: list[str], options: dict[str, Option], command: str, elsewhere: Callable[[str], str]
) -> Given:
    """Each option that was given, with its value."""
    flags = {option.flag: option for option in options.values() if not option.positional}
    negated = {option.negated: option for option in flags.values() if option.kind is bool}
    places = [option for option in options.values() if option.positional]
    given: Given = {}
    loose: list[str] = []
    while words:
        word, sign, after = words.pop(0).partition("=")
        if not word.startswith("-") or _is_number(word):
            loose.append(word + sign + after)
            continue
        flag = f"--{spelt(word.removeprefix('--'))}" if word.startswith("--") else word
        if flag in negated and not sign:
            given[negated[flag].name] = False
        elif flag in flags:
            given[flags[flag].name] = _value(flags[flag], [after] if sign else None, words)
        else:
            raise _unknown_flag(flag, [*flags, *negated], command, elsewhere)
    _place(loose, places, given, command)
    return given


def _value(option: Option, told: list[str] | None, words: list[str]) -> Any:
    """The value of a flag: what stands after `=`, or the words after it, which are taken away."""
    if option.kind is bool:
        if told is None:
            told = [words.pop(0)] if words and words[0] in TRUTH else ["True"]
        if told[0] not in TRUTH:
            raise BadInput(
                f"{option.flag}={told[0]}: this is on or off; "
                f"write {option.flag}, or {option.negated}"
            )
        return TRUTH[told[0]]
    if told is None:
        told = []
        while words and not _is_flag(words[0]) and (option.several or not told):
            told.append(words.pop(0))
    if option.several:
        return tuple(convert(option, word) for word in told)
    if not told:
        raise BadInput(f"{option.flag} has no value; write {option.flag} {placeholder(option)}")
    return convert(option, told[0])


def _is_number(word: str) -> bool:
    return re.match(r"-\.?\d", word) is not None


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _is_number(word)


def _place(loose: list[str], places: list[Option], given: Given, command: str) -> None:
    """Words without a flag go to the options that have a place, in their order."""
    for option in places:
        if option.several:
            given[option.name] = tuple(convert(option, word) for word in loose)
            loose = []
        elif loose:
            given[option.name] = convert(option, loose.pop(0))
    if loose:
        raise BadInput(
            f"{loose[0]!r} belongs to no flag; leave it out, or see `{command} --help` "
            "(a flag that is on or off stands alone)"
        )


def convert(option: Option, word: str) -> Any:
    """A word as a value of the option's type."""
    if option.optional and word == "None":
        return None
    name = placeholder(option) if option.positional else option.flag
    if get_origin(option.kind) is Literal:
        choices = [str(choice) for choice in get_args(option.kind)]
        if word not in choices:
            raise BadInput(f"{name} {word}: must be one of {', '.join(choices)}")
        return get_args(option.kind)[choices.index(word)]
    if option.kind is int:
        return _whole(name, word)
    if option.kind is float:
        try:
            return float(word)
        except ValueError:
            raise BadInput(f"{name} {word}: must be a number, such as 0.5 or 1e-4") from None
    if option.kind is Path:
        return Path(word)
    assert option.kind is str, f"no word can be made a {option.kind}"
    return word


def _whole(name: str, word: str) -> int:
    """A count: 250000, 250_000, 250k, 2.5e5; refused where that is no whole number."""
    factor = COUNT.get(word[-1:], 1)
    try:
        number = Decimal(word if factor == 1 else word[:-1]) * factor
        if abs(number) <= LARGEST and number == int(number):
            return int(number)
    except (ArithmeticError, ValueError):  # no number, NaN, or beyond all bounds
        pass
    raise BadInput(f"{name} {word}: must be a whole number, such as 250000, 250k or 1e6")


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
