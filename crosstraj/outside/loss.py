"""What every loss does in an agent that is not ours: learn from play, whole or in minibatches.

The mathematics is that of our own loop, called in the same order with the same random numbers: from
equal seeds, play and optimisers the two give the same bits.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from crosstraj.errors import BadInput
from crosstraj.learning.optimiser import Averages, bound_gradients
from crosstraj.objectives.base import Metrics, Objective, ObjectiveConfig
from crosstraj.outside.encoder import Reading, module_of
from crosstraj.outside.trajectories import Trajectories
from crosstraj.randomness import OBJECTIVES, STREAMS, generator, own_global_generator

Values = TypeVar("Values", bound=ObjectiveConfig)
Encode = Callable[[Tensor], Tensor]  # uint8 frames [B, H, W, C] -> features [B, D]


@dataclass(frozen=True)
class Width:
    """What a loss by itself knows of a run, for its values to be held against."""

    features: int
    method: str = ""
    env: str = ""
    procgen: Any = None
    policy: Any = None


class Loss(nn.Module, Generic[Values]):
    """A representation loss with its heads, its targets and its own random numbers.

    All at once, and nothing that must follow a step can be forgotten:

        figures = loss.learn(encode, play, optimiser)

    Or minibatch by minibatch, for one joint step with another loss:

        for batch in loss.minibatches(play, 8):
            value, evidence = loss(encode, batch)
            optimiser.zero_grad()
            (policy_loss + value).backward()
            optimiser.step()
            loss.after_step()     # after every step: targets follow, prototypes get length one
        figures = loss.figures()  # once, after the last minibatch

    `encode` is any callable from uint8 frames [B, H, W, C] to features [B, D]; `FrameEncoder` makes
    one of a network that wants channels first and floats. `optimiser` owns `loss.parameters()` and,
    where the loss is to train the encoder, the encoder's.

    `state_dict` is the whole truth, the random generator included: a checkpoint resumes exactly.
    A loss that keeps a moving copy of the encoder (`loss.follows`) needs `attach` before all else.
    """

    parts: ClassVar[tuple[type[ObjectiveConfig], type[Objective]]]
    """The values and the objective of the contract in `crosstraj.objectives.base`."""
    objective: Objective
    followed: nn.Module | None  # the encoder, where a target follows it

    def __init__(
        self,
        config: Values | None = None,
        *,
        features: int,
        actions: int,
        seed: int = 0,
        **sizes: int,
    ) -> None:
        """features: width of what `encode` gives; actions: how many there are to choose from."""
        super().__init__()
        values, kind = self.parts
        if config is not None and not isinstance(config, values):
            raise BadInput(
                f"{type(self).__name__} takes a {values.__name__}, not a {type(config).__name__}"
            )
        for name, number in {"features": features, "actions": actions, **sizes}.items():
            if number < 1:
                raise BadInput(f"{name}={number}: must be at least 1")
        self.config = config or cast(Values, values())
        self.config.check(Width(features))
        self.features, self.actions = features, actions
        heads = generator(seed, OBJECTIVES)
        with own_global_generator(heads):
            make: Any = kind
            self.objective = make(self.config, features, actions, heads, **sizes)
        self.rng = generator(seed, STREAMS.index("objective"))
        self._follow(None)

    @property
    def follows(self) -> bool:
        """Whether it keeps a moving copy of the encoder, for which `attach` must be called."""
        return self.objective.follows

    def attach(self, encoder: nn.Module) -> None:
        """Copy the encoder that the target is to follow: once, before training and before
        `load_state_dict`. The module takes uint8 frames, as `encode` does: it is the same one."""
        module = module_of(encoder)
        with own_global_generator(self.rng):
            self.objective.attach(module)
        self._follow(module)

    def minibatches(self, play: Trajectories, count: int = 8, *, epochs: int = 1) -> Iterator[Any]:
        """The minibatches of one update, at most `count` per epoch: none lacks what it needs.

        They are made as they are asked for, with the loss's own random numbers, on the device of
        its heads. Where all fragments of episodes are too short for this method there are none.
        """
        self.check(play)
        device = next(self.parameters(), play.pixels).device
        self.objective.gather(self.rng)
        return (
            on_device(batch, device)
            for _ in range(epochs)
            for batch in self.objective.minibatches(play, count, self.rng)
        )

    def forward(self, encode: Encode, batch: Any) -> tuple[Tensor, Metrics]:
        """The loss of one minibatch, 0-d, and named figures that show how it is made up."""
        self._check_target()
        return self.objective.loss(Reading(encode, self.features), batch, self.rng)

    def after_step(self) -> None:
        """Call it after every step of an optimiser: targets follow, prototypes get length one."""
        self._check_target()
        nothing = nn.Identity()  # for who follows no encoder
        self.objective.after_step(nothing if self.followed is None else self.followed)

    def figures(self) -> dict[str, float]:
        """What was seen over all minibatches of an update; ask once, after the last of them."""
        found = {name: float(figure) for name, figure in self.objective.figures().items()}
        return {name: figure for name, figure in found.items() if abs(figure) < float("inf")}

    def learn(
        self,
        encode: Encode,
        play: Trajectories,
        optimiser: torch.optim.Optimizer,
        *,
        minibatches: int = 8,
        epochs: int = 1,
        weight: float = 1.0,
        max_norm: float = 0.5,
    ) -> dict[str, float]:
        """The whole update from one piece of play; returns the means of all figures.

        One step of `optimiser` per minibatch on `weight` times the loss, with the norm of all its
        gradients bounded by `max_norm`. A gradient that is not finite is an error (`NonFinite`)
        before any weight is touched. Nothing to learn from gives no figures.
        """
        owned = self._named(optimiser, encode)
        averages = Averages()
        for batch in self.minibatches(play, minibatches, epochs=epochs):
            optimiser.zero_grad()
            loss, evidence = self(encode, batch)
            (weight * loss).backward()
            averages.add(objective_loss=loss, **evidence)
            averages.add(objective_grad_norm=bound_gradients(owned, max_norm))
            optimiser.step()
            self.after_step()
        optimiser.zero_grad()  # nobody else's step must find a gradient of this loss
        return averages.numbers() | self.figures()

    def complaints(self, figures: dict[str, float]) -> list[str]:
        """What is wrong by the figures of an update, in whole sentences; empty if nothing is."""
        return [said for said in self.config.complaints(figures).values() if said]

    def check(self, play: Trajectories) -> None:
        """Refuse play that this loss cannot learn from."""
        steps, why = self.config.needs()
        if len(play.done) < steps:
            raise BadInput(f"{len(play.done)} steps a row are too few: {why} needs {steps}")
        if (most := int(play.action.max())) >= self.actions:
            raise BadInput(
                f"actions go up to {most}, but this loss was made with actions={self.actions}: "
                f"they are counted from 0 to {self.actions - 1}"
            )

    def get_extra_state(self) -> Tensor:
        """The random generator, in `state_dict`."""
        return self.rng.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        self.rng.set_state(state.cpu())

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """What `state_dict` gave, into a loss of the same values; attached, if it follows."""
        self._check_target()
        return super().load_state_dict(state_dict, strict, assign)

    def _follow(self, encoder: nn.Module | None) -> None:
        self.__dict__["followed"] = encoder  # not a submodule: its weights are not the loss's

    def _check_target(self) -> None:
        if self.follows and self.followed is None:
            raise BadInput(
                f"{type(self).__name__} keeps a moving copy of the encoder: call attach(encoder) "
                "once, before the first update and before load_state_dict"
            )

    def _named(self, optimiser: torch.optim.Optimizer, encode: Encode) -> dict[str, nn.Parameter]:
        """What the optimiser owns, by names for a message."""
        encoder = encode if isinstance(encode, nn.Module) else getattr(encode, "encoder", None)
        known = {id(p): f"the loss's {name}" for name, p in self.objective.named_parameters()}
        if isinstance(encoder, nn.Module):
            known |= {id(p): f"the encoder's {name}" for name, p in encoder.named_parameters()}
        owned = [p for group in optimiser.param_groups for p in group["params"]]
        mine = {id(p) for p in self.parameters() if p.requires_grad}
        if mine and mine.isdisjoint(map(id, owned)):
            raise BadInput(
                "the optimiser has none of the loss's own parameters, so its heads would never "
                "learn: make it with [*encoder.parameters(), *loss.parameters()]"
            )
        return {known.get(id(p), f"parameter {i}"): p for i, p in enumerate(owned)}


def on_device(batch: Any, device: torch.device) -> Any:
    """The same record, its tensors on a device; play may stay where there is more memory."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(on_device(field, device) for field in batch))
    return batch
