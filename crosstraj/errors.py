"""The ways a command may refuse: a sentence for a person, and an exit code."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import ge, gt, le, lt


class Refusal(Exception):
    """A sentence for a person, and the exit code that goes with it."""

    exit_code = 1


class BadInput(Refusal, ValueError):
    """The value, the rule and the fix."""

    exit_code = 2


class Owned(Refusal):
    """Another live process is writing this run directory (EX_TEMPFAIL: try again later)."""

    exit_code = 75


class Unsaved(Refusal):
    """Done to the end, but the last state or its index could not be written (EX_IOERR)."""

    exit_code = 74


class NonFinite(Refusal):
    """A loss, gradient or reward is NaN or infinite; the weights have not been touched."""

    exit_code = 70  # EX_SOFTWARE


def unknown(kind: str, name: str, choices: Iterable[str]) -> BadInput:
    """The error for a name that is not in a table, with the nearest name that is."""
    known = sorted(choices)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return BadInput(f"unknown {kind} {name!r}: {hint}There are: {', '.join(known)}")


# What needs more than torch and numpy, by the module that is imported: the extra that brings it.
EXTRAS = {
    "gymnasium": "train",
    "rich": "train",
    "ale_py": "atari",
    "minigrid": "minigrid",
    "tensorboard": "tensorboard",
    "matplotlib": "report",
    "rliable": "report",
    "arch": "report",
    "pandas": "report",
    "scipy": "report",
    "sklearn": "analysis",
    "threadpoolctl": "analysis",
    "pyarrow": "analysis",
    "plotly": "analysis",
    "PIL": "analysis",
    "ot": "theory",
    "ray": "ray",
    "wandb": "wandb",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "huggingface_hub": "hub",
}


@contextmanager
def naming_extras() -> Iterator[None]:
    """In the block a package that is not installed is named with the command that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise BadInput(
            f"{error.name} is not installed, and this needs it: pip install 'crosstraj[{extra}]'"
        ) from error


LIMITS = {"at_least": ge, "above": gt, "at_most": le, "below": lt}


def check_range(values: object, place: str, *names: str, **limits: float) -> None:
    """Refuse values beyond a limit, NaN among them, by their names with the place before them.

    check_range(config, "policy.", "discount", "trace", at_least=0, below=1)
    """
    rule = " and ".join(f"{word.replace('_', ' ')} {limit:g}" for word, limit in limits.items())
    for name in names:
        value = getattr(values, name)
        if not all(LIMITS[word](value, limit) for word, limit in limits.items()):
            raise BadInput(f"{place}{name}={value}: must be {rule}")
