"""Adam with a bounded gradient and a guard: what is not finite never reaches the weights."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from crosstraj.errors import NonFinite

Batch = TypeVar("Batch")


def bound_gradients(parameters: Mapping[str, nn.Parameter], most: float) -> Tensor:
    """Scale the gradients of all together to a norm of at most `most`; returns what it was."""
    present = [p for p in parameters.values() if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in present if p.grad is not None])
    # On an accelerator this look would wait for the device: there it is left to `Averages`.
    # It comes before the bounding, which would spread one NaN over every gradient.
    if norm.device.type == "cpu" and not norm.isfinite():
        named = {name: p.grad for name, p in parameters.items() if p.grad is not None}
        bad = [name for name, gradient in named.items() if not gradient.isfinite().all()]
        raise NonFinite(f"the gradient of {', '.join(bad[:3]) or 'the loss'} is not finite")
    nn.utils.clip_grads_with_norm_(present, most, norm)
    return norm


class Optimiser:
    """Steps exactly the parameters it was given, by name; one without a gradient does not move."""

    def __init__(
        self,
        *groups: tuple[dict[str, nn.Parameter], float],
        epsilon: float,
        max_norm: float,
    ) -> None:
        """Each group has its own learning rate; the bound is on the gradient of all together."""
        self.parameters = {name: p for group, _ in groups for name, p in group.items()}
        self.max_norm = max_norm
        filled = [{"params": [*group.values()], "lr": rate} for group, rate in groups if group]
        # An empty list is refused by Adam: PPO's objective has nothing to step.
        self.adam = torch.optim.Adam(filled, eps=epsilon) if filled else None

    def zero(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    def step(self) -> Tensor:
        """One step; returns the norm of the gradient before it was bounded."""
        norm = bound_gradients(self.parameters, self.max_norm)
        if self.adam is not None:
            self.adam.step()
        return norm

    @contextmanager
    def tried(self, gradients: dict[str, Tensor]) -> Iterator[None]:
        """In the block these parameters stand one step further, along these gradients alone.

        The step is in Adam's scale as it is now, without momentum, after which they are put back to
        the bit.
        """
        assert self.adam is not None
        kept = {name: self.parameters[name].detach().clone() for name in gradients}
        groups = {p: group for group in self.adam.param_groups for p in group["params"]}
        with torch.no_grad():
            for name, gradient in gradients.items():
                parameter = self.parameters[name]
                group, moments = groups[parameter], self.adam.state[parameter]
                square = moments["exp_avg_sq"] / (1 - group["betas"][1] ** moments["step"].item())
                parameter.sub_(group["lr"] * gradient / (square.sqrt() + group["eps"]))
        try:
            yield
        finally:
            with torch.no_grad():
                for name, value in kept.items():
                    self.parameters[name].copy_(value)

    def forget(self, parameters: Iterable[nn.Parameter]) -> None:
        """These begin anew: without moments."""
        for parameter in parameters:
            if self.adam is not None:
                self.adam.state.pop(parameter, None)

    def state_dict(self) -> dict[str, Any]:
        """Adam's moments by the name of their parameter; empty before the first step."""
        moments = self.adam.state if self.adam is not None else {}
        return {name: dict(moments.get(p, {})) for name, p in self.parameters.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.forget(self.parameters.values())  # a state from before a first step has no moments
        for name, parameter in self.parameters.items():
            if self.adam is not None and state.get(name):
                # Moments take the layout of their parameter, which a checkpoint does not keep.
                self.adam.state[parameter] = {
                    key: torch.zeros_like(parameter).copy_(moment)
                    if moment.ndim
                    else moment.clone()
                    for key, moment in state[name].items()
                }


class Averages:
    """Means of named tensors over the minibatches of an update, which `numbers` reads out.

    `latest` has those of the last minibatch, where they were.
    """

    def __init__(self) -> None:
        self.sums: dict[str, tuple[Tensor, int | Tensor]] = {}
        self.latest: dict[str, Tensor] = {}

    def add(self, **values: Tensor) -> None:
        self.latest |= {name: value.detach() for name, value in values.items()}
        for name, value in values.items():
            self._count(name, value.detach(), 1)

    def add_known(self, **values: Tensor) -> None:
        """Those that are numbers; NaN says that in this minibatch there was nothing to measure.

        Which of them are is not asked here, since that would wait for the device.
        """
        for name, value in values.items():
            known = ~value.isnan()
            self._count(name, torch.where(known, value.detach(), 0.0), known.int())

    def _count(self, name: str, value: Tensor, times: int | Tensor) -> None:
        total, count = self.sums.get(name, (torch.zeros_like(value), 0))
        self.sums[name] = (total + value, count + times)

    def numbers(self) -> dict[str, float]:
        """The means as floats; a non-finite one is an error, raised before anything is saved."""
        sums = {name: (float(total), int(count)) for name, (total, count) in self.sums.items()}
        means = {name: total / count for name, (total, count) in sums.items() if count}
        for name, mean in means.items():
            if not torch.isfinite(torch.tensor(mean)):
                raise NonFinite(f"{name} is {mean}")
        return means


def until_far(batches: Iterable[Batch], averages: Averages, most: float) -> Iterator[Batch]:
    """The batches of an update, until the policy is further (KL) from the one that played than
    `most` on one of them; all of them where that is 0.
    """
    if not most:
        yield from batches
        return
    taken = 0
    for batch in batches:
        yield batch
        taken += 1
        if averages.latest["kl"] > most:
            break
    averages.add(policy_steps=torch.tensor(float(taken)))
