"""`crosstraj methods`: what there is to train, from tables that import nothing heavy."""

from dataclasses import dataclass

from crosstraj.cli.parse import parse
from crosstraj.config.methods import METHODS, PRESETS


@dataclass(frozen=True)
class MethodsArguments:
    pass


def methods(arguments: list[str]) -> None:
    """List the methods and presets, and where each comes from."""
    parse(MethodsArguments, "methods", methods.__doc__, arguments)
    for title, table in (("methods", METHODS), ("presets", PRESETS)):
        print(f"{title}:")
        for name, entry in table.items():
            print(f"  {name:<10} {entry.summary}\n  {'':<10} [{entry.source}]")
