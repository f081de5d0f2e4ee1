"""`crosstraj train`."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from crosstraj.cli.evaluate import print_results
from crosstraj.cli.options import FLAT
from crosstraj.cli.run_values import chosen_preset, parse_config, with_levels
from crosstraj.cli.runs_given import known
from crosstraj.config.values import Config
from crosstraj.envs import check_env_name
from crosstraj.errors import BadInput, naming_extras
from crosstraj.learning.display import display_for, spared
from crosstraj.nn.native import keep_memory

if TYPE_CHECKING:
    from crosstraj.learning.networks import Start


@dataclass(frozen=True)
class TrainArguments:
    config: Annotated[Config, FLAT]
    levels: int | None = None
    """Train on this many levels and judge on others: procgen.train_levels, or for a Gymnasium id
    gymnasium.train_levels."""
    from_: Path | None = None
    """Start from the weights of this run, or of agents/<name>, instead of random ones."""
    allow_inexact: bool = False
    """Resume although torch, threads or processor differ from those that wrote the checkpoint."""


def train(arguments: list[str]) -> Path:
    """Train a method on a game. Running the same command again continues, or says it is done."""
    given = parse_config(
        TrainArguments,
        "train",
        "Train a method on a game. Running the same command again continues, or says it is done.",
        arguments,
        chosen_preset(arguments),
        complete=with_levels,
    )
    config = given.config
    check_env_name(config.env, config.gymnasium)
    if not config.machine.low_memory:
        keep_memory()
    config, start = _started(config, given.from_)
    from crosstraj.learning.place import open_run
    from crosstraj.learning.signals import Stop
    from crosstraj.learning.watch import first_rank, verdict
    from crosstraj.loop import train as train_run
    from crosstraj.runs.log import read_rows

    title = f"{config.method} on {config.env}, seed {config.seed}"
    with (
        Stop() as stop,
        display_for(config.frames, title) as display,
        open_run(config, display, allow_inexact=given.allow_inexact) as run,
    ):
        directory = run.directory
        if run.finished:
            more = "" if config.phases else "; a larger --frames would extend it"
            display.say(f"{directory} is done{more}")
            summary = run.summary() or {}
        else:
            summary = train_run(config, run, display, stop, start)
            _draw(directory)
    print_results(config, summary, directory)
    with spared():
        before = first_rank(read_rows(directory / "metrics.jsonl"))
        if said := verdict(summary, levels=config.train_levels > 0, rank_before=before):
            print(f"the representation: {said}")
        print("files:", *sorted(directory.iterdir()), sep="\n  ", flush=True)
    return directory


def _started(config: Config, origin: Path | None) -> tuple[Config, "Start | None"]:
    """The configuration of a run that starts from other weights, and those."""
    from crosstraj.learning.load import start_of

    if origin is None:
        if config.start:
            raise BadInput(f"--start {config.start}: --from PATH says which weights; give that")
        return config, None
    start, digest = start_of(known(origin))
    return replace(config, start=digest), start


def _draw(directory: Path) -> None:
    """A picture at the end of a run; that it cannot be drawn must not spoil the run."""
    try:
        with naming_extras():
            from crosstraj.report.curves import draw_curves
        draw_curves(directory, directory / "curves.png")
    except (OSError, BadInput) as error:
        print(f"curves.png could not be drawn: {error}", file=sys.stderr)
