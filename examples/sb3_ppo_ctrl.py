"""CTRL in Stable-Baselines3's PPO: a pass of its own after each update of the policy.

What to copy: `Anchor`, `CTRLPPO` and `CTRLCallback`, all from here to `main`. Then

    model = CTRLPPO("CnnPolicy", env, ...)                  # instead of PPO("CnnPolicy", env, ...)
    model.learn(1_000_000, callback=CTRLCallback())         # without the callback it is PPO itself
    model.save("agent"); model = CTRLPPO.load("agent", env)

The file of `save` holds CTRL's heads, its Adam and its random generator as well. The figures are in
SB3's logger under `ctrl/`; as those of `train/` they appear with the log of the next rollout.
To see it run on MiniGrid: pip install '.[recipes]' && python examples/sb3_ppo_ctrl.py
"""

import copy
import sys
from typing import Any

import torch
from minigrid.wrappers import ImgObsWrapper
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn
from torch.distributions import Categorical, kl_divergence

import crosstraj as ct


class Anchor:
    """An encoder that remembers what CTRL read, and a policy that must not change there.

    The loss is KL(before || now) + (V_before - V)^2 / 2: encoder and heads may move together, but
    the policy may not (as in PPG's auxiliary phase; Cobbe et al., 2021).
    """

    def __init__(self, policy: ActorCriticPolicy) -> None:
        parts = (policy.features_extractor, policy.mlp_extractor, policy.action_net)
        self.now = nn.ModuleList([*parts, policy.value_net])
        self.before = copy.deepcopy(self.now)  # of the whole policy SB3 allows no copy here
        self.read: list[tuple[Tensor, Tensor]] = []

    def __call__(self, frames: Tensor) -> Tensor:
        """[B, H, W, C] uint8 -> [B, D]."""
        features = ct.FrameEncoder(self.now[0])(frames)
        self.read.append((frames, features))
        return features

    def loss(self) -> Tensor:
        """Of all that was read since this was last asked."""
        frames, features = (torch.cat(parts) for parts in zip(*self.read, strict=True))
        self.read.clear()
        with torch.no_grad():
            before, value_before = self.heads(self.before, ct.FrameEncoder(self.before[0])(frames))
        now, value = self.heads(self.now, features)
        return kl_divergence(before, now).mean() + 0.5 * (value_before - value).square().mean()

    def heads(self, policy: nn.ModuleList, features: Tensor) -> tuple[Categorical, Tensor]:
        """The actions' probabilities, and the value [B, 1]."""
        _, latent, action, value = policy
        for_action, for_value = latent(features)
        return Categorical(logits=action(for_action)), value(for_value)


class CTRLPPO(PPO):
    """SB3's PPO with CTRL's heads and an Adam for its steps; policy and value share one encoder."""

    def __init__(
        self,
        *args: Any,
        ctrl_config: ct.CTRLConfig = ct.CTRLConfig(clusters=32),  # noqa: B008  # frozen
        ctrl_rate: float = 5e-4,
        **kwargs: Any,
    ) -> None:
        self.ctrl_config, self.ctrl_rate = ctrl_config, ctrl_rate  # plain values: SB3 saves them
        super().__init__(*args, **kwargs)

    def _setup_model(self) -> None:
        super()._setup_model()
        sizes = {"features": self.policy.features_dim, "actions": int(self.action_space.n)}
        self.ctrl = ct.CTRL(self.ctrl_config, **sizes, seed=self.seed or 0).to(self.device)
        self.ctrl.attach(ct.FrameEncoder(self.policy.features_extractor))  # for a target_decay
        # Not policy.optimizer: two losses that take turns in one Adam blur each other's moments.
        both = [*self.policy.parameters(), *self.ctrl.parameters()]
        self.ctrl_optimizer = torch.optim.Adam(both, lr=self.ctrl_rate, eps=1e-5)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, variables = super()._get_torch_save_params()
        return [*names, "ctrl", "ctrl_optimizer"], variables

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "ctrl", "ctrl_optimizer"]


class CTRLCallback(BaseCallback):
    """Keeps each rollout, lets PPO learn from it first, and then takes CTRL's steps on it."""

    def __init__(self, minibatches: int = 8, anchor_weight: float = 1.0) -> None:
        super().__init__()
        self.minibatches, self.anchor_weight = minibatches, anchor_weight
        self.play: ct.Trajectories | None = None

    def _on_rollout_end(self) -> None:
        kept = self.model.rollout_buffer  # whose arrays are replaced later, and not written over
        self.play = ct.Trajectories.of(
            kept.observations, kept.actions, starts=kept.episode_starts, time_first=True
        )

    def _on_rollout_start(self) -> None:  # PPO has learnt from the rollout before
        if self.play is not None:
            self.learn(self.play)
            self.play = None

    _on_training_end = _on_rollout_start  # and from the last one

    def _on_step(self) -> bool:
        return True

    def learn(self, play: ct.Trajectories) -> None:
        model, owned = self.model, self.model.ctrl_optimizer.param_groups[0]["params"]
        model.policy.set_training_mode(True)  # callbacks find it in evaluation mode
        anchor = Anchor(model.policy)
        for batch in model.ctrl.minibatches(play, self.minibatches):
            loss, evidence = model.ctrl(anchor, batch)
            moved = anchor.loss()
            model.ctrl_optimizer.zero_grad()
            (loss + self.anchor_weight * moved).backward()
            nn.utils.clip_grad_norm_(owned, model.max_grad_norm, error_if_nonfinite=True)
            model.ctrl_optimizer.step()
            model.ctrl.after_step()
            for name, figure in {"loss": loss, "anchor": moved, **evidence}.items():
                self.logger.record_mean(f"ctrl/{name}", figure.item())
        model.ctrl_optimizer.zero_grad()
        model.policy.set_training_mode(False)
        for name, number in model.ctrl.figures().items():
            self.logger.record(f"ctrl/{name}", number)


# The first part makes Gymnasium import a module, which registers MiniGrid in pixels, 64 x 64 x 3.
ENV = "crosstraj.envs.minigrid_pixels:crosstraj/MiniGrid-DoorKey-5x5-v0"


def main(frames: int = 50_000, n_envs: int = 8, seed: int = 0, **values: Any) -> CTRLPPO:
    env = make_vec_env(ENV, n_envs, seed=seed, wrapper_class=ImgObsWrapper)
    values = {"n_steps": 128, "batch_size": 256, "n_epochs": 3, "verbose": 1} | values
    return CTRLPPO("CnnPolicy", env, seed=seed, **values).learn(frames, CTRLCallback())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))  # how many frames
