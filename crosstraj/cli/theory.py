"""`crosstraj theory`."""

from dataclasses import dataclass
from typing import Annotated, Literal, assert_never

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.errors import Refusal, check_range


@dataclass(frozen=True)
class TheoryArguments:
    part: Annotated[Literal["statements", "situations"], POSITIONAL] = "statements"
    """The paper's statements and ours in a sweep, or what codes are about, learnt in small."""
    scale: int = 1
    """How large the sweep is; 1 takes half a minute, and n about n times as long."""
    seed: int = 0
    """One seed, one table."""


def theory(arguments: list[str]) -> None:
    """Search for violations of what docs/theory.md proves, and count how often the rest fails."""
    given = parse(TheoryArguments, "theory", theory.__doc__, arguments)
    check_range(given, "--", "scale", at_least=1)
    check_range(given, "--", "seed", at_least=0)
    match given.part:
        case "statements":
            from crosstraj.theory.statements import print_checks

            violated = print_checks(given.scale, given.seed)
        case "situations":
            from crosstraj.theory.code_variants import print_situations

            violated = print_situations(given.scale, given.seed)
        case other:
            assert_never(other)
    if violated:
        raise Refusal(f"a proved statement was violated: {', '.join(violated)}")
