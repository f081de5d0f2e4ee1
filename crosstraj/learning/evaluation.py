"""The frozen policy on levels it has or has not trained on: raw returns, one record per episode.

Every environment plays the same number of episodes. Taking the first episodes to finish instead
would favour short ones, and in most games a short episode is a bad one.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosstraj.config.groups import LevelSplit
from crosstraj.config.values import Config
from crosstraj.data.rollout import Decision, Remembered
from crosstraj.data.skills import Followed, Skills
from crosstraj.envs import Split, level_seeds, make_envs, savable
from crosstraj.nn.memory import Frames
from crosstraj.randomness import EVALUATIONS, derived_seed, generator


class Source(NamedTuple):
    """Where a split's levels come from, and which of the evaluation's random streams are its."""

    levels: Split
    stream: int  # 2 is that of random play beside experts


SPLITS: dict[LevelSplit, Source] = {
    "seen": Source("train", 0),
    "unseen": Source("test", 1),
    "validation": Source("validation", 3),
}


class Episode(NamedTuple):
    level: int  # -1 where there are no levels
    first_frame: str  # 16 hex digits of its SHA-256: equal levels look equal
    score: float  # raw return
    length: int
    outcome: Literal["solved", "ended", "timeout"]


# R_min and R_max of easy mode (Cobbe et al., 2020); jumper and leaper have the paper's minimum of
# 3, where the train-procgen repository prints those of hard mode.
EASY_RANGE = {
    "bigfish": (1.0, 40.0),
    "bossfight": (0.5, 13.0),
    "caveflyer": (3.5, 12.0),
    "chaser": (0.5, 13.0),
    "climber": (2.0, 12.6),
    "coinrun": (5.0, 10.0),
    "dodgeball": (1.5, 19.0),
    "fruitbot": (-1.5, 32.4),
    "heist": (3.5, 10.0),
    "jumper": (3.0, 10.0),
    "leaper": (3.0, 10.0),
    "maze": (5.0, 10.0),
    "miner": (1.5, 13.0),
    "ninja": (3.5, 10.0),
    "plunder": (4.5, 30.0),
    "starpilot": (2.5, 64.0),
}


def normalised(game: str, score: float) -> float:
    """0 for R_min, 1 for R_max of the game in easy mode."""
    low, high = EASY_RANGE[game]
    return (score - low) / (high - low)


class Pool:
    """Environments of one split: made once (re-creating Procgen leaks), rewound before each use."""

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any], seed: int) -> None:
        self.envs, self.seed = envs, seed
        envs.reset(seed=seed)
        self.start = envs.get_state() if savable(envs) else None  # type: ignore[attr-defined]

    def rewind(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Back to the first frame: all evaluations play the same levels."""
        if self.start is None:
            obs, info = self.envs.reset(seed=self.seed)
        else:
            obs, info = self.envs.set_state(self.start)  # type: ignore[attr-defined]
        return obs, level_seeds(info, self.envs.num_envs)


class Player(Protocol):
    """What evaluation needs of an agent: an action per frame."""

    memory: int  # how many numbers it remembers of an episode

    def act(
        self, frames: Frames, context: Tensor, rng: torch.Generator, *, greedy: bool = False
    ) -> Decision: ...


def evaluate(
    pool: Pool,
    player: Player,
    skills: Skills,
    episodes: int,
    rng: torch.Generator,
    *,
    greedy: bool = False,
    device: str = "cpu",
    interrupted: Callable[[], None] = lambda: None,
) -> list[Episode]:
    """Each environment's first episodes, equally many; `interrupted` may raise between steps."""
    envs = pool.envs.num_envs
    quota = episodes // envs
    obs, level = pool.rewind()
    followed = Followed(skills, envs, device, rng)
    remembered = Remembered(player.memory, envs, device)
    played, score, length = np.zeros(envs, int), np.zeros(envs), np.zeros(envs, int)
    hashes = [_digest(frame) for frame in obs]
    records: list[tuple[int, int, Episode]] = []
    while (playing := np.flatnonzero(played < quota)).size:
        interrupted()
        action = np.zeros(envs, np.int64)  # those who are through play on unseen and uncounted
        frames = torch.from_numpy(obs[playing]).to(device)
        seen = remembered.before(frames, playing)
        decision = player.act(seen, followed.context[playing], rng, greedy=greedy)
        remembered.keep(decision, playing)
        action[playing] = decision.action.cpu().numpy()
        obs, reward, terminated, truncated, info = pool.envs.step(action)
        score += reward
        length += 1
        done = terminated | truncated
        for row in np.flatnonzero(done & (played < quota)):
            outcome = outcome_of(info, int(row), bool(truncated[row]))
            episode = Episode(
                int(level[row]), hashes[row], float(score[row]), int(length[row]), outcome
            )
            records.append((int(row), int(played[row]), episode))
            played[row] += 1
        for row in np.flatnonzero(done):
            score[row], length[row], hashes[row] = 0.0, 0, _digest(obs[row])
        followed.step(torch.from_numpy(done), rng)
        remembered.forget(torch.from_numpy(done))
        level = level_seeds(info, envs)
    return [episode for *_, episode in sorted(records, key=lambda record: record[:2])]


def outcome_of(
    info: dict[str, Any], row: int, truncated: bool
) -> Literal["solved", "ended", "timeout"]:
    """Procgen says whether the level was completed; its time-outs look like any other end."""
    if truncated:
        return "timeout"
    return "solved" if bool(info.get("prev_level_complete", {row: False})[row]) else "ended"


def _digest(frame: NDArray[np.uint8]) -> str:
    return hashlib.sha256(frame.tobytes()).hexdigest()[:16]


class Examiner:
    """The splits of a run, or those given; every so many frames and at the end of the budget."""

    def __init__(self, config: Config, splits: Sequence[LevelSplit] = ()) -> None:
        self.config, self.splits = config, splits or config.evaluation.splits
        self.pools: dict[LevelSplit, Pool] = {}

    def due(self, frames: int, last: int) -> bool:
        """Has a multiple of `every`, or the end of the budget, been passed since `last`?"""
        every, budget = self.config.evaluation.every, self.config.frames
        return frames // every > last // every or (frames >= budget and frames > last)

    def examine(
        self, player: Player, skills: Skills, frames: int, interrupted: Callable[[], None]
    ) -> dict[str, list[Episode]]:
        """Episodes by split. The actions' stream depends on the frame count, on nothing before."""
        c = self.config
        return {
            split: evaluate(
                self.pool(split),
                player,
                skills,
                c.evaluation.episodes,
                generator(c.seed, EVALUATIONS, SPLITS[split].stream, frames),
                greedy=c.evaluation.greedy,
                device=c.machine.device,
                interrupted=interrupted,
            )
            for split in self.splits
        }

    def pool(self, split: LevelSplit) -> Pool:
        if split not in self.pools:
            c, source = self.config, SPLITS[split]
            seed = derived_seed(c.seed, EVALUATIONS, source.stream)
            envs = make_envs(
                c.env,
                c.evaluation.envs,
                levels=source.levels,
                procgen=c.procgen,
                ising=c.ising,
                gymnasium=c.gymnasium,
                processes=c.machine.env_processes,
                seed=seed,
                frame_stack=c.frame_stack,
                copy=False,
            )
            self.pools[split] = Pool(envs, seed)
        return self.pools[split]


def rows_of(episodes: dict[str, list[Episode]], frames: int) -> Iterator[dict[str, Any]]:
    """One row per episode, for the log of them."""
    for split, records in episodes.items():
        for record in records:
            yield {"frames": frames, "split": split, **record._asdict()}


def summarise(episodes: dict[str, list[Episode]]) -> dict[str, float]:
    """Mean raw return, its standard error and the share of solved levels, for each split."""
    result: dict[str, float] = {}
    for split, records in episodes.items():
        scores = np.array([record.score for record in records])
        result[f"{split}_return"] = float(scores.mean())
        spread = scores.std(ddof=1) if len(scores) > 1 else float("nan")
        result[f"{split}_stderr"] = float(spread / np.sqrt(len(scores)))
        result[f"{split}_solved"] = float(np.mean([r.outcome == "solved" for r in records]))
        result[f"{split}_length"] = float(np.mean([record.length for record in records]))
    return result
