"""Where a run lies on disk: the directory that belongs to a configuration, opened for training."""

import torch

from crosstraj.config.methods import METHODS
from crosstraj.config.stored import to_dict
from crosstraj.config.values import Config
from crosstraj.envs.load_engine import engine_name
from crosstraj.envs.procgen import GAMES
from crosstraj.learning.display import Display
from crosstraj.learning.load import place_of
from crosstraj.runs.directory import Run, machine_facts


def open_run(config: Config, display: Display, *, allow_inexact: bool = False) -> Run:
    """The run directory that belongs to this configuration, owned by this process."""
    config.machine.check_presence()
    torch.set_num_threads(config.threads)
    directory, identity = place_of(config)
    facts = machine_facts(compiled=config.machine.compile) | config.machine.rounding()
    if config.env in GAMES:
        facts["engine"] = engine_name()
    if own := METHODS[config.method].own:
        facts["method_file"] = own.digest
    return Run.open(
        directory, to_dict(config), identity, facts, allow_inexact=allow_inexact, warn=display.say
    )
