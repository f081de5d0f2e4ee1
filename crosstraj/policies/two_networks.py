"""Values with a network of their own: the agent and the policy that DAAC and PPG are kinds of."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from crosstraj.nn.encoders import (
    FEATURES,
    EncoderKind,
    FeatureNorm,
    Pooling,
    SplitAt,
    make_encoder,
)
from crosstraj.nn.heads import FiLM
from crosstraj.nn.memory import Frames, RecurrentEncoder
from crosstraj.policies.agent import Agent, Opinion, conditioned
from crosstraj.policies.experience import Experience, backward_in_pieces
from crosstraj.policies.policy import Policy


class TwoNetworks(Agent):
    """Two networks without a common parameter: `value` reads the features of `value_encoder`."""

    value_network = ("value.", "value_encoder.", "value_film.")

    def __init__(
        self,
        image: tuple[int, int, int],
        actions: int,
        *,
        encoder: EncoderKind,
        feature_norm: FeatureNorm,
        context: int,
        rng: torch.Generator,
        split_at: SplitAt = "fc",
        pooling: Pooling = "none",
        features: int = FEATURES,
        memory: int = 0,
        burn_in: int = 0,
    ) -> None:
        super().__init__(
            image,
            actions,
            encoder=encoder,
            feature_norm=feature_norm,
            context=context,
            rng=rng,
            split_at=split_at,
            pooling=pooling,
            features=features,
            memory=memory,
            burn_in=burn_in,
        )
        self.add_heads(memory or features, actions, rng)
        below = make_encoder(image, encoder, feature_norm, rng, pooling, features)
        self.value_encoder: nn.Module = below
        if memory:  # each network has its own, side by side
            self.value_encoder = RecurrentEncoder(below, features, memory, burn_in, rng, position=1)
            features, self.memory = memory, 2 * memory
        self.value_film = FiLM(context, features, rng) if context else None

    @abstractmethod
    def add_heads(self, width: int, actions: int, rng: torch.Generator) -> None:
        """Heads on the policy network's features beside its policy."""

    def decide(self, frames: Frames, features: Tensor, context: Tensor) -> Opinion:
        read, width = self.value_encoder(frames), self.memory // 2
        memory = torch.cat([features[:, :width], read[:, :width]], dim=1)
        return Opinion(self.log_probs(features, context), self.values(read, context), memory)

    def values(self, read: Tensor, context: Tensor) -> Tensor:
        """V(o) [B], from what the value network's own encoder reads of frames."""
        seen = conditioned(self.value_film, read, context)
        value: Tensor = self.value(seen)
        return value.squeeze(-1)


Networks = TypeVar("Networks", bound=TwoNetworks, covariant=True)


class TwoNetworkPolicy(Policy[Networks]):
    """How both networks learn; what the losses are is left to each policy."""

    def chosen(self, all_steps: Experience, index: Tensor) -> Experience:
        """The steps of one minibatch, their advantages normalised over the whole rollout.

        PPO takes each minibatch; DAAC's are also what its advantage head learns.
        """
        advantage = all_steps.advantage
        centred = (advantage - advantage.mean()) / (advantage.std() + 1e-5)
        return all_steps._replace(advantage=centred).at(index)

    @property
    def value_encoder(self) -> nn.Module:
        return self.agent.value_encoder

    @abstractmethod
    def value_loss(self, value: Tensor, old: Experience) -> Tensor:
        """The error of values [B] of some steps."""

    def value_backward(
        self,
        features_of: Callable[[Tensor], Tensor],
        all_steps: Experience,
        index: Tensor,
        piece: int,
    ) -> Tensor:
        steps = all_steps.at(index)

        def loss_of(part: Tensor) -> tuple[Tensor, tuple[Tensor]]:
            old, read = steps.at(part), features_of(index.index_select(0, part))
            error = self.value_loss(self.agent.values(read, old.context), old)
            return error, (error,)

        return backward_in_pieces(len(index), piece, index.device, loss_of)[0]
