"""What a command can be told, read off its dataclass: each field is an option.

The text below a field is its help, and a default instance gives the values that the help shows. A
field that is itself a dataclass gives its own fields under its name, such as `--policy.epochs`.
Nothing heavy is imported here.
"""

import ast
import dataclasses
import inspect
import textwrap
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

POSITIONAL = "positional"  # Annotated[Path, POSITIONAL]: told by its place, without a flag
FLAT = "flat"  # Annotated[Config, FLAT]: its fields are options without a name before them


@dataclass(frozen=True)
class Option:
    name: str  # the dotted path to the field: `policy.learning_rate`
    kind: Any  # its type; None and several values are told below
    default: Any  # MISSING: it must be given
    help: str
    positional: bool = False
    several: bool = False  # takes any number of values
    optional: bool = False  # the word None is a value

    @property
    def flag(self) -> str:
        return f"--{spelt(self.name)}"

    @property
    def negated(self) -> str:
        return f"--no-{spelt(self.name)}"

    @property
    def group(self) -> str:
        """`policy` of `policy.epochs`; empty for a value of the whole."""
        return self.name.rpartition(".")[0]


def spelt(name: str) -> str:
    """A field as it is written on the command line; `with_` is `with`, which Python keeps."""
    return name.removesuffix("_").replace("_", "-")


def options_of(kind: type, default: Any = None, prefix: str = "") -> dict[str, Option]:
    """Every option of a dataclass by its name, in the order of the fields."""
    found: dict[str, Option] = {}
    hints, docs = get_type_hints(kind, include_extras=True), field_docs(kind)
    for field in fields(kind):
        value = _default(field) if default is None else getattr(default, field.name)
        plain, marks = hints[field.name], ()
        if get_origin(plain) is Annotated:
            plain, *marks = get_args(plain)  # type: ignore[assignment]
        name = f"{prefix}{field.name}"
        if dataclasses.is_dataclass(value):
            found |= options_of(type(value), value, prefix if FLAT in marks else f"{name}.")
        elif isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value)):
            for number, part in enumerate(value):
                found |= options_of(type(part), part, f"{name}.{number}.")
        else:
            option = _option(name, plain, value, docs.get(field.name, ""), POSITIONAL in marks)
            if not dataclasses.is_dataclass(option.kind):  # an empty tuple of parts has no words
                found[name] = option
    return found


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _option(name: str, kind: Any, default: Any, words: str, positional: bool) -> Option:
    optional = several = False
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
        optional = True
    if get_origin(kind) is tuple:
        kind, several = get_args(kind)[0], True
    return Option(name, kind, default, words, positional, several, optional)


def field_docs(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass, its parents' too, on one line."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(owner):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    found[name] = " ".join(words.split())
    return found


def build(kind: type, default: Any, values: dict[str, Any]) -> Any:
    """The dataclass with these values, by dotted name, over its default; parts before the whole."""
    hints = get_type_hints(kind, include_extras=True)
    changed: dict[str, Any] = {}
    for field in fields(kind):
        before = _default(field) if default is None else getattr(default, field.name)
        flat = FLAT in get_args(hints[field.name])[1:]
        inner = values if flat else _below(field.name, values)
        if dataclasses.is_dataclass(before) and inner:
            changed[field.name] = build(type(before), before, _known(before, inner))
        elif isinstance(before, tuple) and inner:
            changed[field.name] = tuple(
                build(type(part), part, _below(str(number), inner))
                for number, part in enumerate(before)
            )
        elif field.name in values:
            changed[field.name] = values[field.name]
    return kind(**changed) if default is None else dataclasses.replace(default, **changed)


def _below(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """What is meant for one part, by its name there."""
    return {k.removeprefix(f"{name}."): v for k, v in values.items() if k.startswith(f"{name}.")}


def _known(part: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Of values for a flat part and the whole around it, the part's own."""
    names = {field.name for field in fields(part)}
    return {name: value for name, value in values.items() if name.partition(".")[0] in names}
