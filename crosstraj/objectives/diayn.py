"""DIAYN: skills that can be told apart by what they see (Eysenbach et al., ICLR 2019), with PPO.

At every step one of Z skills is followed, drawn uniformly and kept for a while; it conditions the
features that the policy and value heads read (agent.py). A discriminator guesses the skill from a
frame, and the more it knows the higher the reward. The first phase learns from this reward alone,
the second from the environment's, skills still drawn: in evaluation too. As in the authors' code,
and not in their algorithm, the frame is the one in which the action is taken: no frame beyond an
episode's end is needed.

With one skill per episode a discriminator that knows the episodes it was trained on is paid for
memory, not for skills; so a skill is drawn anew every `skill_steps`, and the reward is recorded
apart for episodes that began in the rollout and for those it knows
(`intrinsic_reward_fresh`, `intrinsic_reward_remembered`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from crosstraj.data.minibatches import scattered
from crosstraj.data.rollout import Played, Rollout
from crosstraj.data.within_episodes import Stretches
from crosstraj.errors import check_range
from crosstraj.nn import ops
from crosstraj.nn.heads import linear
from crosstraj.nn.memory import Frames
from crosstraj.objectives.base import Metrics, Objective, ObjectiveConfig
from crosstraj.objectives.method import Method
from crosstraj.objectives.phases import Phase


@dataclass(frozen=True)
class DIAYNConfig(ObjectiveConfig):
    """DIAYN's own values."""

    skills: int = 16
    """Number of skills (URLB from pixels; the authors have 50)."""
    skill_steps: int = 50
    """Draw a new skill after this many steps of an episode (URLB); 0 means one skill per
    episode."""
    width: int = 256
    """Width of the discriminator's two hidden layers (URLB 1024, the authors 300)."""

    def __post_init__(self) -> None:
        check_range(self, "objective.", "skills", at_least=2)
        check_range(self, "objective.", "width", at_least=1)
        check_range(self, "objective.", "skill_steps", at_least=0)


class Batch(NamedTuple):
    frames: Frames  # [B, H, W, C] uint8
    skill: Tensor  # [B] int64


class DIAYN(Objective):
    reads_stretches = True
    rewards = True
    why_no_anchor = "method=diayn gives the heads a skill"

    def __init__(
        self, config: DIAYNConfig, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
        self.config = config
        self.context, self.skill_steps = config.skills, config.skill_steps
        gain = math.sqrt(2)
        self.discriminator = nn.Sequential(
            linear(features, config.width, gain, rng),
            nn.ReLU(),
            linear(config.width, config.width, gain, rng),
            nn.ReLU(),
            linear(config.width, config.skills, 1.0, rng),
        )

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Batch]:
        steps, envs = rollout.done.shape
        for index in scattered(steps, envs, count, rng):
            yield batch_at(rollout, index)

    def batch(self, rollout: Played, minibatch: Stretches, rng: torch.Generator) -> Batch:
        return batch_at(rollout, minibatch.frame)  # each frame for itself: no stretch is too short

    def loss_of(
        self, features: Tensor, batch: Batch, rng: torch.Generator
    ) -> tuple[Tensor, Metrics]:
        logits = self.discriminator(features)
        loss = F.cross_entropy(logits, batch.skill)
        return loss, {
            "skill_accuracy": (logits.argmax(1) == batch.skill).float().mean(),
            "skill_entropy": ops.entropy(logits.detach().softmax(1)).mean(),  # H(z | s)
        }

    @torch.no_grad()
    def reward(self, rollout: Rollout, rng: torch.Generator) -> Tensor:
        return self.reward_of(rollout.features[:-1], rollout.skill())

    @torch.no_grad()
    def reward_of(self, features: Tensor, skill: Tensor) -> Tensor:
        """log q(z | o_t) - log p(z), z as followed at t: 0 for a blind guess, log Z at most.

        From features [S, N, D] and skills [S, N].
        """
        log_q: Tensor = self.discriminator(features).log_softmax(-1)
        return log_q.gather(-1, skill[..., None]).squeeze(-1) + math.log(self.config.skills)

    def draw_context(self, previous: Tensor, began: Tensor, rng: torch.Generator) -> Tensor:
        drawn = torch.randint(self.context, (len(previous),), generator=rng)
        fresh = F.one_hot(drawn, self.context).to(previous)
        return torch.where(began.to(previous.device)[:, None], fresh, previous)


def batch_at(rollout: Played, index: Tensor) -> Batch:
    """Frames of the rollout, each with the skill that was followed in it."""
    index = index.to(rollout.done.device)
    skill = rollout.skill().flatten().index_select(0, index)
    return Batch(rollout.frames().index_select(0, index), skill)


METHOD = Method(
    "diayn",
    DIAYNConfig,
    DIAYN,
    defaults={
        "encoder_grad": "both",
        "phases": (
            Phase(0.5, extrinsic=0.0, intrinsic=1.0),
            # Other rewards, other scale: what was learnt of the old one is of no use.
            Phase(0.5, objective_weight=0.0, reset=("normaliser", "value")),
        ),
    },
)
