"""The frozen policy at play, step by step: what a clip and a live view show.

Procgen resets inside the step that ends an episode, so the frame at `done` already belongs to the
next level. A moment therefore has the frame *before* its action, the level of that frame, and what
the action brought; the last moment of an episode is the one whose action ended it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from crosstraj.config.groups import LevelSplit
from crosstraj.config.values import Config
from crosstraj.data.rollout import Remembered
from crosstraj.data.skills import Followed, Skills
from crosstraj.envs import image_and_actions, level_seeds
from crosstraj.learning.evaluation import Examiner, Player, Pool, outcome_of
from crosstraj.randomness import CLIPS, generator

Ending = Literal["", "solved", "ended", "timeout"]


class Moment(NamedTuple):
    """One step of one environment."""

    observation: NDArray[np.uint8]  # [H, W, C], what the policy saw
    memory: NDArray[np.float32]  # [K] and what it remembered before
    split: LevelSplit
    level: int  # -1 where there are no levels
    episode: int  # counted from 0 for each environment
    step: int  # counted from the beginning of the episode
    action: int
    value: float  # in the scale of training
    before: float  # raw return of the episode before the action
    after: float  # and with what it brought
    ending: Ending  # "" unless the action ended the episode


def play(
    pool: Pool,
    split: LevelSplit,
    player: Player,
    skills: Skills,
    rng: torch.Generator,
    *,
    greedy: bool = False,
    device: str = "cpu",
) -> Iterator[list[Moment]]:
    """One moment per environment and step, for ever."""
    envs = pool.envs.num_envs
    obs, level = pool.rewind()
    followed = Followed(skills, envs, device, rng)
    remembered = Remembered(player.memory, envs, device)
    score, episode, step = np.zeros(envs), np.zeros(envs, int), np.zeros(envs, int)
    while True:
        seen = obs.copy()  # the environments write the next frames in the same place
        memory = remembered.state.cpu().numpy().copy()
        frames = remembered.before(torch.from_numpy(seen).to(device))
        decision = player.act(frames, followed.context, rng, greedy=greedy)
        remembered.keep(decision)
        action, value = decision.action.cpu().numpy(), decision.value.float().cpu().numpy()
        obs, reward, terminated, truncated, info = pool.envs.step(action)
        done = terminated | truncated
        yield [
            Moment(
                *(
                    seen[row],
                    memory[row],
                    split,
                    int(level[row]),
                    int(episode[row]),
                    int(step[row]),
                ),
                *(int(action[row]), float(value[row])),
                *(float(score[row]), float(score[row] + reward[row])),
                outcome_of(info, row, bool(truncated[row])) if done[row] else "",
            )
            for row in range(envs)
        ]
        score = np.where(done, 0.0, score + reward)
        step, episode = np.where(done, 0, step + 1), episode + done
        followed.step(torch.from_numpy(done), rng)
        remembered.forget(torch.from_numpy(done))
        level = level_seeds(info, envs)


class Stage:
    """The environments of a clip, so many for each kind of levels; made once, rewound each time."""

    def __init__(self, config: Config, tiles: dict[LevelSplit, int]) -> None:
        self.config = config
        self.pools = {
            split: _examiner(config, count).pool(split) for split, count in tiles.items() if count
        }

    @property
    def actions(self) -> int:
        """How many there are to choose from."""
        return image_and_actions(next(iter(self.pools.values())).envs)[1]

    def play(self, player: Player, skills: Skills, frames: int) -> Iterator[list[Moment]]:
        """One moment per tile and step, for ever; `frames` of training choose the actions' stream.

        That stream is nobody else's: whether a run is filmed or not, it learns the same.
        """
        config = self.config
        sides = [
            play(
                pool,
                split,
                player,
                skills,
                generator(config.seed, CLIPS, number, frames),
                greedy=config.evaluation.greedy,
                device=config.machine.device,
            )
            for number, (split, pool) in enumerate(self.pools.items())
        ]
        for together in zip(*sides, strict=True):
            yield [moment for side in together for moment in side]


def _examiner(config: Config, envs: int) -> Examiner:
    evaluation = replace(config.evaluation, envs=envs, episodes=envs)
    return Examiner(replace(config, evaluation=evaluation))


def record(stage: Iterator[list[Moment]], steps: int) -> list[list[Moment]]:
    """So many steps, as one list of moments per tile."""
    together = [moments for moments, _ in zip(stage, range(steps), strict=False)]
    return [list(tile) for tile in zip(*together, strict=True)]


def held(tile: Sequence[Moment], hold: int) -> list[int]:
    """Which moment of a tile each picture of the clip shows: an ending is shown `hold` times more.

    As many pictures as moments: what the endings take is cut from the end.
    """
    shown: list[int] = []
    for number, moment in enumerate(tile):
        shown += [number] * (1 + hold * bool(moment.ending))
    return shown[: len(tile)]


def values_until(tile: Sequence[Moment], number: int, most: int) -> list[float]:
    """The values of a moment's episode up to it, the last `most` of them."""
    now = tile[number]
    first = number - min(now.step, most - 1)
    return [moment.value for moment in tile[max(0, first) : number + 1]]


def value_range(tiles: Sequence[Sequence[Moment]]) -> tuple[float, float]:
    """One scale for all tiles, so that their lines can be compared; never empty."""
    values: Any = [moment.value for tile in tiles for moment in tile]
    low, high = float(np.min(values)), float(np.max(values))
    return (low, high) if high - low > 1e-6 else (low - 0.5, high + 0.5)
