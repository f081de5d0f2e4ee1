"""Who is timed on the same work: our loop, Stable-Baselines3 and a textbook PyTorch loop.

The peers are what their users would write: default memory format, whole minibatches.
"""

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
import torch.nn.functional as F
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from crosstraj.config.values import Config
from crosstraj.data.advantages import gae
from crosstraj.envs import ProcgenConfig, make_envs
from crosstraj.learning.state import Training
from crosstraj.loop import learn
from crosstraj.nn.encoders import IMPALA, Residual, convolution
from crosstraj.nn.heads import linear

GAME, ENVS, STEPS, MINIBATCHES = "bigfish", 32, 256, 8


class Ours:
    """One turn of our loop, with the time that each part takes."""

    def __init__(self, config: Config) -> None:
        self.config, self.training = config, Training(config)
        self.spent: dict[str, float] = {}
        training = self.training
        self._time(training.envs, "step", "environment")
        self._time(training.learner.agent, "act", "acting")
        self._time(training.learner, "update_objective", "objective")
        self._time(training.learner, "update_policy", "policy")
        self._time(training.learner, "update_jointly", "policy")  # both losses in one pass

    def _time(self, owner: Any, name: str, label: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            result = inner(*args, **kwargs)
            self.spent[label] = self.spent.get(label, 0.0) + time.perf_counter() - began
            return result

        setattr(owner, name, timed)

    @property
    def frames(self) -> int:
        return self.config.rollout_frames

    def turn(self) -> dict[str, float]:
        """Play and learn once; seconds by part, and in all."""
        self.spent.clear()
        began = time.perf_counter()
        learn(self.training)
        total = time.perf_counter() - began
        return {**self.spent, "rest": total - sum(self.spent.values()), "total": total}


class PlainImpala(nn.Module):
    """The same layers and initialisation as ours, in PyTorch's default memory format."""

    def __init__(self, rng: torch.Generator) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for channels in IMPALA.channels:
            layers += [
                convolution(inputs, channels, 1, rng),
                nn.MaxPool2d(3, stride=2, padding=1),
                Residual(channels, rng),
                Residual(channels, rng),
            ]
            inputs = channels
        self.stages = nn.Sequential(*layers)
        self.last = linear(2048, 256, 2**0.5, rng)

    def forward(self, images: Tensor) -> Tensor:
        return F.relu(self.last(F.relu(self.stages(images)).flatten(1)))


def _rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _envs() -> Any:
    return make_envs(GAME, ENVS, levels="train", procgen=ProcgenConfig(), seed=0)


class SB3Envs(VecEnv):
    """Our Procgen environments behind Stable-Baselines3's interface."""

    def __init__(self) -> None:
        self.inner = _envs()
        self.inner.reset()
        super().__init__(ENVS, self.inner.single_observation_space, self.inner.single_action_space)

    def reset(self) -> Any:
        return self.inner.reset()[0]

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        obs, reward, done, _, _ = self.inner.step(self.actions)
        infos: list[dict[str, Any]] = [{} for _ in range(ENVS)]
        return obs, reward.astype(np.float32), done, infos

    def close(self) -> None:
        self.inner.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * ENVS

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * ENVS


class Extractor(BaseFeaturesExtractor):
    def __init__(self, observation_space: gymnasium.Space[Any]) -> None:
        super().__init__(observation_space, 256)
        self.net = PlainImpala(_rng())

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images)  # Stable-Baselines3 has divided by 255


class Silent(BaseCallback):
    def _on_step(self) -> bool:
        return True


class StableBaselines3:
    """PPO from the registry, with a plain IMPALA module as its features extractor."""

    def __init__(self, steps: int = STEPS) -> None:
        self.steps, self.frames = steps, ENVS * steps
        self.model = PPO(
            "CnnPolicy",
            SB3Envs(),
            n_steps=steps,
            batch_size=self.frames // MINIBATCHES,
            n_epochs=1,
            learning_rate=5e-4,
            gamma=0.999,
            ent_coef=0.01,
            clip_range_vf=0.2,
            device="cpu",
            policy_kwargs={"features_extractor_class": Extractor, "net_arch": []},
        )
        _, self.callback = self.model._setup_learn(10**9, Silent())

    def turn(self) -> dict[str, float]:
        began = time.perf_counter()
        model = self.model
        assert model.env is not None
        model.collect_rollouts(model.env, self.callback, model.rollout_buffer, self.steps)
        model._update_current_progress_remaining(0, 10**9)
        model.train()
        return {"total": time.perf_counter() - began}


class Textbook:
    """The PPO loop that tutorials print: float frames, channels first, whole minibatches."""

    def __init__(self, steps: int = STEPS) -> None:
        self.steps, self.frames = steps, ENVS * steps
        rng = _rng()
        self.envs, self.net = _envs(), PlainImpala(rng)
        self.policy, self.value = linear(256, 15, 0.01, rng), linear(256, 1, 1.0, rng)
        parameters = [*self.net.parameters(), *self.policy.parameters(), *self.value.parameters()]
        self.parameters = parameters
        self.adam = torch.optim.Adam(parameters, lr=5e-4, eps=1e-5)
        self.obs, _ = self.envs.reset()

    def _heads(self, images: Tensor) -> tuple[torch.distributions.Categorical, Tensor]:
        features = self.net(images / 255)
        distribution = torch.distributions.Categorical(logits=self.policy(features))
        return distribution, self.value(features).squeeze(-1)

    def turn(self) -> dict[str, float]:
        began, steps = time.perf_counter(), self.steps
        images = torch.zeros(steps + 1, ENVS, 3, 64, 64)
        action = torch.zeros(steps, ENVS, dtype=torch.int64)
        log_prob, reward = torch.zeros(steps, ENVS), torch.zeros(steps, ENVS)
        value, done = torch.zeros(steps + 1, ENVS), torch.zeros(steps, ENVS, dtype=torch.bool)
        with torch.no_grad():
            for t in range(steps):
                images[t] = torch.as_tensor(self.obs).permute(0, 3, 1, 2).float()
                distribution, value[t] = self._heads(images[t])
                action[t] = distribution.sample()
                log_prob[t] = distribution.log_prob(action[t])
                self.obs, r, d, _, _ = self.envs.step(action[t].numpy())
                reward[t], done[t] = torch.as_tensor(r), torch.as_tensor(d)
            images[-1] = torch.as_tensor(self.obs).permute(0, 3, 1, 2).float()
            value[-1] = self._heads(images[-1])[1]
        none = torch.zeros_like(reward)
        advantage = gae(reward, value, done, none, discount=0.999, trace=0.95)
        target = (advantage + value[:-1]).flatten()
        flat = images[:-1].flatten(0, 1)
        actions, old, before = action.flatten(), log_prob.flatten(), value[:-1].flatten()
        for index in torch.randperm(self.frames).chunk(MINIBATCHES):
            distribution, values = self._heads(flat[index])
            ratio = (distribution.log_prob(actions[index]) - old[index]).exp()
            a = advantage.flatten()[index]
            a = (a - a.mean()) / (a.std() + 1e-8)
            surrogate = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
            near = before[index] + (values - before[index]).clamp(-0.2, 0.2)
            error = torch.max((values - target[index]) ** 2, (near - target[index]) ** 2).mean()
            loss = surrogate + 0.25 * error - 0.01 * distribution.entropy().mean()
            self.adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters, 0.5)
            self.adam.step()
        return {"total": time.perf_counter() - began}
