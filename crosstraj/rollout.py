"""A rollout: what the agent saw, did and got; how it is collected, how rewards are scaled, and GAE.

`done[t]` means that the action taken at t ended the episode. Procgen resets inside that very step,
so `obs[t + 1]` is then the first frame of the next level.
"""

from collections import deque
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosstraj.envs import level_seeds, savable
from crosstraj.errors import NonFinite
from crosstraj.randomness import ENVIRONMENTS, derived_seed
from crosstraj.skills import Followed, Skills
from crosstraj.views import fragments


class Rollout(NamedTuple):
    obs: Tensor  # [S+1, N, H, W, C] uint8; the last row is where the next rollout starts
    action: Tensor  # [S, N] int64
    reward: Tensor  # [S, N] raw as collected; scaled as learnt from
    done: Tensor  # [S, N] bool
    level: Tensor  # [S, N] int64, the level being played; -1 where there are no levels
    log_prob: Tensor  # [S, N] of the action, under the policy that took it
    value: Tensor  # [S+1, N]
    final_value: Tensor  # [S, N] value of the last frame where time ran out; 0 elsewhere
    features: Tensor  # [S+1, N, D] what the heads read when acting
    context: Tensor  # [S+1, N, X] skills; X = 0 for most methods

    def frames(self) -> Tensor:
        """The S * N frames in which an action was taken, flat: [S * N, H, W, C]."""
        return self.obs[:-1].flatten(0, 1)

    def group(self) -> Tensor:
        """[S, N] the level of each step, or where there are none a number for its fragment."""
        return torch.where(self.level >= 0, self.level, -1 - fragments(self.done))


def gae(
    reward: Tensor,
    value: Tensor,
    done: Tensor,
    final_value: Tensor,
    *,
    discount: float,
    trace: float,
) -> Tensor:
    """Generalised advantage estimates [S, N] (Schulman et al., 2016).

    Nothing flows over an episode's end; an episode that ran out of time is worth what its last
    frame was (`final_value`), one that ended is worth nothing more.
    """
    advantage = torch.zeros_like(reward)
    carried = torch.zeros_like(reward[0])
    for t in reversed(range(len(reward))):
        alive = 1.0 - done[t].float()
        following = alive * value[t + 1] + final_value[t]
        carried = reward[t] + discount * following - value[t] + discount * trace * alive * carried
        advantage[t] = carried
    return advantage


class RewardNormaliser:
    """Scales rewards by the spread of a running discounted return, as OpenAI's VecNormalize.

    Per step: returns grow, their variance is updated, the reward is scaled by it and clipped, and
    only then are the returns of ended episodes forgotten. The mean is not subtracted.
    """

    def __init__(self, envs: int, *, discount: float = 0.99, clip: float = 10.0) -> None:
        # 0.99, not PPO's 0.999: what train-procgen, PPG, IDAAC and the released CTRL use.
        self.discount, self.clip = discount, clip
        self.returns = np.zeros(envs, np.float64)
        self.mean, self.variance, self.count = 0.0, 1.0, 1e-4

    def __call__(self, reward: Tensor, done: Tensor) -> Tensor:
        """Raw rewards and dones [S, N] -> rewards for learning [S, N]."""
        if not reward.isfinite().all():
            raise NonFinite("a reward is not finite")
        raw, ended = reward.cpu().numpy().astype(np.float64), done.cpu().numpy()
        scaled = np.empty_like(raw)
        for t in range(len(raw)):
            self.returns = self.discount * self.returns + raw[t]
            self._merge(self.returns)
            scale = np.sqrt(self.variance + 1e-8)
            scaled[t] = np.clip(raw[t] / scale, -self.clip, self.clip)
            self.returns[ended[t]] = 0.0
        return torch.from_numpy(scaled).to(reward)

    def _merge(self, batch: NDArray[np.float64]) -> None:
        """Chan's parallel update of mean and population variance."""
        size, total = len(batch), self.count + len(batch)
        delta = float(batch.mean()) - self.mean
        squares = self.variance * self.count + float(batch.var()) * size
        self.variance = (squares + delta**2 * self.count * size / total) / total
        self.mean += delta * size / total
        self.count = total

    def state_dict(self) -> dict[str, Any]:
        return {
            "returns": torch.from_numpy(self.returns.copy()),
            "mean": self.mean,
            "variance": self.variance,
            "count": self.count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.returns = state["returns"].numpy().copy()
        self.mean, self.variance, self.count = state["mean"], state["variance"], state["count"]


class Decision(NamedTuple):
    action: Tensor  # [N] int64
    log_prob: Tensor  # [N]
    value: Tensor  # [N]
    features: Tensor  # [N, D]


class Actor(Protocol):
    """What the collector needs of an agent."""

    def act(self, frames: Tensor, context: Tensor, rng: torch.Generator) -> Decision: ...

    def judge(self, frames: Tensor, context: Tensor) -> tuple[Tensor, Tensor]: ...


class Collector:
    """Plays S steps at a time into one preallocated rollout, and remembers where it stopped."""

    def __init__(
        self,
        envs: gym.vector.VectorEnv[Any, Any, Any],
        steps: int,
        features: int,
        skills: Skills,
        seed: int,
        rng: torch.Generator,
        device: torch.device,
    ) -> None:
        self.envs, self.steps, self.skills, self.seed, self.rng = envs, steps, skills, seed, rng
        first, info = envs.reset(seed=derived_seed(seed, ENVIRONMENTS))
        n = envs.num_envs
        self.recent: deque[float] = deque(maxlen=100)  # returns of the last finished episodes
        self.episodes = 0

        def room(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self.rollout = Rollout(
            obs=room(steps + 1, *first.shape, dtype=torch.uint8),
            action=room(steps, n, dtype=torch.int64),
            reward=room(steps, n),
            done=room(steps, n, dtype=torch.bool),
            level=room(steps, n, dtype=torch.int64),
            log_prob=room(steps, n),
            value=room(steps + 1, n),
            final_value=room(steps, n),
            features=room(steps + 1, n, features),
            context=room(steps + 1, n, skills.context),
        )
        self._begin(first, info)

    def _begin(self, obs: NDArray[np.uint8], info: dict[str, Any]) -> None:
        """New episodes everywhere, from these frames on."""
        n = self.envs.num_envs
        self.rollout.obs[-1] = torch.from_numpy(obs)
        self.level = level_seeds(info, n)
        self.episode_return = np.zeros(n, np.float64)
        self.followed = Followed(self.skills, n, self.rollout.context.device, self.rng)
        self.rollout.context[-1] = self.followed.context

    def collect(self, agent: Actor) -> Rollout:
        """The next S steps. The returned tensors are overwritten by the next call."""
        rollout = self.rollout
        self.first = self.followed.time == 0  # [N] does an episode begin with this rollout?
        rollout.obs[0], rollout.context[0] = rollout.obs[-1], rollout.context[-1]
        for t in range(self.steps):
            decision = agent.act(rollout.obs[t], rollout.context[t], self.rng)
            rollout.level[t] = torch.from_numpy(self.level)
            rollout.action[t], rollout.log_prob[t] = decision.action, decision.log_prob
            rollout.value[t], rollout.features[t] = decision.value, decision.features
            self._step(agent, t, decision.action.cpu().numpy())
        rollout.value[-1], rollout.features[-1] = agent.judge(rollout.obs[-1], rollout.context[-1])
        return rollout

    def _step(self, agent: Actor, t: int, action: NDArray[np.int64]) -> None:
        rollout = self.rollout
        obs, reward, terminated, truncated, info = self.envs.step(action)
        done = terminated | truncated
        rollout.obs[t + 1] = torch.from_numpy(obs)
        rollout.reward[t] = torch.from_numpy(np.asarray(reward, np.float32))
        rollout.done[t] = torch.from_numpy(done)
        rollout.final_value[t] = self._value_of_last_frames(agent, t, terminated, truncated, info)
        rollout.context[t + 1] = self.followed.step(rollout.done[t], self.rng)
        self.level = level_seeds(info, len(done))
        self.episode_return += reward
        for index in np.flatnonzero(done):
            self.recent.append(float(self.episode_return[index]))
            self.episodes += 1
            self.episode_return[index] = 0.0

    def _value_of_last_frames(
        self,
        agent: Actor,
        t: int,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        info: dict[str, Any],
    ) -> Tensor:
        """Where time ran out the return goes on: V of the true last frame. Never in Procgen."""
        value = torch.zeros_like(self.rollout.final_value[t])
        rows = np.flatnonzero(truncated & ~terminated)
        if len(rows):
            frames = torch.from_numpy(np.stack([info["final_obs"][row] for row in rows]))
            value[rows], _ = agent.judge(frames.to(value.device), self.rollout.context[t, rows])
        return value

    def mean_return(self) -> dict[str, float]:
        """Mean raw return of the last 100 finished training episodes; nothing before the first."""
        return {"train_return": float(np.mean(self.recent))} if self.recent else {}

    def state_dict(self) -> dict[str, Any]:
        state = {
            "obs": self.rollout.obs[-1],
            "context": self.rollout.context[-1],
            "level": torch.from_numpy(self.level),
            "episode_return": torch.from_numpy(self.episode_return),
            "recent": list(self.recent),
            "episodes": self.episodes,
        }
        if self.skills.context:
            state["episode_time"] = self.followed.time
        return state | ({"envs": self.envs.get_state()} if savable(self.envs) else {})  # type: ignore[attr-defined]  # savable() has checked

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.recent = deque(state["recent"], maxlen=self.recent.maxlen)
        self.episodes = state["episodes"]
        if not savable(self.envs):  # new episodes, which the run says in words
            obs, info = self.envs.reset(
                seed=derived_seed(self.seed, ENVIRONMENTS, self.episodes + 1)
            )
            self._begin(obs, info)
            return
        arrays = {name: array.numpy() for name, array in state["envs"].items()}
        self.envs.set_state(arrays)  # type: ignore[attr-defined]  # savable() has checked
        self.rollout.obs[-1], self.rollout.context[-1] = state["obs"], state["context"]
        if self.skills.context:
            self.followed.context = self.rollout.context[-1].clone()
            self.followed.time = state["episode_time"]
        self.level = state["level"].numpy().copy()
        self.episode_return = state["episode_return"].numpy().copy()
