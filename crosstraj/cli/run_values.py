"""The values of a training run on the command line: which are shown, and whose a flag is."""

import sys
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, TypeVar

from crosstraj.cli.options import options_of, spelt
from crosstraj.cli.parse import Given, parse
from crosstraj.config.fitting import fitted
from crosstraj.config.methods import METHODS
from crosstraj.config.presets import DECIDING, preset, started, with_policy
from crosstraj.config.values import POLICIES, Config
from crosstraj.envs import GAMES, NAMES
from crosstraj.errors import BadInput

Arguments = TypeVar("Arguments")

EVERYDAY = (  # what people change, in the order of the help
    *("method", "preset", "env", "seed", "frames", "levels", "envs", "encoder", "memory"),
    *("policy.epochs", "policy.learning_rate"),
    *("evaluation.every", "evaluation.episodes", "machine.threads"),
    *("saving.runs", "saving.tensorboard", "from_", "allow_inexact"),
)


def chosen_preset(arguments: list[str]) -> Config:
    """The values of the method, preset and policy that are named; any of them can be changed."""
    said: dict[str, Any] = {name: value_of(name, arguments) for name in DECIDING}
    said["policy.per_game"] = switched_on("policy.per_game", arguments)
    return started({name: value for name, value in said.items() if value is not None})


def value_of(name: str, arguments: list[str]) -> str | None:
    """The value of a flag that decides the defaults of others, read before they are parsed.

    Given twice, the last one counts, as for every other flag.
    """
    value, flag = None, f"--{spelt(name)}"
    for word, after in zip_longest(arguments, arguments[1:]):
        said, equals, joined = word.partition("=")
        if spelt(said) == flag:
            value = joined if equals else after
    return value


def switched_on(name: str, arguments: list[str]) -> bool:
    """Whether a flag without a value is given, and not taken back or False."""
    flags = {f"--{spelt(name)}", f"--no-{spelt(name)}"}
    last = [word for word in arguments if spelt(word.partition("=")[0]) in flags][-1:]
    return bool(last) and not last[0].startswith("--no-") and value_of(name, arguments) != "False"


def parse_config(
    kind: type[Arguments],
    command: str,
    description: str,
    arguments: list[str],
    start: Config,
    complete: Callable[[Given, Config], Given] = lambda given, start: given,
) -> Arguments:
    """A command's arguments around a configuration, whose defaults are those of `start`."""

    def adapt(given: Given) -> Given:
        given = complete(given, start)
        fitting = fitted(given, start)
        if "evaluation.envs" in fitting.keys() - given.keys():
            print(
                f"evaluation.envs={fitting['evaluation.envs']}, so that each environment plays "
                f"the same share of {fitting['evaluation.episodes']} episodes",
                file=sys.stderr,
            )
        return fitting

    return parse(
        kind,
        command,
        f"{description} The defaults below are those of --method {start.method} "
        f"--preset {start.preset}.",
        arguments,
        default=kind(start),  # type: ignore[call-arg]  # each such command begins with it
        everyday=EVERYDAY,
        hidden=_beside_the_point(start),
        elsewhere=lambda flag: owner_of(flag, start),
        adapt=adapt,
    )


def with_levels(given: Given, start: Config) -> Given:
    """`--levels` is one word for the number of training levels, whatever the environment."""
    if "levels" not in given:
        return given
    env = given.get("env", start.env)
    if env == "ising":
        raise BadInput("--levels: ising has no levels but goals; see --ising.instance")
    name = f"{'procgen' if env in GAMES else 'gymnasium'}.train_levels"
    if name in given:
        raise BadInput(f"--levels and --{spelt(name)} are the same; give one of them")
    return {key: value for key, value in given.items() if key != "levels"} | {name: given["levels"]}


def _beside_the_point(config: Config) -> tuple[str, ...]:
    """The groups of values that do nothing for this method in this environment."""
    idle = {
        "procgen": config.env not in GAMES,
        "ising": config.env != "ising",
        "gymnasium": config.env in NAMES,
        "representation": config.method in POLICIES,  # alone
    }
    return tuple(group for group, rests in idle.items() if rests)


def owner_of(flag: str, config: Config) -> str:
    """Which methods, or else which policies, have a flag that this configuration lacks."""
    methods = [name for name in METHODS if flag in _flags(preset(name, "default"))]
    if methods and not flag.startswith(("--policy.", "--no-policy.")):
        return f"belongs to {_listed(methods)}, and the method is {config.method}; leave it out"
    kinds = [kind for kind in POLICIES if flag in _flags(with_policy(Config(), kind))]
    if kinds:
        return (
            f"belongs to --policy.kind {_listed(kinds)}, and the policy is {config.policy.kind}; "
            "leave it out"
        )
    return ""


def _flags(config: Config) -> set[str]:
    options = options_of(Config, config).values()
    return {option.flag for option in options} | {
        option.negated for option in options if option.kind is bool
    }


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
