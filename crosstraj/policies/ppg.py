"""PPG: phases of PPO, and between them phases in which the policy network learns values (2021).

Policy and values have networks of their own. After every n rollouts both pass over all frames of
these rollouts, with the targets R that PPO had for them (Cobbe et al., Phasic Policy Gradient):

    policy network:  (V_aux(o) - R)^2 / 2 + beta * KL(pi_before(. | o) || pi(. | o))
    value network:   (V(o) - R)^2 / 2

V_aux is a head on the policy network's features that nothing else reads; pi_before is the policy
as it was when the phase began, so that the phase teaches features and leaves the policy in place.
Differs: minibatches of single frames, as many as PPO's for each rollout; the release has whole rows
of 256 steps, and does not bound the gradient.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from crosstraj.errors import check_range
from crosstraj.nn import ops
from crosstraj.nn.heads import linear
from crosstraj.policies.experience import Experience, PolicyConfig
from crosstraj.policies.ppo import PolicyTerms, policy_terms
from crosstraj.policies.two_networks import TwoNetworkPolicy, TwoNetworks


@dataclass(frozen=True)
class PPGConfig(PolicyConfig):
    """The authors' release; the epochs of the policy network are `epochs`."""

    why_no_anchor = "policy.kind=ppg has other heads"
    why_no_memory: ClassVar[str] = "its auxiliary phase reads frames that older weights remembered"

    kind: Literal["ppg"] = "ppg"
    """The policy algorithm: ppg, ppo, or daac."""
    value_epochs: int = 1
    """Passes of the value network over each rollout (release)."""
    auxiliary_every: int = 32
    """Rollouts between two auxiliary phases, whose frames are all kept until then, 12 kB each
    (release)."""
    auxiliary_epochs: int = 6
    """Passes of an auxiliary phase over these rollouts (release)."""
    clone_weight: float = 1.0
    """Weight of the KL divergence that holds the policy in an auxiliary phase (release; the
    paper's beta_clone)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = ("value_epochs", "auxiliary_every", "auxiliary_epochs")
        check_range(self, "policy.", *counts, at_least=1)
        check_range(self, "policy.", "clone_weight", at_least=0)


class PPGAgent(TwoNetworks):
    """Beside the policy a value that only teaches the features."""

    def add_heads(self, width: int, actions: int, rng: torch.Generator) -> None:
        self.auxiliary = linear(width, 1, 1.0, rng)

    def auxiliary_values(self, features: Tensor, context: Tensor) -> Tensor:
        """V_aux(o) [B], from what the policy network reads of frames."""
        value: Tensor = self.auxiliary(self.seen(features, context))
        return value.squeeze(-1)


class AuxiliaryTerms(NamedTuple):
    """The parts of an auxiliary phase's loss on some steps, each a mean over them."""

    auxiliary_error: Tensor
    auxiliary_kl: Tensor
    auxiliary_value_error: Tensor


class Kept(NamedTuple):
    """Steps of the rollouts since the last auxiliary phase, flat."""

    frames: Tensor  # [B, H, W, C] uint8
    target: Tensor  # [B]
    context: Tensor  # [B, X]


class PPG(TwoNetworkPolicy[PPGAgent]):
    """PPG's agent, how it learns under these values, and what it keeps for the next phase."""

    phasic = True

    def __init__(self, agent: PPGAgent, config: PPGConfig) -> None:
        self.agent, self.config = agent, config
        self.rollouts: list[Kept] = []

    def loss(self, features: Tensor, old: Experience) -> tuple[Tensor, PolicyTerms]:
        t = policy_terms(self.agent.log_probs(features, old.context), old, self.config.clip)
        return t.surrogate - self.config.entropy_weight * t.entropy, t

    def value_epochs(self, rollouts: int) -> int:
        return self.config.value_epochs

    def value_loss(self, value: Tensor, old: Experience) -> Tensor:
        return squared_error(value, old.target)

    def keep(self, frames: Tensor, steps: Experience) -> bool:
        """Keep a rollout for the auxiliary phase; is that due now?"""
        self.rollouts.append(Kept(frames.clone(), steps.target, steps.context.clone()))
        return len(self.rollouts) >= self.config.auxiliary_every

    def auxiliary_loss(
        self, features: Tensor, read: Tensor, before: Tensor, steps: Kept
    ) -> tuple[Tensor, AuxiliaryTerms]:
        """On what both networks read of some steps, and the log-probabilities of before."""
        agent, context = self.agent, steps.context
        kl = ops.divergence(before, agent.log_probs(features, context))
        own = squared_error(agent.auxiliary_values(features, context), steps.target)
        value = squared_error(agent.values(read, context), steps.target)
        return own + self.config.clone_weight * kl + value, AuxiliaryTerms(own, kl, value)

    def state_dict(self) -> dict[str, Any]:
        return {str(number): kept._asdict() for number, kept in enumerate(self.rollouts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        device = self.agent.policy.weight.device
        kept = [state[str(number)] for number in range(len(state))]
        self.rollouts = [Kept(**{k: v.to(device) for k, v in each.items()}) for each in kept]


def squared_error(value: Tensor, target: Tensor) -> Tensor:
    return 0.5 * (value - target).square().mean()
