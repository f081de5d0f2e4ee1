"""The contract of an objective: what a representation-learning method adds to the loop.

The base class is itself an objective: it learns nothing and asks for nothing (PPO alone).

There are two ways to be trained. In a pass of its own an objective deals `minibatches` of frames
and encodes them in its `loss`. In *one pass* with the policy (`order=joint`, `policy.stretch` above
0) the trainer deals minibatches of stretches (pieces of consecutive steps of one episode) and
encodes each frame once: an objective that reads plain frames makes its `batch` of the same
stretches, and its `loss_of` gets the features that the policy's loss reads. One that needs frames
of its own (crops, targets) leaves `reads_stretches` False and gets `encode` in either case.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from crosstraj.data.rollout import Played, Rollout
from crosstraj.data.within_episodes import Sampling, Stretches
from crosstraj.nn.memory import Frames

if TYPE_CHECKING:  # the losses need no environments, which need more than torch and numpy
    from crosstraj.envs import ProcgenConfig
    from crosstraj.envs.frame_stack import AnyEnvs

State = dict[str, Any]  # nested, of tensors and plain values: what a checkpoint holds
Metrics = dict[str, Tensor]  # named 0-d tensors; numbers only when they are recorded


class Encoder(Protocol):
    """Frames [B, H, W, C] uint8 -> features [B, D]; live or gradient-free: the trainer decides.

    Of an agent with a memory frames come with their histories, and the features are beliefs.

    `map` gives the map before the last layer and `project` is that layer; `on` is the same function
    of a target network. `networks.Encode` makes one of any network that has these.
    """

    def __call__(self, frames: Frames) -> Tensor: ...

    def map(self, frames: Tensor) -> Tensor: ...

    def project(self, spatial: Tensor, *, rectified: bool = True) -> Tensor: ...

    def on(self, target: nn.Module) -> "Encoder": ...


class Clustering(NamedTuple):
    """How a method with prototypes clusters views: what an analysis needs to do the same."""

    keypoints: int  # T, steps per view
    prototypes: Tensor  # [C, D], unit rows
    temperature: float  # of the codes
    rounds: int  # Sinkhorn iterations
    embed: Callable[[Tensor, Tensor], Tensor]  # features [B, T, F], actions [B, T] -> v [B, D]
    sampling: Sampling = "uniform"  # of a view's keypoints
    centred: bool = False  # `embed` wants features less the mean of their episode


class Source(Protocol):
    """Play of an objective's own beside the rollouts; its state is saved with the run."""

    frames: int  # interactions so far, counted apart from those of the run

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...


class Opinions(Protocol):
    """What the policy makes of frames: log-probabilities [B, actions] and values [B]."""

    def __call__(self, encode: Encoder, frames: Frames) -> tuple[Tensor, Tensor]: ...


class PolicyValues(Protocol):
    @property
    def kind(self) -> str: ...


class RunValues(Protocol):
    """What an objective's own values may be held against: the run's, as far as any asks."""

    @property
    def method(self) -> str: ...
    @property
    def env(self) -> str: ...
    @property
    def procgen(self) -> "ProcgenConfig": ...
    @property
    def features(self) -> int: ...
    @property
    def policy(self) -> PolicyValues: ...


class Stage(Protocol):
    """What a run offers to an objective that plays beside the rollouts."""

    actions: int

    def levels(self, count: int) -> range:
        """The first of the training levels."""
        ...

    def make_level(self, level: int) -> "AnyEnvs":
        """One game that plays one level again and again."""
        ...

    def experts(self, levels: range, place: str, *, accept_weak: bool) -> Any:
        """A trained policy for each level, read from what `crosstraj experts` left."""
        ...


@dataclass(frozen=True)
class ObjectiveConfig:
    """An objective's own values, and what must be known of it before it is made."""

    temperatures: ClassVar[tuple[str, ...]] = ()
    """Names of the values that make codes soft or sharp, that of the codes first."""

    def for_game(self, game: str) -> Self:
        """The values to learn with in this game, where the policy's are from a table of games."""
        return self

    def needs(self) -> tuple[int, str]:
        """How many steps of one row a single sample needs, and what asks for them."""
        return 1, "a frame"

    def check(self, run: RunValues) -> None:
        """Refuse, in one sentence, a run that these values do not go together with."""

    def complaints(self, metrics: dict[str, float]) -> dict[str, str | None]:
        """What is wrong by these figures of an update, by its name; None where nothing is."""
        return {}

    def source(self, stage: Stage) -> Source | None:
        """Play of its own beside the rollouts, if it has any."""
        return None


@dataclass(frozen=True)
class NoObjective(ObjectiveConfig):
    """Nothing beside the policy."""

    def needs(self) -> tuple[int, str]:
        return 0, ""


class Objective(nn.Module):
    """Owns its heads, targets, prototypes and queues: all of it is in `state_dict`.

    Each is made in the same way: Kind(config, features, actions, rng), with the width of the
    encoder's features and the number of actions; weights are drawn from `rng`.
    An objective does not log, print, move devices, count steps, detach `encode` or touch a global
    generator; it returns its loss and the evidence for it.
    """

    context: int = 0  # how many skills the policy and value heads tell apart; 0: none
    skill_steps: int = 0  # a skill is kept for so many steps of an episode; 0: for all of them
    reads_stretches: bool = False  # has `batch` and `loss_of`: can share the policy's frames
    rewards: bool = False  # has `reward`
    follows: bool = False  # keeps a moving copy of the encoder, made by `attach`
    reads_heads: bool = False  # its loss is one of PPO's heads, too: it is given `opinions`
    why_no_anchor: str = ""  # why a pass of it cannot hold PPO's heads in place, where it cannot
    why_no_memory: str = ""  # why it cannot read the beliefs of an agent with a memory
    source: Source | None = None  # given to it for training; an evaluation has none
    opinions: Opinions | None = None  # with heads that learn from it in joint order

    def gather(self, rng: torch.Generator) -> None:
        """Play of its own, once per rollout and before all updates from it."""

    def attach(self, encoder: nn.Module) -> None:
        """Called once, before training: a target network starts as a copy of the encoder."""

    def minibatches(self, rollout: Played, count: int, rng: torch.Generator) -> Iterator[Any]:
        """The batches of one epoch over this rollout; each is what `loss` understands."""
        return iter(())

    def loss(self, encode: Encoder, batch: Any, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        return self.loss_of(encode(batch.frames), batch, rng)

    def batch(self, rollout: Played, minibatch: Stretches, rng: torch.Generator) -> Any | None:
        """What `loss_of` understands, of a minibatch of stretches; None where all are too short."""
        raise NotImplementedError

    def loss_of(self, features: Tensor, batch: Any, rng: torch.Generator) -> tuple[Tensor, Metrics]:
        """The loss, given the features [F, D] of the frames of a minibatch of stretches."""
        raise NotImplementedError

    def figures(self) -> Metrics:
        """What was seen over all batches since `gather`, in figures; asked once per rollout."""
        return {}

    def reward(self, rollout: Rollout, rng: torch.Generator) -> Tensor:
        """The method's own rewards [S, N]; asked for in phases with an intrinsic weight alone."""
        raise NotImplementedError

    def after_step(self, encoder: nn.Module) -> None:
        """Called after each optimiser step: moving averages, norms of prototypes."""

    def draw_context(self, previous: Tensor, began: Tensor, rng: torch.Generator) -> Tensor:
        """[N, context], one-hot: drawn anew where a skill began, kept elsewhere."""
        return previous

    def clustering(self) -> Clustering | None:
        """How views are clustered; None for a method without prototypes."""
        return None


class Nothing(Objective):
    """The objective of `NoObjective`."""

    def __init__(
        self, config: NoObjective, features: int, actions: int, rng: torch.Generator
    ) -> None:
        super().__init__()
