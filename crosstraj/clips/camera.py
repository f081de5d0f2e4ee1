"""A clip at each evaluation of a run: `clips/step-<frames>.webp` in the run directory.

A clip is something to look at, and nothing that a run depends on: it has environments and random
streams of its own, and what goes wrong with it is said, once, and costs the clip alone.
"""

from typing import TYPE_CHECKING

from crosstraj import disk
from crosstraj.config.groups import LevelSplit
from crosstraj.config.values import Config
from crosstraj.data.skills import Skills
from crosstraj.envs.showing import action_words
from crosstraj.learning.evaluation import Player
from crosstraj.learning.learner import Learner
from crosstraj.runs.directory import Run

if TYPE_CHECKING:
    from crosstraj.clips.scenes import Stage

STEPS, FPS = 200, 15
TILES: dict[LevelSplit, int] = {"seen": 2, "unseen": 2}


class Camera:
    """Films the agent of a run whenever it is asked to; one that is not wanted does nothing."""

    def __init__(self, config: Config, run: Run) -> None:
        self.config, self.run, self.wanted = config, run, config.saving.video
        self.stage: Stage | None = None  # engines leak when they are made again

    def film(self, learner: Learner, frames: int) -> None:
        if not self.wanted:
            return
        try:
            self._film(learner.agent, learner.objective, frames)
        except Exception as error:  # whatever a clip does, the run goes on
            self.run.warn(f"no more clips are kept: {error}")
            self.wanted = False

    def _film(self, player: Player, skills: Skills, frames: int) -> None:
        from crosstraj.clips.files import encode
        from crosstraj.clips.scenes import Stage, record
        from crosstraj.clips.tiles import Clip, pictures

        self.stage = self.stage or Stage(self.config, TILES)
        tiles = record(self.stage.play(player, skills, frames), STEPS)
        clip = Clip(
            title_of(self.config, frames),
            tiles,
            action_words(self.config.env, self.stage.actions),
            self.config.frame_stack,
            None,
        )
        place = self.run.directory / "clips"
        if place.is_symlink():  # of a stranger's run: it could lead anywhere
            place.unlink()
        disk.make_directory(place)
        disk.write_whole(place / f"step-{frames}.webp", encode(pictures(clip), "webp", FPS))


def title_of(config: Config, frames: int) -> str:
    return f"{config.method} on {config.env} after {frames:,} frames"
