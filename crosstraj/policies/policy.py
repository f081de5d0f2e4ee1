"""The contract of a policy: an agent, and how it learns from the steps of a rollout."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from torch import Tensor, nn

from crosstraj.policies.agent import Agent
from crosstraj.policies.experience import Experience, backward_in_pieces


class Terms(Protocol):
    """The named parts of a loss, each a mean over steps: a NamedTuple."""

    def _asdict(self) -> dict[str, Tensor]: ...


Kind = TypeVar("Kind", bound=Agent, covariant=True)


class Policy(ABC, Generic[Kind]):
    agent: Kind
    phasic: ClassVar[bool] = False
    """Whether an auxiliary phase follows a number of rollouts, in steps of its own."""

    @abstractmethod
    def chosen(self, all_steps: Experience, index: Tensor) -> Experience:
        """The steps of one minibatch, their advantages normalised."""

    @abstractmethod
    def loss(self, features: Tensor, old: Experience) -> tuple[Tensor, Terms]:
        """The loss on what was read in some steps, whose advantages are already normalised."""

    def backward(
        self,
        features_of: Callable[[Tensor], Tensor],
        all_steps: Experience,
        index: Tensor,
        piece: int,
    ) -> dict[str, Tensor]:
        """Adds the gradient of the loss on one minibatch; returns the means of its parts."""
        steps, names = self.chosen(all_steps, index), list[str]()

        def loss_of(part: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
            loss, terms = self.loss(features_of(index.index_select(0, part)), steps.at(part))
            named = terms._asdict()
            names[:] = named
            return loss, tuple(named.values())

        means = backward_in_pieces(len(index), piece, index.device, loss_of)
        return dict(zip(names, means, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """What it keeps from rollout to rollout beside the agent; most keep nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse."""

    def value_epochs(self, rollouts: int) -> int:
        """Passes of a network for values alone over the rollout after so many; 0: none."""
        return 0

    @property
    def value_encoder(self) -> nn.Module:
        """The encoder of that network."""
        raise NotImplementedError

    def value_backward(
        self,
        features_of: Callable[[Tensor], Tensor],
        all_steps: Experience,
        index: Tensor,
        piece: int,
    ) -> Tensor:
        """Adds the gradient of that network's loss on one minibatch; returns the loss.

        features_of: what its encoder reads of some steps.
        """
        raise NotImplementedError
