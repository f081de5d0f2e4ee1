"""`crosstraj watch`: a run's agent at play, as a moving picture or live in a terminal."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from crosstraj.analysis.company import company
from crosstraj.analysis.embed import Lens
from crosstraj.analysis.output import Output
from crosstraj.clips.camera import title_of
from crosstraj.clips.files import encode, kind_of
from crosstraj.clips.scenes import Stage, record
from crosstraj.clips.tiles import Clip, pictures
from crosstraj.envs.showing import action_words
from crosstraj.errors import BadInput
from crosstraj.learning.display import screen
from crosstraj.learning.display import stage as announced
from crosstraj.learning.load import load
from crosstraj.nn.native import keep_memory

MOST_TILES = 36
MOST_STEPS = 3000
MOST_IMAGES = 12_000  # tiles times steps: all are in memory at once, 0.2 MB each


class Scene(NamedTuple):
    """What a person may choose of a clip."""

    seen: int  # tiles with levels of training
    unseen: int  # tiles with levels never seen
    steps: int
    fps: int
    greedy: bool
    seed: int  # of levels and actions
    step: int | None  # of training; None: the newest checkpoint
    clusters: bool  # show frames of the same cluster, if the method has prototypes

    def check(self) -> None:
        if not 1 <= self.seen + self.unseen <= MOST_TILES or min(self.seen, self.unseen) < 0:
            raise BadInput(
                f"seen={self.seen}, unseen={self.unseen}: give from 1 to {MOST_TILES} tiles in all"
            )
        if not 1 <= self.steps <= MOST_STEPS:
            raise BadInput(f"steps={self.steps}: give from 1 to {MOST_STEPS}")
        if not 1 <= self.fps <= 60:
            raise BadInput(f"fps={self.fps}: give from 1 to 60 pictures per second")

    def check_size(self) -> None:
        """Does a file of it fit into memory?"""
        tiles = self.seen + self.unseen
        if tiles * self.steps > MOST_IMAGES:
            raise BadInput(
                f"{tiles} tiles of {self.steps} steps are {tiles * self.steps:,} images, and a "
                f"file holds {MOST_IMAGES:,} at most; give steps={MOST_IMAGES // tiles}, or fewer "
                "tiles"
            )


def prepared(run: Path, scene: Scene) -> tuple[Lens, Stage]:
    """The run's networks, and the environments they will play in."""
    scene.check()
    lens = Lens(run, load(run, scene.step), 0)
    config = lens.trained.configuration
    keep_memory()
    torch.set_num_threads(config.threads)
    evaluation = replace(config.evaluation, greedy=scene.greedy)
    config = replace(config, seed=scene.seed, evaluation=evaluation)
    lens.trained = lens.trained._replace(configuration=config)
    return lens, Stage(config, {"seen": scene.seen, "unseen": scene.unseen})


def watch(run: Path, scene: Scene, output: Output, name: str) -> Path:
    """Write a clip; its name decides what kind of file it is."""
    kind = kind_of(name)
    scene.check()
    scene.check_size()
    lens, stage = prepared(run, scene)
    agent, objective, frames = lens.trained.agent, lens.trained.objective, lens.trained.frames
    config = lens.trained.configuration
    with announced(f"playing {scene.steps} steps"):
        tiles = record(stage.play(agent, objective, frames), scene.steps)
    beside = None
    if scene.clusters and lens.clustering is not None:
        with announced("finding frames of the same clusters"):
            beside = company(lens, tiles)
    clip = Clip(
        title_of(config, frames),
        tiles,
        action_words(config.env, stage.actions),
        config.frame_stack,
        beside,
    )
    with announced(f"drawing {name}"):
        return output.write(name, encode(pictures(clip), kind, scene.fps))


def watch_live(run: Path, scene: Scene) -> None:
    """Show it in the terminal until its steps are played, or Ctrl-C."""
    from crosstraj.clips.live import fitting, show

    console = screen()
    fitting(console, 1, 1)  # is it a terminal at all? asked before anything is loaded
    lens, stage = prepared(run, scene)
    config = lens.trained.configuration
    console.print(f"{title_of(config, lens.trained.frames)}; Ctrl-C ends it", style="bold")
    show(
        stage.play(lens.trained.agent, lens.trained.objective, lens.trained.frames),
        scene.steps,
        action_words(config.env, stage.actions),
        frame_stack=config.frame_stack,
        fps=scene.fps,
        console=console,
    )
