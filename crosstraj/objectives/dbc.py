"""DBC: features as far apart as rewards and transitions differ (Zhang et al., ICLR 2021).

The distance of two latents must be the difference of their rewards plus the discounted distance of
where a learnt model sends them: a bisimulation metric. Differs: PPO instead of SAC, one-hot
actions, layer norm in this branch only (the policy reads features as they are), and an encoder that
the metric alone trains: the model's own losses fold its features (docs/methods.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, assert_never

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crosstraj.data.rollout import Played
from crosstraj.data.within_episodes import Stretches, windows
from crosstraj.errors import check_range
from crosstraj.health.complaints import collapse_of_latents
from crosstraj.nn.heads import linear
from crosstraj.nn.memory import Frames
from crosstraj.objectives.base import Metrics, Objective, ObjectiveConfig
from crosstraj.objectives.method import Method

LEAST_SPREAD, MOST_SPREAD = 1e-4, 10.0  # bounds on the model's sigma (authors' code)


@dataclass(frozen=True)
class DBCConfig(ObjectiveConfig):
    """DBC's own values, from the authors' code but for `model_trains_encoder`."""

    distance: Literal["elementwise", "l1"] = "elementwise"
    """Smooth-L1 distance per feature (the authors' code), or summed over features (paper)."""
    discount: float = 0.99
    """Discount factor of the bisimulation metric, whose scale grows as 1 / (1 - discount)."""
    bisimulation_weight: float = 0.5
    """Weight of the bisimulation loss; the transition and reward losses have weight 1."""
    layer_norm: bool = True
    """Apply layer norm to features before comparing them, as the source's encoder does."""
    hidden: int = 512
    """Hidden width of the transition model and the reward head."""
    model_trains_encoder: bool = False
    """Train the encoder by the transition and reward losses, too, not by the metric alone. The
    authors'
    code does, and so does the preset `paper`; here the features then fold (docs/methods.md)."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "discount", at_least=0, below=1)
        check_range(self, "objective.", "hidden", at_least=1)

    def needs(self) -> tuple[int, str]:
        return 2, "a transition"

    def complaints(self, metrics: dict[str, float]) -> dict[str, str | None]:
        return {"collapse": collapse_of_latents(metrics)}


class Batch(NamedTuple):
    frames: Frames  # [F, H, W, C] uint8
    action: Tensor  # [F] int64
    reward: Tensor  # [F] as the policy learns from it
    now: Tensor  # [B] positions of frames whose next frame is here, in the same episode
    later: Tensor  # [B] positions of those next frames


class Gaussian(NamedTuple):
    mean: Tensor  # [B, D]
    spread: Tensor  # [B, D] standard deviation


class Model(nn.Module):
    """Where action a leads from latent z: a Gaussian with a spread of its own per feature."""

    def __init__(self, features: int, actions: int, hidden: int, rng: torch.Generator) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            linear(features + actions, hidden, 2**0.5, rng), nn.LayerNorm(hidden), nn.ReLU()
        )
        self.mean = linear(hidden, features, 1.0, rng)
        self.spread = linear(hidden, features, 1.0, rng)

    def forward(self, latent: Tensor, action: Tensor) -> Gaussian:
        inner = self.trunk(torch.cat([latent, action], dim=-1))
        share = torch.sigmoid(self.spread(inner))
        return Gaussian(self.mean(inner), LEAST_SPREAD + (MOST_SPREAD - LEAST_SPREAD) * share)


class DBC(Objective):
    reads_stretches = True

    def __init__(
        self, config: DBCConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config, self.actions = config, actions
        self.norm = nn.LayerNorm(features) if config.layer_norm else nn.Identity()
        self.model = Model(features, actions, config.hidden, rng)
        self.reward_head = nn.Sequential(
            linear(features, config.hidden, 2**0.5, rng),
            nn.LayerNorm(config.hidden),
            nn.ReLU(),
            linear(config.hidden, 1, 1.0, rng),
        )

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        for frame, position, valid in windows(rollout.done.cpu(), count, 2, 1, rng):
            yield batch_of(rollout, frame, position[valid[:, 1], 0])

    def batch(self, rollout: Played, minibatch: Stretches, rng: torch.Generator) -> Batch:
        followed = minibatch.stretch[:-1] == minibatch.stretch[1:]
        return batch_of(rollout, minibatch.frame, followed.nonzero().squeeze(1))

    def loss_of(
        self, features: Tensor, batch: Batch, rng: torch.Generator
    ) -> tuple[Tensor, Metrics]:
        latent = self.norm(features)
        action = F.one_hot(batch.action, self.actions).to(latent)
        # All that the model and the reward head learn from passes here, and nothing of the metric.
        read = latent if self.config.model_trains_encoder else latent.detach()
        expected = self.model(read, action)

        # A step that ended its episode has no next frame, yet its reward is real: in many games it
        # is the only one. So the likelihood leaves such steps out, and the other two do not.
        with torch.no_grad():
            true = latent.index_select(0, batch.later)
        likelihood = gaussian_nll(
            Gaussian(*(field.index_select(0, batch.now) for field in expected)), true
        )
        noise = torch.randn(latent.shape, generator=rng).to(latent)
        imagined = self.reward_head(expected.mean + expected.spread * noise).squeeze(-1)
        reward_error = F.mse_loss(imagined, batch.reward)

        other = torch.randperm(len(latent), generator=rng).to(latent.device)
        bisimulation, distance = self.bisimulation(latent, batch.reward, expected, other)

        loss = self.config.bisimulation_weight * bisimulation + likelihood + reward_error
        return loss, {
            "bisimulation": bisimulation,
            "likelihood": likelihood,
            "reward_error": reward_error,
            "latent_distance": distance,
            "latent_std": latent.detach().std(0, correction=0).mean(),
        }

    def bisimulation(
        self, latent: Tensor, reward: Tensor, expected: Gaussian, other: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The squared error of distances between i and other[i], and their mean."""
        c = self.config
        partner = latent.index_select(0, other)
        with torch.no_grad():
            partner_reward = reward.index_select(0, other)
            mean, spread = (field - field.index_select(0, other) for field in expected)
        match c.distance:
            case "elementwise":  # [B, D], the reward's the same for each feature
                distance = F.smooth_l1_loss(latent, partner, reduction="none")
                gap = F.smooth_l1_loss(reward, partner_reward, reduction="none")[:, None]
                transition = (mean.square() + spread.square()).sqrt()
            case "l1":  # [B], with the 2-Wasserstein distance between the Gaussians
                distance = (latent - partner).abs().sum(-1)
                gap = (reward - partner_reward).abs()
                transition = (mean.square() + spread.square()).sum(-1).sqrt()
            case never:
                assert_never(never)
        error = distance - gap - c.discount * transition
        return error.square().mean(), distance.detach().mean()


def batch_of(rollout: Played, frame: Tensor, now: Tensor) -> Batch:
    """frame: [F] flat indices into the rollout; now: [B] positions there that have a next frame."""
    place, now = frame.to(rollout.done.device), now.to(rollout.done.device)
    return Batch(
        rollout.frames().index_select(0, place),
        rollout.action.flatten().index_select(0, place),
        rollout.reward.flatten().index_select(0, place),
        now,
        now + 1,
    )


def gaussian_nll(expected: Gaussian, true: Tensor) -> Tensor:
    """-log density but for a constant, mean over steps and features; 0 if there are none."""
    error = 0.5 * ((expected.mean - true) / expected.spread).square() + expected.spread.log()
    return error.sum() / max(1, error.numel())


# The source steps the encoder with Adams of its own.
METHOD = Method("dbc", DBCConfig, DBC, defaults={"encoder_grad": "both"})
