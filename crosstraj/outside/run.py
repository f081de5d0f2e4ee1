"""Training runs from Python: the values of a run, the run itself, and what it has learnt.

    run = crosstraj.train(crosstraj.preset("ctrl", env="bigfish", frames=1_000_000))
    agent = crosstraj.load(run).agent
    actions = agent.act(frames).action

The frames are uint8 [B, H, W, C]. All of this needs the extra of its environment.
"""

from pathlib import Path
from typing import Any

from crosstraj.config.dotted import override
from crosstraj.config.fitting import fitted
from crosstraj.config.presets import DECIDING, started
from crosstraj.config.values import Config
from crosstraj.envs import check_env_name
from crosstraj.errors import naming_extras
from crosstraj.learning import load as loading
from crosstraj.learning.display import display_for
from crosstraj.learning.load import Trained
from crosstraj.learning.place import open_run
from crosstraj.learning.signals import Stop
from crosstraj.loop import train as train_run


def preset(method: str = "ctrl", name: str = "default", **values: Any) -> Config:
    """The values of a run: a method's, under a preset, and what is given on top of them.

    `crosstraj train --help-all` lists every value; one of a group goes by its dotted name:
    preset("ctrl", env="coinrun", seed=1, **{"policy.epochs": 2, "saving.runs": "elsewhere"}).
    """
    deciding = {"method": method, "preset": name} | values
    config = started({key: value for key, value in deciding.items() if key in DECIDING})
    return override(config, fitted(values, config))


def train(config: Config, *, allow_inexact: bool = False) -> Path:
    """Train a run to its end and return its directory, as `crosstraj train` does.

    Called again it goes on where it was stopped, and returns at once where it is done.
    """
    with naming_extras():
        check_env_name(config.env, config.gymnasium)
        title = f"{config.method} on {config.env}, seed {config.seed}"
        with (
            Stop() as stop,
            display_for(config.frames, title) as display,
            open_run(config, display, allow_inexact=allow_inexact) as run,
        ):
            if not run.finished:
                train_run(config, run, display, stop)
            return run.directory


def load(run: Path | str, step: int | None = None) -> Trained:
    """What a run has learnt, at its newest checkpoint or after `step` frames, to play or look at.

    Gives `configuration`, `agent`, `objective` and `frames`.
    """
    with naming_extras():
        return loading.load(Path(run), step)
