"""What is found out about a first run: judged, filmed, looked into; then written as one page."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from crosstraj.analysis.explore import content_page, snapshots
from crosstraj.analysis.first.first_page import Film, Story, page
from crosstraj.analysis.first.shared import Situation, situations
from crosstraj.analysis.first.situation_map import points_of
from crosstraj.analysis.first.verdict import Judged, Verdict, verdict
from crosstraj.analysis.output import Output
from crosstraj.analysis.result import Choices, Subject
from crosstraj.analysis.study import prepare
from crosstraj.analysis.watching import Scene, watch
from crosstraj.config.fitting import fitting_envs
from crosstraj.config.groups import EvaluationConfig
from crosstraj.config.values import Config
from crosstraj.learning.display import stage
from crosstraj.learning.evaluation import Examiner, summarise
from crosstraj.learning.load import load
from crosstraj.runs.log import read_rows, series
from crosstraj.runs.shipped import AGENTS, agent_for, random_return

NAME = "first.html"
VIEWS = 1000  # that situations are looked for in
SPAN = 8  # steps of a view, over which its keypoints are drawn
SCENE = Scene(seen=2, unseen=2, steps=240, fps=15, greedy=False, seed=0, step=None, clusters=True)


class Told(NamedTuple):
    """What is left of a first run."""

    verdict: Verdict
    page: Path
    explore: Path


def tell(run: Path, episodes: int) -> Told:
    """Judge the run beside random play and an agent of ours, and write its page."""
    output = Output(run)
    config = load(run).configuration
    other = agent_for(config.env)
    with stage("judging it on unseen levels"):
        yours = judge(run, "your agent", config, episodes)
        theirs = other and judge(other, f"{AGENTS}/{other.name}", config, episodes)
    chance = random_return(config, "unseen")
    random = Judged("random play", chance.score, chance.stderr)
    sentence = verdict(config.env, random, yours, theirs or None)
    films = [film(run, "your agent", output, "watch.webp")]
    if other is not None:
        films.append(film(other, f"{AGENTS}/{other.name}, which comes with crosstraj", output,
                          "watch-shipped.webp"))  # fmt: skip
    subject = prepare(run, Choices(VIEWS, None, SPAN, 0))
    found = situations(subject)
    moments = snapshots(subject)
    explore = output.write("explore.html", content_page(subject, moments).encode())
    rows = read_rows(run / "metrics.jsonl")
    story = Story(
        title=f"{config.method} on {config.env}, {subject.frames:,} frames, seed {config.seed}",
        verdict=sentence,
        judged=[random, yours, *([theirs] if theirs else [])],
        films=films,
        missing="" if other else _none_along(config.env),
        curve={name: series(rows, f"{name}_return") for name in ("seen", "unseen")},
        chance=chance.score,
        situations=found,
        points=points_of(moments[-1]),
        about_situations=about(subject, found),
        explore=explore.name,
        commands=commands(run, config, (other.name, load(other).configuration) if other else None),
    )
    return Told(sentence, output.write(NAME, page(story).encode()), explore)


def judge(run: Path, name: str, config: Config, episodes: int) -> Judged:
    """The same unseen levels for everybody: those of seed 0, set up as `config` has them."""
    trained = load(run)
    evaluation = EvaluationConfig(episodes=episodes, envs=fitting_envs(episodes, 64))
    same = replace(trained.configuration, procgen=config.procgen, seed=0, evaluation=evaluation)
    found = Examiner(same, ("unseen",)).examine(
        trained.agent, trained.objective, trained.frames, interrupted=lambda: None
    )
    figures = summarise(found)
    return Judged(name, figures["unseen_return"], figures["unseen_stderr"])


def film(run: Path, caption: str, output: Output, name: str) -> Film:
    return Film(caption, watch(run, SCENE, output, name).read_bytes())


def _none_along(game: str) -> str:
    return (
        f"No trained agent for {game} comes with this version of crosstraj, so yours plays alone. "
        "When there is one in results/agents, it plays here beside yours."
    )


def about(subject: Subject, found: list[Situation]) -> str:
    """What the rows of frames are, in words."""
    if not found:
        return (
            f"{subject.config.method} has no prototypes, so it groups nothing; "
            "train with --method ctrl to see clusters here."
        )
    levels = len(np.unique(subject.views.level))
    return (
        "CTRL sorts pieces of episodes into clusters while it learns, without looking at rewards. "
        "On the map every piece is a point, in the colour of its row where it has one. "
        f"Each row is one cluster, in frames from different levels ({levels} were played): blue "
        "ones were trained on, orange ones are new. Where a row shows one situation in many "
        "levels, the agent has seen what they share; after a first run much of it is still "
        "colour and background."
    )


def commands(run: Path, config: Config, other: tuple[str, Config] | None) -> list[tuple[str, str]]:
    """What to do next; each can be pasted into a shell. other: the agent of ours."""
    place, tool = shlex.quote(str(run)), ".venv/bin/crosstraj"
    found = [
        ("Train it on, from where it stopped, four times as long.",
         f"{tool} train --method {config.method} --env {config.env} --encoder {config.encoder} "
         f"--evaluation.every {config.evaluation.every} --evaluation.episodes "
         f"{config.evaluation.episodes} --frames {4 * config.frames}"),
        ("Train the baseline on the same levels, and compare.",
         f"{tool} train --method ppo --env {config.env} --encoder {config.encoder} "
         f"--evaluation.every {config.evaluation.every} --evaluation.episodes "
         f"{config.evaluation.episodes} --frames {config.frames} "
         f"&& {tool} report runs/* --out report"),
        ("Watch it live in your terminal.", f"{tool} watch {place} --live"),
        ("Give it to somebody else, with a card and a clip.", f"{tool} export {place}"),
    ]  # fmt: skip
    if other is not None:
        name, theirs = other
        begin = (
            f"{tool} train --method {theirs.method} --env {config.env} --encoder {theirs.encoder} "
            f"--from {AGENTS}/{name} --frames 65536"
        )
        found.append(("Begin with the agent that comes with crosstraj.", begin))
    return found
