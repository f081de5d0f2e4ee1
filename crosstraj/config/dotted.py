"""Values by dotted names, such as `policy.epochs`: flat, compared, told apart, and changed.

Knows nothing of what the values mean: nested dicts, and dataclasses of one level of parts.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from crosstraj.errors import BadInput, unknown

Whole = TypeVar("Whole")


def dotted(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by their dotted names, such as "policy.epochs"."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        inner = dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {}
        flat |= inner or {f"{prefix}{key}": value}
    return flat


def differences(there: dict[str, Any], here: dict[str, Any]) -> str:
    """The dotted keys whose values differ, with both values, in words."""
    old, new = dotted(there), dotted(here)
    pairs = {key: (old.get(key, "absent"), new.get(key, "absent")) for key in {**old, **new}}
    different = [key for key, (before, now) in pairs.items() if before != now]
    # `frames` may differ between two commands for the same run; it is blamed only if alone.
    named = [key for key in different if key != "frames"] or different
    return "; ".join("{} is {!r} there, {!r} here".format(key, *pairs[key]) for key in named)


def identity_of(config: Mapping[str, Any], without: Iterable[str]) -> str:
    """SHA-256 of the config as canonical JSON, without some (dotted) keys such as "frames"."""
    text = json.dumps(left_over(config, without), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def left_over(config: Mapping[str, Any], without: Iterable[str]) -> dict[str, Any]:
    """The config as it is read from JSON, without some (dotted) keys."""
    kept = as_json(config)
    for name in without:
        *parents, last = name.split(".")
        inner = kept
        for parent in parents:
            inner = inner.get(parent, {})
        inner.pop(last, None)
    return kept


def as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """As it will be when read back: a tuple is a list."""
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain


def changed(config: Whole, values: Mapping[str, Any]) -> Whole:
    """A dataclass with other values, given by dotted names, all at once."""
    whole: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        part, _, inner = name.rpartition(".")
        if part:
            parts.setdefault(part, {})[inner] = value
        else:
            whole[name] = value
    for part, inside in parts.items():
        whole[part] = replace(whole.get(part, getattr(config, part)), **inside)
    return replace(config, **whole)  # type: ignore[type-var]  # a dataclass, as said


def override(config: Whole, values: Mapping[str, Any]) -> Whole:
    """The same with values from a person, each checked for its name and type."""
    known = dotted_fields(config)
    for name in values:
        if name not in known:
            raise unknown("value", name, known)
    return changed(config, {name: _fit(name, values[name], known[name]) for name in values})


def dotted_fields(config: Any) -> dict[str, Any]:
    """The type of every value by its dotted name, such as `objective.keypoints`."""
    found: dict[str, Any] = {}
    hints = _types(type(config))
    for field in fields(config):
        part = getattr(config, field.name)
        if dataclasses.is_dataclass(part):
            inner = _types(type(part))
            found |= {f"{field.name}.{f.name}": inner[f.name] for f in fields(part)}
        else:
            found[field.name] = hints[field.name]
    return found


# An experiment asks for every run, and finding the answer takes Python a millisecond.
_types: Callable[[type], dict[str, Any]] = cache(get_type_hints)


KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((float, int), "a number"),
    str: ((str,), "text"),
    Path: ((str,), "text"),
}  # of a value: what it may be given as, and that in words


def _fit(name: str, value: Any, kind: Any) -> Any:
    """The value as the configuration holds it, or a sentence."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            choices = ", ".join(map(str, get_args(kind)))
            raise BadInput(f"{name}={value!r}: must be one of {choices}")
        return value
    if kind not in KINDS:
        raise BadInput(f"{name} is not given in an experiment; the method and its preset have it")
    accepted, words = KINDS[kind]
    if type(value) not in accepted:  # by type: for isinstance, true is a whole number
        raise BadInput(f"{name}={value!r}: must be {words}")
    return kind(value)
