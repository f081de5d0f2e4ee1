"""Every value of a run, by its group or its method, and what each preset changes."""

from collections.abc import Iterator
from dataclasses import replace

from crosstraj.cli.help import shown_value
from crosstraj.cli.options import Option, options_of
from crosstraj.config.methods import METHODS, PRESETS
from crosstraj.config.presets import preset, with_policy
from crosstraj.config.values import Config
from tools.site.commands import described

GROUPS = {
    "": "The run",
    "policy": "Policy: PPO",
    "representation": "How an objective is trained",
    "evaluation": "Evaluation",
    "procgen": "Procgen",
    "gymnasium": "Gymnasium environments",
    "replay": "Which level comes next",
    "ising": "The Ising task",
    "machine": "The machine",
    "saving": "What is saved",
}


def every_value() -> str:
    """First what all runs have, then the other policies, phases, and each method's objective."""
    base = options_of(Config, preset("ppo", "default"))
    base["method"] = replace(base["method"], default=Config().method)
    parts = [
        section(title, [o for o in base.values() if o.group == group], "crosstraj train")
        for group, title in GROUPS.items()
    ]
    shared = set(base)
    for kind in ("daac", "ppg"):
        its = options_of(Config, with_policy(Config(), kind))
        own = [o for name, o in its.items() if o.group == "policy" and name not in shared]
        program = f"crosstraj train --policy.kind {kind}"
        parts.append(section(f"Policy: {kind.upper()}", own, program))
    phases = options_of(Config, preset("diayn", "default"))
    first = [o for o in phases.values() if o.group == "phases.0"]
    parts.append(section("Phases", first, "crosstraj train --method diayn"))
    for method in sorted(METHODS):
        options = options_of(Config, preset(method, "default"))
        if own := [o for o in options.values() if o.group == "objective"]:
            parts.append(section(f"Objective: {method}", own, f"crosstraj train --method {method}"))
    return "\n\n".join(parts)


def section(title: str, options: list[Option], program: str) -> str:
    head = f"## {title}\n\n```{{program}} {program}\n```"
    return "\n\n".join([head, *described(options)])


def every_preset() -> str:
    """For each method, what its default changes from PPO, and each preset from that default."""
    return "\n\n".join(
        f"### {method}\n\n" + "\n".join(lines)
        for method in sorted(METHODS)
        if (lines := list(changes(method)))
    )


def changes(method: str) -> Iterator[str]:
    default = preset(method, "default")
    if method != "ppo":
        yield f"- The default, from PPO's: {differing(preset('ppo', 'default'), default)}."
    for name in PRESETS:
        if changed := differing(default, preset(method, name)):
            yield f"- `--preset {name}`, from the default: {changed}."


def differing(before: Config, after: Config) -> str:
    """The values that both have and that differ, as the second has them."""
    old, new = options_of(Config, before), options_of(Config, after)
    return ", ".join(
        f"`{name}` {shown_value(option.default) or 'none'}"
        for name, option in new.items()
        if name in old and name not in ("method", "preset") and old[name].default != option.default
    )
