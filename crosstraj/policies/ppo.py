"""PPO (Schulman et al., 2017) as practised on Procgen, with the clipped value loss."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor

from crosstraj.errors import BadInput
from crosstraj.nn.memory import Frames
from crosstraj.policies.agent import Agent, Opinion, Reading
from crosstraj.policies.experience import Experience, PolicyConfig
from crosstraj.policies.policy import Policy


@dataclass(frozen=True)
class PPOConfig(PolicyConfig):
    """One network for the policy and its values."""

    kind: Literal["ppo"] = "ppo"
    """The policy algorithm: ppo, daac, or ppg."""
    value_weight: float = 0.5
    """Weight of the value loss."""
    advantages: Literal["minibatch", "rollout"] = "minibatch"
    """Normalise advantages within each minibatch (train-procgen) or over the whole rollout."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stretch and self.advantages == "minibatch":
            raise BadInput(
                f"policy.stretch={self.stretch} deals steps of a few episodes to each minibatch, "
                "whose advantages must not be centred there; add policy.advantages=rollout"
            )

    def in_stretches(self, length: int) -> Self:
        return replace(self, stretch=self.stretch or length, advantages="rollout")


class PPOAgent(Agent):
    """Policy and values, both linear in the same features."""

    def heads(self, features: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """What was read, and the context -> log-probabilities [B, actions] and values [B]."""
        seen = self.seen(features, context)
        return self.policy(seen).log_softmax(-1), self.value(seen).squeeze(-1)

    def opinions(self, encode: Reading, frames: Frames) -> tuple[Tensor, Tensor]:
        """Frames, by whoever encodes them -> log-probabilities and values, without a skill."""
        features = self.read(encode, frames)
        return self.heads(features, features.new_zeros(len(features), 0))

    def decide(self, frames: Frames, features: Tensor, context: Tensor) -> Opinion:
        return Opinion(*self.heads(features, context), memory=features[:, : self.memory])


class PolicyTerms(NamedTuple):
    """What clipping the probability ratio gives on some steps, each a mean over them."""

    surrogate: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor


class Terms(NamedTuple):
    """The parts of PPO's loss on some steps, each a mean over them."""

    surrogate: Tensor
    value_error: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor


def policy_terms(log_probs: Tensor, old: Experience, clip: float) -> PolicyTerms:
    """The clipped surrogate, for steps whose advantages are already normalised."""
    log_prob = log_probs.gather(-1, old.action[:, None]).squeeze(-1)
    log_ratio = log_prob - old.log_prob
    ratio = log_ratio.exp()
    surrogate = -torch.min(ratio * old.advantage, ratio.clamp(1 - clip, 1 + clip) * old.advantage)
    return PolicyTerms(
        surrogate=surrogate.mean(),
        entropy=-(log_probs.exp() * log_probs).sum(-1).mean(),
        kl=(ratio - 1 - log_ratio).mean().detach(),
        clipped=((ratio - 1).abs() > clip).float().mean().detach(),
    )


def value_error(value: Tensor, old: Experience, clip: float) -> Tensor:
    """Half the squared error, or that of the value kept near the rollout's if that is larger."""
    near = old.value + (value - old.value).clamp(-clip, clip)
    return 0.5 * torch.max((value - old.target).square(), (near - old.target).square()).mean()


def terms(log_probs: Tensor, value: Tensor, old: Experience, clip: float) -> Terms:
    """What PPO weighs, for steps whose advantages are already normalised."""
    surrogate, entropy, kl, clipped = policy_terms(log_probs, old, clip)
    return Terms(surrogate, value_error(value, old, clip), entropy, kl, clipped)


def loss(
    agent: PPOAgent, features: Tensor, old: Experience, config: PPOConfig
) -> tuple[Tensor, Terms]:
    """PPO's loss on what was read in some steps, whose advantages are already normalised."""
    log_probs, value = agent.heads(features, old.context)
    t = terms(log_probs, value, old, config.clip)
    whole = t.surrogate + config.value_weight * t.value_error - config.entropy_weight * t.entropy
    return whole, t


def chosen(all_steps: Experience, index: Tensor, config: PPOConfig) -> Experience:
    """The steps of one minibatch, their advantages normalised within it or over the rollout."""
    steps = all_steps.at(index)
    among = (all_steps if config.advantages == "rollout" else steps).advantage
    centred = (steps.advantage - among.mean()) / (among.std(correction=0) + 1e-8)
    return steps._replace(advantage=centred)


class PPO(Policy[PPOAgent]):
    """PPO's agent, and how it learns under these values."""

    def __init__(self, agent: PPOAgent, config: PPOConfig) -> None:
        self.agent, self.config = agent, config

    def chosen(self, all_steps: Experience, index: Tensor) -> Experience:
        return chosen(all_steps, index, self.config)

    def loss(self, features: Tensor, old: Experience) -> tuple[Tensor, Terms]:
        return loss(self.agent, features, old, self.config)
