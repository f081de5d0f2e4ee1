"""The commands: each parses its own arguments, calls the library and prints."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from crosstraj.config import Config, check_env_name, preset
from crosstraj.errors import BadInput
from crosstraj.evaluate import EASY_RANGE, Examiner, normalised, summarise
from crosstraj.progress import display_for


@dataclass(frozen=True)
class TrainArguments:
    config: Annotated[tyro.conf.AvoidSubcommands[Config], tyro.conf.arg(name="")]
    allow_inexact: bool = False
    """Resume although torch, threads or processor differ from those that wrote the checkpoint."""


def train(arguments: list[str]) -> None:
    """Train a method on a game. Running the same command again continues, or says it is done."""
    method, name = (
        _value_of("--method", arguments, "ctrl"),
        _value_of("--preset", arguments, "default"),
    )
    given = tyro.cli(
        TrainArguments,
        prog="crosstraj train",
        description=f"Train `{method}` with preset `{name}`; any value can be changed.",
        default=TrainArguments(preset(method, name)),
        args=arguments,
        config=(tyro.conf.FlagConversionOff,),
    )
    config = given.config
    check_env_name(config.env)
    from crosstraj.signals import Stop
    from crosstraj.train import open_run
    from crosstraj.train import train as train_run

    title = f"{config.method} on {config.env}, seed {config.seed}"
    with (
        Stop() as stop,
        display_for(config.frames, title) as display,
        open_run(config, display, allow_inexact=given.allow_inexact) as run,
    ):
        directory = run.directory
        if run.finished:
            display.say(f"{directory} is done; a larger --frames would extend it")
            summary = run.summary() or {}
        else:
            summary = train_run(config, run, display, stop)
    _print_results(config, summary)
    _draw(directory)
    print("files:")
    for path in sorted(directory.iterdir()):
        print(f"  {path}")


@dataclass(frozen=True)
class EvaluateArguments:
    run: Annotated[Path, tyro.conf.Positional]
    """A run directory."""
    episodes: int = 128
    """Episodes per split; each environment plays the same number."""
    envs: int = 64
    """Environments played at once."""
    greedy: bool = False
    """Take the most probable action instead of a sampled one."""
    seed: int = 0
    """Which levels are played and how actions are drawn (a run itself uses its own seed)."""
    step: int | None = None
    """A snapshot by its frame count instead of the newest checkpoint."""


def evaluate(arguments: list[str]) -> None:
    """Play a trained agent on its training levels and on levels it has never seen."""
    given = tyro.cli(
        EvaluateArguments,
        prog="crosstraj evaluate",
        description=evaluate.__doc__,
        args=arguments,
        config=(tyro.conf.FlagConversionOff,),
    )
    from crosstraj.learner import Learner
    from crosstraj.randomness import Streams
    from crosstraj.trained import read_config, read_weights

    stored = read_config(given.run)
    evaluation = replace(
        stored.evaluation, episodes=given.episodes, envs=given.envs, greedy=given.greedy
    )
    config = replace(stored, evaluation=evaluation, seed=given.seed)
    examiner = Examiner(config)
    learner = Learner(config, examiner.pool("seen").envs, Streams(config.seed))
    weights, frames = read_weights(given.run, given.step)
    learner.load_weights(weights)
    episodes = examiner.examine(learner.agent, learner.objective, frames, lambda: None)
    _print_results(config, {"frames": frames, **summarise(episodes)})


@dataclass(frozen=True)
class CurvesArguments:
    run: Annotated[Path, tyro.conf.Positional]
    """A run directory, or a directory with a run's metrics.jsonl."""
    out: Path | None = None
    """The PNG to write; default: curves.png in the run directory."""


def curves(arguments: list[str]) -> None:
    """Draw the learning and health curves of a run."""
    given = tyro.cli(
        CurvesArguments, prog="crosstraj curves", description=curves.__doc__, args=arguments
    )
    from crosstraj.report.curves import draw_curves

    print(draw_curves(given.run, given.out or given.run / "curves.png"))


def doctor(arguments: list[str]) -> None:
    """Check this machine: versions, cores, memory, and five seconds of the game engine."""
    tyro.cli(NoArguments, prog="crosstraj doctor", description=doctor.__doc__, args=arguments)
    from crosstraj.doctor import examine_machine

    if not examine_machine(Console()):
        raise BadInput("something is missing: see above")


@dataclass(frozen=True)
class NoArguments:
    pass


def _value_of(flag: str, arguments: list[str], default: str) -> str:
    """The value of a flag that decides the defaults of all others, read before they are parsed."""
    for index, word in enumerate(arguments):
        if word == flag and index + 1 < len(arguments):
            return arguments[index + 1]
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return default


def _print_results(config: Config, summary: dict[str, Any]) -> None:
    table = Table(
        "levels",
        "return",
        "standard error",
        "normalised",
        "solved",
        title=f"{config.method} on {config.env} after {summary.get('frames', 0):,} frames",
    )
    for split in ("seen", "unseen"):
        if f"{split}_return" not in summary:
            continue
        score = summary[f"{split}_return"]
        easy = config.env in EASY_RANGE and config.procgen.mode == "easy"
        table.add_row(
            split,
            f"{score:.2f}",
            f"{summary[f'{split}_stderr']:.2f}",
            f"{normalised(config.env, score):.3f}" if easy else "-",
            f"{summary[f'{split}_solved']:.0%}",
        )
    console = Console()
    console.print(table)
    console.print(
        f"raw returns over {config.evaluation.episodes} episodes per row, actions "
        f"{'greedy' if config.evaluation.greedy else 'sampled'}; normalised by the easy-mode "
        "ranges (jumper, leaper: minimum 3)",
        style="dim",
    )


def _draw(directory: Path) -> None:
    """A picture at the end of a run; that it cannot be drawn must not spoil the run."""
    from crosstraj.report.curves import draw_curves

    try:
        draw_curves(directory, directory / "curves.png")
    except (OSError, BadInput) as error:
        print(f"curves.png could not be drawn: {error}", file=sys.stderr)
