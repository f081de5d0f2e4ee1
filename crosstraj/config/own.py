"""A person's own method, in a file of its own: `crosstraj train --with my_method.py --method mine`.

The file is code, and it is run: so it is named on the command line each time, and never taken from
a run directory. docs/own_objective.md is the tutorial.
"""

import dataclasses
import hashlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from crosstraj.config.methods import FLAG, METHODS, Entry, brought
from crosstraj.errors import BadInput
from crosstraj.objectives.base import Objective, ObjectiveConfig
from crosstraj.objectives.method import Brought, Method


def bring(arguments: list[str]) -> list[str]:
    """Reads the file of every `--with FILE`; returns the other arguments."""
    left, waiting = list[str](), iter(arguments)
    for word in waiting:
        if word == FLAG:
            read_method(Path(next(waiting, "")))
        elif word.startswith(f"{FLAG}="):
            read_method(Path(word.removeprefix(f"{FLAG}=")))
        else:
            left.append(word)
    return left


def read_method(path: Path) -> Method:
    """Runs a file and makes its METHOD known, instead of what the same file gave before."""
    if not path.is_file():
        raise BadInput(f"{FLAG} {path}: there is no such file; give the Python file of a method")
    method = getattr(run_file(path), "METHOD", None)
    if not isinstance(method, Method):
        raise BadInput(
            f"{FLAG} {path}: it defines no METHOD; end it with METHOD = Method(name=..., "
            "config=..., objective=...), from crosstraj.objectives"
        )
    check(method, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    own = Brought(method, str(path), digest)
    METHODS[method.name] = Entry(method.summary, str(path), own)
    return method


def run_file(path: Path) -> Any:
    """The module that a file makes; what goes wrong in it is said in one sentence."""
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"crosstraj_with_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{place}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{FLAG} {path}: it is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for the names in annotations
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{FLAG} {path} cannot be run: {type(error).__name__}: {error}") from error
    return module


def check(method: Method, path: Path) -> None:
    """Refuses what would fail later, and less clearly."""
    config, where = method.config, f"{FLAG} {path}: METHOD"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", method.name):
        raise BadInput(f"{where}.name={method.name!r}: use lower-case letters, digits and _")
    own = brought().get(method.name)
    if method.name in METHODS and not own:
        raise BadInput(f"{where}.name={method.name!r} is a method of crosstraj; choose another")
    if own and Path(own.file).resolve() != path.resolve():
        raise BadInput(
            f"{where}.name={method.name!r} is the name of {own.file}, too; choose another"
        )
    if not (isinstance(config, type) and issubclass(config, ObjectiveConfig)):
        raise BadInput(f"{where}.config={config}: it must be a class made of ObjectiveConfig")
    if "__dataclass_params__" not in vars(config):  # its parent is one: frozen comes with it
        raise BadInput(f"{where}.config: put @dataclass(frozen=True) above {config.__name__}")
    absent = dataclasses.MISSING
    bare = [
        f.name
        for f in dataclasses.fields(config)
        if f.default is absent and f.default_factory is absent
    ]
    if bare:
        raise BadInput(f"{where}.config: give {', '.join(bare)} of {config.__name__} a default")
    if not (isinstance(method.objective, type) and issubclass(method.objective, Objective)):
        raise BadInput(f"{where}.objective={method.objective}: must be a class made of Objective")
