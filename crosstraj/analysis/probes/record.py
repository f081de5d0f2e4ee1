"""The expert's play: frames, its action distribution in them, and whether a reward follows soon.

Some actions are drawn uniformly, so that the frames are not those of perfect play alone. Only every
so-many-th step is kept: neighbouring frames are nearly the same. Procgen resets inside the step
that ends an episode, so the frame after `done` is of the next level, and no label looks across it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor

from crosstraj.envs import level_seeds
from crosstraj.learning.evaluation import Pool
from crosstraj.policies.agent import Agent

HORIZON = 10  # steps within which a reward is soon, the frame's own among them


class Recording(NamedTuple):
    frames: NDArray[np.uint8]  # [n, H, W, C]
    log_probs: NDArray[np.float64]  # [n, actions] the expert's
    level: NDArray[np.int64]  # [n] below 0: an episode's own number, where there are no levels
    soon: NDArray[np.bool_]  # [n] a reward above 0 within HORIZON steps of the same episode

    def take(self, rows: NDArray[np.bool_]) -> "Recording":
        columns: list[Any] = [column[rows] for column in self]
        return Recording(*columns)


def reward_soon(
    reward: NDArray[np.float64], done: NDArray[np.bool_], horizon: int
) -> NDArray[np.bool_]:
    """Is a reward of steps t ... t + horizon - 1 of the same episode above 0?

    [S, N] -> [S - horizon + 1, N]: the last positions, whose windows are cut, have no label.
    """
    count = len(reward) - horizon + 1
    soon, alive = np.zeros(reward[:count].shape, bool), np.ones(reward[:count].shape, bool)
    for ahead in range(horizon):
        soon |= alive & (reward[ahead : ahead + count] > 0)
        alive &= ~done[ahead : ahead + count]
    return soon


def record(
    pool: Pool,
    expert: Agent,
    count: int,
    *,
    every: int,
    random: float,
    rng: torch.Generator,
    device: torch.device,
    shown: Callable[[int], None] = lambda count: None,
) -> Recording:
    """`count` frames of each environment, one from every `every` steps; flat, time before env."""
    envs, steps = pool.envs.num_envs, (count - 1) * every + HORIZON
    obs, level = pool.rewind()
    film = np.empty((count, *obs.shape), np.uint8)
    reward, done = np.zeros((steps, envs)), np.zeros((steps, envs), bool)
    played = np.zeros((steps, envs), np.int64)
    episode = np.arange(envs)
    opinions = []
    for t in range(steps):
        log_probs = opinion(expert, torch.from_numpy(obs).to(device)).cpu()
        played[t] = np.where(level >= 0, level, -1 - episode)
        if t % every == 0 and t // every < count:
            film[t // every] = obs
            opinions.append(log_probs.double().numpy())
            shown(envs)
        action = draw(log_probs, random, rng).numpy()
        obs, reward[t], terminated, truncated, info = pool.envs.step(action)
        done[t] = terminated | truncated
        episode += envs * done[t]
        level = level_seeds(info, envs)
    kept = slice(0, (count - 1) * every + 1, every)
    return Recording(
        frames=film.reshape(count * envs, *obs.shape[1:]),
        log_probs=np.asarray(log_softmax(np.concatenate(opinions), axis=1)),  # exact in float64
        level=played[kept].ravel(),
        soon=reward_soon(reward, done, HORIZON)[kept].ravel(),
    )


@torch.inference_mode()
def opinion(expert: Agent, frames: Tensor) -> Tensor:
    """The expert's log-probabilities of all actions in each frame."""
    features = expert.read(expert.encoder, frames)
    return expert.decide(frames, features, features.new_zeros(len(frames), 0))[0]


def draw(log_probs: Tensor, random: float, rng: torch.Generator) -> Tensor:
    """One action per row: the expert's, or with probability `random` any. [N, K] -> [N]."""
    count, actions = log_probs.shape
    own = log_probs.exp().multinomial(1, generator=rng).squeeze(1)
    anything = torch.randint(actions, (count,), generator=rng)
    return torch.where(torch.rand(count, generator=rng) < random, anything, own)
