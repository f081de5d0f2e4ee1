"""`crosstraj experts`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from crosstraj.cli.options import FLAT
from crosstraj.cli.run_values import parse_config, value_of
from crosstraj.config.presets import plain, preset
from crosstraj.config.values import Config
from crosstraj.envs import check_env_name
from crosstraj.errors import BadInput
from crosstraj.learning.display import screen
from crosstraj.nn.native import keep_memory


@dataclass(frozen=True)
class ExpertsArguments:
    config: Annotated[Config, FLAT]
    levels: int = 40
    """How many levels get an expert, from procgen.first_level on (paper)."""
    allow_inexact: bool = False
    """Resume although torch, threads or processor differ from those that wrote a checkpoint."""


def expert_preset(name: str) -> Config:
    """PPO on one level for the paper's 500,000 frames.

    Our default makes 5,880 optimiser steps of them: three epochs, as OpenAI's PPO on Procgen, and
    rollouts of 64 steps, for one level has less to show than 200. The paper's one epoch and 256
    steps, which its preset keeps, make 496.
    """
    if name == "default":
        config = plain("ppo")
        policy = replace(config.policy, epochs=3)
        config = replace(config, rollout_steps=64, policy=policy)
    else:
        config = preset("ppo", name)
    return replace(
        config,
        frames=500_000,  # paper, for each expert
        procgen=replace(config.procgen, train_levels=1),
        saving=replace(config.saving, runs=Path("experts")),
    )


def experts(arguments: list[str]) -> None:
    """Train one PPO expert per level. Running the same command again continues, or shows them."""
    if (method := value_of("method", arguments)) not in (None, "ppo"):
        raise BadInput(f"method={method}: experts are trained with ppo")
    if (memory := value_of("memory", arguments)) not in (None, "none"):
        raise BadInput(
            f"memory={memory}: experts play levels for pse, which reads single frames and refuses "
            "a memory; leave it out"
        )
    given = parse_config(
        ExpertsArguments,
        "experts",
        "Train one PPO expert per level; --frames is the budget of each. Running the same command "
        "again continues, or shows them.",
        arguments,
        expert_preset(value_of("preset", arguments) or "default"),
    )
    config = given.config
    check_env_name(config.env)
    if not config.machine.low_memory:
        keep_memory()
    from crosstraj.experiments.expert_runs import table_of, train_experts
    from crosstraj.learning.experts import INDEX
    from crosstraj.learning.signals import Stop

    with Stop() as stop:
        found = train_experts(config, given.levels, stop, allow_inexact=given.allow_inexact)
    screen().print(table_of(config, found))
    print(f"files:\n  {config.saving.runs / config.env / INDEX}")
