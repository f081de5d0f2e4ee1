"""A command's own arguments, by `tyro` over a dataclass; nothing heavy is imported here."""

import io
import sys
from contextlib import redirect_stderr
from itertools import zip_longest
from typing import Any, TypeVar

import tyro

from crosstraj.errors import Refusal

Arguments = TypeVar("Arguments")


def parse(
    kind: type[Arguments],
    command: str,
    description: str | None,
    arguments: list[str],
    **options: Any,
) -> Arguments:
    """Like `tyro.cli`, but a refusal while a value is built stays the sentence that it is."""
    said = io.StringIO()
    # Every value is spelt out but this one, which refusals ask for: alone, it means True.
    pairs = zip_longest(arguments, arguments[1:])
    alone = [word == "--allow-inexact" and after not in ("True", "False") for word, after in pairs]
    arguments = [f"{w}=True" if bare else w for w, bare in zip(arguments, alone, strict=True)]
    try:
        with redirect_stderr(said):
            return tyro.cli(
                kind,
                prog=f"crosstraj {command}",
                description=description,
                args=arguments,
                config=(tyro.conf.FlagConversionOff,),
                **options,
            )
    except SystemExit as end:
        cause: BaseException | None = end
        while cause is not None:  # tyro has wrapped it, and drawn a box around its message
            if isinstance(cause, Refusal):
                raise cause from None
            cause = cause.__context__
        print(said.getvalue(), end="", file=sys.stderr)
        raise
