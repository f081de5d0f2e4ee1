"""The commands: each parses its own arguments, calls the library and prints."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.console import Console
from rich.table import Table

from crosstraj.config import Config, LevelSplit, check_env_name, preset, with_policy
from crosstraj.errors import BadInput
from crosstraj.evaluate import EASY_RANGE, SPLITS, Examiner, normalised, summarise
from crosstraj.native import keep_memory
from crosstraj.parse import parse
from crosstraj.progress import display_for, spared


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
    values = preset(method, name)
    values = with_policy(values, _value_of("--policy.kind", arguments, values.policy.kind))
    given = parse(
        TrainArguments,
        "train",
        f"Train `{method}` with preset `{name}`; any value can be changed.",
        arguments,
        default=TrainArguments(values),
    )
    config = given.config
    check_env_name(config.env)
    if not config.machine.low_memory:
        keep_memory()
    from crosstraj.envs import GAMES
    from crosstraj.health import first_rank, verdict
    from crosstraj.logs import read_rows
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
            more = "" if config.phases else "; a larger --frames would extend it"
            display.say(f"{directory} is done{more}")
            summary = run.summary() or {}
        else:
            summary = train_run(config, run, display, stop)
            _draw(directory)
    _print_results(config, summary)
    with spared():
        before = first_rank(read_rows(directory / "metrics.jsonl"))
        if said := verdict(summary, levels=config.env in GAMES, rank_before=before):
            print(f"the representation: {said}")
        print("files:", *sorted(directory.iterdir()), sep="\n  ", flush=True)


@dataclass(frozen=True)
class EvaluateArguments:
    run: Annotated[Path, tyro.conf.Positional]
    """A run directory."""
    split: tuple[LevelSplit, ...] = ("seen", "unseen")
    """Which levels to play: seen (trained on), unseen, validation; one or several."""
    episodes: int = 128
    """Episodes per split; each environment plays the same number."""
    envs: int = 64
    """Environments played at once."""
    greedy: bool = False
    """Take the most probable action instead of a sampled one."""
    seed: int = 0
    """Which levels are played and how actions are drawn (a run itself uses its own seed)."""
    step: int | None = None
    """A snapshot or checkpoint by its frame count instead of the newest checkpoint."""


def evaluate(arguments: list[str]) -> None:
    """Play a trained agent on its training levels, and on levels it has never seen."""
    given = parse(EvaluateArguments, "evaluate", evaluate.__doc__, arguments)
    from crosstraj.learner import Learner
    from crosstraj.randomness import Streams
    from crosstraj.trained import read_config, read_weights

    if not given.split or len(set(given.split)) < len(given.split):
        raise BadInput(f"--split {' '.join(given.split)}: name one or several, each once")
    stored = read_config(given.run)
    evaluation = replace(
        stored.evaluation, episodes=given.episodes, envs=given.envs, greedy=given.greedy
    )
    config = replace(stored, evaluation=evaluation, seed=given.seed)
    weights, frames = read_weights(given.run, given.step)
    keep_memory()
    torch.set_num_threads(config.threads)
    examiner = Examiner(config, given.split)
    learner = Learner(config, examiner.pool(given.split[0]).envs, Streams(config.seed))
    learner.load_weights(weights)
    episodes = examiner.examine(learner.agent, learner.objective, frames, lambda: None)
    _print_results(config, {"frames": frames, **summarise(episodes)})


@dataclass(frozen=True)
class ExpertsArguments:
    config: Annotated[tyro.conf.AvoidSubcommands[Config], tyro.conf.arg(name="")]
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
    config = preset("ppo", name)
    if name == "default":
        policy = replace(config.policy, epochs=3)
        config = replace(config, rollout_steps=64, policy=policy)
    return replace(
        config,
        frames=500_000,  # paper, for each expert
        procgen=replace(config.procgen, train_levels=1),
        saving=replace(config.saving, runs=Path("experts")),
    )


def experts(arguments: list[str]) -> None:
    """Train one PPO expert per level. Running the same command again continues, or shows them."""
    default = expert_preset(_value_of("--preset", arguments, "default"))
    given = parse(
        ExpertsArguments,
        "experts",
        "Train one PPO expert per level; --frames is the budget of each. Running the same command "
        "again continues, or shows them.",
        arguments,
        default=ExpertsArguments(default),
    )
    config = given.config
    check_env_name(config.env)
    if not config.machine.low_memory:
        keep_memory()
    from crosstraj.experts import INDEX
    from crosstraj.pretrain import table_of, train_experts
    from crosstraj.signals import Stop

    with Stop() as stop:
        found = train_experts(config, given.levels, stop, allow_inexact=given.allow_inexact)
    Console().print(table_of(config, found))
    print(f"files:\n  {config.saving.runs / config.env / INDEX}")


@dataclass(frozen=True)
class CurvesArguments:
    run: Annotated[Path, tyro.conf.Positional]
    """A run directory, or a directory with a run's metrics.jsonl."""
    out: Path | None = None
    """The PNG to write; default: curves.png in the run directory."""


def curves(arguments: list[str]) -> None:
    """Draw the learning and health curves of a run."""
    given = parse(CurvesArguments, "curves", curves.__doc__, arguments)
    from crosstraj.report.curves import draw_curves

    print(draw_curves(given.run, given.out or given.run / "curves.png"))


@dataclass(frozen=True)
class ReportArguments:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run directories, or directories that hold some."""
    out: Path | None = None
    """Directory of the report; default, for a single run: report in its directory."""


def report(arguments: list[str]) -> None:
    """Tables, statistics and figures of runs, as one page that opens from disk."""
    given = parse(ReportArguments, "report", report.__doc__, arguments)
    if not given.runs:
        raise BadInput("no run is given; name run directories, or a directory that holds some")
    out = given.out
    if out is None:
        if len(given.runs) != 1 or not (given.runs[0] / "config.json").is_file():
            raise BadInput("say where the report goes with --out; only a single run has a default")
        out = given.runs[0] / "report"
    from crosstraj.report.page import write_report

    print(write_report(given.runs, out))


@dataclass(frozen=True, kw_only=True)
class LookArguments:
    views: int = 2000
    """How many, half from levels seen in training and half from unseen ones."""
    step: int | None = None
    """A snapshot or checkpoint by its frame count instead of the newest checkpoint."""
    span: int = 0
    """Steps that a view covers, its keypoints drawn among them; 0: as many as it has keypoints."""
    kmeans: int = 0
    """Cluster the features by k-means instead of by the method's prototypes; 0: no."""


@dataclass(frozen=True, kw_only=True)
class AnalyseArguments(LookArguments):
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run directories; several are analysed one by one, then compared by temperature."""
    out: Path | None = None
    """Where the results go; default: the directory `analysis` in the run. Several runs need it."""


def analyse(arguments: list[str]) -> None:
    """Play a run's frozen policy and measure what it has learnt: table, figures, summary."""
    given = parse(AnalyseArguments, "analyse", analyse.__doc__, arguments)
    from crosstraj.analysis import temperatures
    from crosstraj.analysis.output import Output, file_names, inside_run
    from crosstraj.analysis.study import Choices
    from crosstraj.analysis.study import analyse as analyse_run

    if not given.runs:
        raise BadInput("no run is given; name one or more run directories")
    if len(given.runs) > 1 and given.out is None:
        raise BadInput("several runs need --out DIR, where each gets a directory of its own")
    choices = Choices(given.views, given.step, given.span, given.kmeans)
    courses = []
    for run, name in zip(given.runs, file_names(list(given.runs)), strict=True):
        place = given.out or inside_run(run, "analysis")
        output = Output(place / name if len(given.runs) > 1 else place)
        result, written = analyse_run(run, choices, output)
        courses.append(temperatures.course(result))
        del result  # its frames are large, and the next run has its own
        print("\n".join(map(str, written)))
    if given.out is not None and len(courses) > 1:
        output = Output(given.out)
        print(output.write("temperatures.md", temperatures.compare(courses).encode()))
        print(output.write("temperatures.png", temperatures.draw(courses)))


@dataclass(frozen=True, kw_only=True)
class ExploreArguments(LookArguments):
    run: Annotated[Path, tyro.conf.Positional]
    """A run directory."""
    out: Path | None = None
    """The HTML file to write; default: explore.html in the run directory."""


def explore(arguments: list[str]) -> None:
    """Write one HTML page, opened from disk: a map of views, their frames, clusters over time."""
    given = parse(ExploreArguments, "explore", explore.__doc__, arguments)
    from crosstraj.analysis.explore import explore as explore_run
    from crosstraj.analysis.output import Output
    from crosstraj.analysis.study import Choices

    choices = Choices(given.views, given.step, given.span, given.kmeans)
    out = given.out or given.run / "explore.html"
    if out.is_dir() and not out.is_symlink():
        raise BadInput(f"--out {out} is a directory; give the file to write, such as page.html")
    print(explore_run(given.run, choices, Output(out.parent), out.name))


def _value_of(flag: str, arguments: list[str], default: str) -> str:
    """The value of a flag that decides the defaults of all others, read before they are parsed.

    Given twice, the last one counts, as for every other flag.
    """
    value = default
    for index, word in enumerate(arguments):
        if word == flag and index + 1 < len(arguments):
            value = arguments[index + 1]
        if word.startswith(f"{flag}="):
            value = word.removeprefix(f"{flag}=")
    return value


def _print_results(config: Config, summary: dict[str, Any]) -> None:
    table = Table(
        "levels",
        "return",
        "standard error",
        "normalised",
        "solved",
        title=f"{config.method} on {config.env} after {summary.get('frames', 0):,} frames",
    )
    for split in SPLITS:
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
    words = (
        f"raw returns over {config.evaluation.episodes} episodes per row, actions "
        f"{'greedy' if config.evaluation.greedy else 'sampled'}; normalised by the easy-mode "
        "ranges (jumper, leaper: minimum 3)"
    )
    with spared():
        console = Console()
        console.print(table)
        console.print(words, style="dim")


def _draw(directory: Path) -> None:
    """A picture at the end of a run; that it cannot be drawn must not spoil the run."""
    from crosstraj.report.curves import draw_curves

    try:
        draw_curves(directory, directory / "curves.png")
    except (OSError, BadInput) as error:
        print(f"curves.png could not be drawn: {error}", file=sys.stderr)
