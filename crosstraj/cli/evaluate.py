"""`crosstraj evaluate`, and the table of results that `train` prints as well."""

import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from rich.table import Table

from crosstraj.cli.options import POSITIONAL
from crosstraj.cli.parse import parse
from crosstraj.cli.runs_given import known
from crosstraj.config.fitting import fitting_envs
from crosstraj.config.groups import LevelSplit
from crosstraj.config.methods import words_for
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.health.glossary import GLOSSARY, shorts
from crosstraj.learning.display import screen, spared
from crosstraj.learning.evaluation import EASY_RANGE, SPLITS, Examiner, normalised, summarise
from crosstraj.nn.native import keep_memory
from crosstraj.runs.chance import UNMEASURED, Chance
from crosstraj.runs.shipped import random_return


@dataclass(frozen=True)
class EvaluateArguments:
    run: Annotated[Path, POSITIONAL]
    """A run directory, or an agent that comes with crosstraj: agents/<name>."""
    split: tuple[LevelSplit, ...] = ("seen", "unseen")
    """Which levels to play: seen (trained on), unseen, validation; one or several."""
    episodes: int = 128
    """Episodes per split."""
    envs: int | None = None
    """Environments played at once, each the same number of episodes; default: at most 64."""
    greedy: bool = False
    """Take the most probable action instead of a sampled one."""
    seed: int = 0
    """Which levels are played and how actions are drawn (a run itself uses its own seed)."""
    step: int | None = None
    """A snapshot or checkpoint by its frame count instead of the newest checkpoint."""
    random: bool = False
    """First measure random play on these levels where it is unknown, and keep it for all runs."""


def evaluate(arguments: list[str]) -> None:
    """Play a trained agent on its training levels, and on levels it has never seen."""
    given = parse(EvaluateArguments, "evaluate", evaluate.__doc__, arguments)
    from crosstraj.learning.load import load

    if not given.split or len(set(given.split)) < len(given.split):
        raise BadInput(f"--split {' '.join(given.split)}: name one or several, each once")
    trained = load(known(given.run), given.step)
    stored = trained.configuration
    envs = fitting_envs(given.episodes, at_most=64) if given.envs is None else given.envs
    evaluation = replace(stored.evaluation, episodes=given.episodes, envs=envs, greedy=given.greedy)
    config = replace(stored, evaluation=evaluation, seed=given.seed)
    if given.random:
        measure_random_play(config, given.split)
    keep_memory()
    torch.set_num_threads(config.threads)
    examiner = Examiner(config, given.split)
    episodes = examiner.examine(
        trained.agent, trained.objective, trained.frames, interrupted=lambda: None
    )
    print_results(config, {"frames": trained.frames, **summarise(episodes)}, given.run)


def measure_random_play(config: Config, splits: Iterable[LevelSplit]) -> None:
    from crosstraj.experiments.random_play import measure

    for split in splits:
        if not random_return(config, split).measured:
            print(f"random play on {split} levels: {measure(config, split)}")


def print_results(config: Config, summary: dict[str, Any], run: Path) -> None:
    """What the agent of a run scored, beside random play, or how to measure that."""
    table = Table(
        "levels",
        *shorts("return", "stderr", "random_return", "normalised", "solved").values(),
        title=f"{config.method} on {config.env} after {summary.get('frames', 0):,} frames",
    )
    unknown = []
    for split in SPLITS:
        if f"{split}_return" not in summary:
            continue
        score, chance = summary[f"{split}_return"], _random_play(config, split)
        unknown += [] if chance.measured else [split]
        easy = config.env in EASY_RANGE and config.procgen.mode == "easy"
        table.add_row(
            split,
            f"{score:.2f}",
            f"{summary[f'{split}_stderr']:.2f}",
            f"{chance.score:.2f}" if chance.measured else "-",
            f"{normalised(config.env, score):.3f}" if easy else "-",
            f"{summary[f'{split}_solved']:.0%}",
        )
    words = (
        f"raw returns over {config.evaluation.episodes} episodes per row, actions "
        f"{'greedy' if config.evaluation.greedy else 'sampled'}; {GLOSSARY['normalised'].label}"
    )
    with spared():
        console = screen()
        console.print(table)
        console.print(words, style="dim")
        if unknown:
            own = words_for(config.method)
            command = ["crosstraj", "evaluate", str(run), *own, "--random", "--split"]
            print(
                f"What random play earns on {' and '.join(unknown)} levels is not known; "
                f"to measure it: {shlex.join([*command, *unknown])}"
            )


def _random_play(config: Config, split: LevelSplit) -> Chance:
    """What random play earns; that a file is broken must not spoil the table of a run."""
    try:
        return random_return(config, split)
    except BadInput as error:
        print(f"random play is left out: {error}", file=sys.stderr)
        return UNMEASURED
