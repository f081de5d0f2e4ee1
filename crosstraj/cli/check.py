"""`crosstraj check`."""

from dataclasses import dataclass

from crosstraj.cli.parse import parse
from crosstraj.config.methods import brought
from crosstraj.errors import BadInput, Refusal, unknown


@dataclass(frozen=True)
class CheckArguments:
    method: str = ""
    """Which method to check; needed where --with is given more than once."""
    env: str = "starpilot"
    """The game in which it is trained for a moment."""


def check(arguments: list[str]) -> None:
    """Try a method of your own (--with FILE): equal runs, a stop, gradients, episode ends."""
    given = parse(CheckArguments, "check", check.__doc__, arguments)
    own = brought()
    if not own:
        raise BadInput("no method of your own is given; name its file: --with FILE")
    method = given.method or (next(iter(own)) if len(own) == 1 else "")
    if method not in own:
        raise unknown("method of your own", method, own)
    from crosstraj.analysis.check_method import faults

    if found := faults(method, given.env):
        raise Refusal("\n".join([f"{method} has {len(found)} fault(s):", *found]))
    print(
        f"{method}: two equal runs are equal, a stopped run goes on exactly, the loss reaches the "
        "encoder and every parameter, and nothing is seen to be learnt across an episode's end"
    )
