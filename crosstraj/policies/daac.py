"""DAAC: policy and values learn in networks of their own (Raileanu and Fergus, 2021).

The policy network has an advantage head beside its policy, so that its features know what an action
is worth here and not which level this is. Values come from the value network alone: in rollouts, in
GAE and as targets. An objective, if there is one, trains the policy network's encoder; the value
network's is always trained by its own loss.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from crosstraj.errors import check_range
from crosstraj.nn.heads import linear
from crosstraj.policies.experience import Experience, PolicyConfig
from crosstraj.policies.ppo import policy_terms, value_error
from crosstraj.policies.two_networks import TwoNetworkPolicy, TwoNetworks


class Tuned(NamedTuple):
    """What IDAAC's release tunes for a game (its `--use_best_hps`)."""

    value_epochs: int = 9
    value_every: int = 1
    advantage_weight: float = 0.25


TUNED = {
    "bigfish": Tuned(9, 32, 0.05),
    "chaser": Tuned(1, 1, 0.15),
    "climber": Tuned(9, 1, 0.05),
    "dodgeball": Tuned(9, 32, 0.25),
    "miner": Tuned(9, 32, 0.25),
    "plunder": Tuned(1, 8, 0.3),
}  # every other game has the defaults


@dataclass(frozen=True)
class DAACConfig(PolicyConfig):
    """IDAAC's release, its DAAC; the epochs of the policy network are `epochs`."""

    why_no_anchor = "policy.kind=daac has other heads"

    kind: Literal["daac"] = "daac"
    """The policy algorithm: daac, ppo, or ppg."""
    value_epochs: int = 9
    """Passes of the value network over a rollout."""
    value_every: int = 1
    """Train the value network once every this many rollouts, on that rollout alone."""
    advantage_weight: float = 0.25
    """Weight of the advantage head's loss."""
    per_game: bool = False
    """Take the three values above, and those of --method idaac, from IDAAC's table of games; then
    they cannot be given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "policy.", "value_epochs", "value_every", at_least=1)

    def for_game(self, game: str, *, per_game: bool = False) -> Self:
        if not (per_game or self.per_game):
            return self
        return replace(self, per_game=True, **TUNED.get(game, Tuned())._asdict())


class DAACAgent(TwoNetworks):
    """Beside the policy an estimate of what an action is worth here."""

    def add_heads(self, width: int, actions: int, rng: torch.Generator) -> None:
        self.actions = actions
        self.advantage = linear(width + actions, 1, 1.0, rng)

    def advantages(self, features: Tensor, context: Tensor, action: Tensor) -> Tensor:
        """A(o, a) [B] as the policy network sees it."""
        taken = F.one_hot(action, self.actions).to(features)
        estimate: Tensor = self.advantage(torch.cat([self.seen(features, context), taken], dim=-1))
        return estimate.squeeze(-1)


class Terms(NamedTuple):
    """The parts of the policy network's loss on some steps, each a mean over them."""

    surrogate: Tensor
    advantage_error: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor


def loss(
    agent: DAACAgent, features: Tensor, old: Experience, config: DAACConfig
) -> tuple[Tensor, Terms]:
    """The policy network's loss on what was read in some steps with normalised advantages."""
    t = policy_terms(agent.log_probs(features, old.context), old, config.clip)
    estimate = agent.advantages(features, old.context, old.action)
    error = (estimate - old.advantage).square().mean()
    whole = t.surrogate + config.advantage_weight * error - config.entropy_weight * t.entropy
    return whole, Terms(t.surrogate, error, t.entropy, t.kl, t.clipped)


class DAAC(TwoNetworkPolicy[DAACAgent]):
    """DAAC's agent, and how it learns under these values."""

    def __init__(self, agent: DAACAgent, config: DAACConfig) -> None:
        self.agent, self.config = agent, config

    def loss(self, features: Tensor, old: Experience) -> tuple[Tensor, Terms]:
        return loss(self.agent, features, old, self.config)

    def value_epochs(self, rollouts: int) -> int:
        return 0 if rollouts % self.config.value_every else self.config.value_epochs

    def value_loss(self, value: Tensor, old: Experience) -> Tensor:
        return value_error(value, old, self.config.clip)
