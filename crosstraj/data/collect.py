"""How rollouts are collected from environments."""

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosstraj.data.rollout import Actor, Decision, Remembered, Rollout
from crosstraj.data.skills import Followed, Skills
from crosstraj.envs import began_anew, level_seeds, savable
from crosstraj.randomness import ENVIRONMENTS, derived_seed


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
        memory: int = 0,
    ) -> None:
        """memory: how many numbers the agent remembers of each open episode."""
        self.envs, self.steps, self.skills, self.seed, self.rng = envs, steps, skills, seed, rng
        first, info = envs.reset(seed=derived_seed(seed, ENVIRONMENTS))
        n = envs.num_envs
        self.recent: deque[float] = deque(maxlen=100)  # returns of the last finished episodes
        self.episodes = 0
        self.continued = True  # False: a checkpoint's episodes could not be gone on with

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
            memory=room(steps + 1, n, memory),
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
        memory = self.rollout.memory
        self.remembered = Remembered(memory.shape[-1], n, memory.device)

    def collect(self, agent: Actor) -> Rollout:
        """The next S steps. The returned tensors are overwritten by the next call."""
        rollout = self.rollout
        self.first = self.followed.time == 0  # [N] does an episode begin with this rollout?
        rollout.obs[0], rollout.context[0] = rollout.obs[-1], rollout.context[-1]
        for t in range(self.steps):
            rollout.memory[t] = self.remembered.state
            decision = agent.act(
                self.remembered.before(rollout.obs[t]), rollout.context[t], self.rng
            )
            rollout.level[t] = torch.from_numpy(self.level)
            rollout.action[t], rollout.log_prob[t] = decision.action, decision.log_prob
            rollout.value[t], rollout.features[t] = decision.value, decision.features
            self._step(agent, t, decision)
        rollout.memory[-1] = self.remembered.state
        last = self.remembered.before(rollout.obs[-1])
        rollout.value[-1], rollout.features[-1] = agent.judge(last, rollout.context[-1])
        return rollout

    def _step(self, agent: Actor, t: int, decision: Decision) -> None:
        rollout = self.rollout
        obs, reward, terminated, truncated, info = self.envs.step(decision.action.cpu().numpy())
        self.remembered.keep(decision)
        done = terminated | truncated
        rollout.obs[t + 1] = torch.from_numpy(obs)
        rollout.reward[t] = torch.from_numpy(np.asarray(reward, np.float32))
        rollout.done[t] = torch.from_numpy(done)
        rollout.final_value[t] = self._value_of_last_frames(agent, t, terminated, truncated, info)
        rollout.context[t + 1] = self.followed.step(rollout.done[t], self.rng)
        self.remembered.forget(rollout.done[t])
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
            last = self.remembered.before(frames.to(value.device), rows)  # not yet forgotten
            value[rows], _ = agent.judge(last, self.rollout.context[t, rows])
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
        if self.remembered.state.shape[1]:
            state["memory"] = self.remembered.state
        return state | ({"envs": self.envs.get_state()} if savable(self.envs) else {})  # type: ignore[attr-defined]  # savable() has checked

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.recent = deque(state["recent"], maxlen=self.recent.maxlen)
        self.episodes = state["episodes"]
        self.continued = False
        if not savable(self.envs):  # new episodes, which the run says in words
            obs, info = self.envs.reset(
                seed=derived_seed(self.seed, ENVIRONMENTS, self.episodes + 1)
            )
            self._begin(obs, info)
            return
        arrays = {name: array.numpy() for name, array in state["envs"].items()}
        obs, info = self.envs.set_state(arrays)  # type: ignore[attr-defined]  # savable() has checked
        if began_anew(info):
            self._begin(obs, info)
            return
        self.continued = True
        self.rollout.obs[-1], self.rollout.context[-1] = state["obs"], state["context"]
        if self.skills.context:
            self.followed.context = self.rollout.context[-1].clone()
            self.followed.time = state["episode_time"]
        if self.remembered.state.shape[1]:
            self.remembered.state[:] = state["memory"]
        self.level = state["level"].numpy().copy()
        self.episode_return = state["episode_return"].numpy().copy()
