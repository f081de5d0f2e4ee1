"""An accelerator for rehearsals: tensors on a device of their own, whose work is done here.

`python -m tests.learning.rehearsal METHOD ...` lets each method learn from one rollout there, and
prints as JSON what an accelerator would have refused (tensors of two devices in one operation) and
where it would have been waited for (a value or a size that the program asks for). Unlike torch's
FakeTensorMode, which needs a build with CUDA to be put on `cuda`, it has real numbers, so that
methods whose shapes depend on data can be rehearsed, too.
"""

import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

from crosstraj.config.values import Config
from tests.objectives.every_method import learner_for, rollout_for, small, update

NAME = "rehearsal"


class Module(_DummyBackendModule):  # type: ignore[misc]  # untyped in torch
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


_setup_privateuseone_for_python_backend(NAME, Module())
DEVICE = torch.device(NAME, 0)
PACKAGE = Path(__file__).parents[2] / "crosstraj"
aten = torch.ops.aten
# The host has to know these before it can go on.
WAITS = (aten._local_scalar_dense, aten.nonzero, aten.equal, aten.masked_select, aten.bincount)
WAITS += (aten._unique2, aten.unique_dim, aten.unique_consecutive, aten.is_nonzero)
WAITS += (aten.linalg_svd, aten._linalg_svd, aten.linalg_svdvals, aten.repeat_interleave)
READS, PUTS = (aten.index,), (aten.index_put, aten.index_put_, aten._index_put_impl_)


class There(Tensor):
    """A tensor on the device; `inner` has its numbers."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "There":
        made = Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        made.inner = inner
        return made

    def __repr__(self, **_: Any) -> str:
        return f"There({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return carry_out(func, args, kwargs or {})


def asked_by() -> str:
    """The innermost function of the package in the stack."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if Path(code.co_filename).is_relative_to(PACKAGE):
            return f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_name}"
        frame = frame.f_back
    return "torch"


class Rehearsal(TorchDispatchMode):
    """In the block, tensors that are asked for on the device are made there; waits are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        self.mixed: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        global current
        current = self
        return carry_out(func, args, kwargs or {})


current: Rehearsal | None = None


def mapped(change: Callable[[Any], Any], x: Any) -> Any:
    """With all in lists, tuples and dictionaries changed.

    For the short arguments of an operation torch's own tree_map is slow: with it a rehearsal of all
    methods takes half as long again.
    """
    if isinstance(x, list | tuple):
        return type(x)([mapped(change, y) for y in x])
    if isinstance(x, dict):
        return {name: mapped(change, y) for name, y in x.items()}
    return change(x)


def carry_out(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    flat: list[Tensor] = []
    mapped(lambda x: flat.append(x) if isinstance(x, Tensor) else None, (args, kwargs))
    there = [x for x in flat if isinstance(x, There)]
    packet, wanted = func.overloadpacket, kwargs.get("device")
    onto = wanted is not None and torch.device(wanted).type == NAME
    away = wanted is not None and not onto
    copies = packet in (aten._to_copy, aten.copy_)
    if there and current is not None:
        if not copies and mixed(packet, args, flat):  # copies are what they say
            current.mixed[f"{packet.__name__} in {asked_by()}"] += 1
        leaves = packet is aten.copy_ and not isinstance(args[0], There)
        masked = packet in READS + PUTS and any(
            isinstance(i, Tensor) and i.dtype == torch.bool for i in args[1]
        )
        if packet in WAITS or (copies and away) or leaves or masked:
            current.waits[f"{packet.__name__} in {asked_by()}"] += 1

    def here(x: Any) -> Any:
        if isinstance(x, There):
            return x.inner
        return torch.device("cpu") if isinstance(x, torch.device) and x.type == NAME else x

    result = func(*mapped(here, args), **mapped(here, kwargs))
    if func._schema.is_mutable or packet is aten.copy_:
        owners = {id(x.inner): x for x in there}
        if isinstance(result, Tensor) and id(result) in owners:
            return owners[id(result)]
    back = onto or (bool(there) and not (copies and away))
    if packet is aten.copy_ and not isinstance(args[0], There):
        back = False
    return mapped(lambda x: There(x) if back and type(x) is Tensor else x, result)


def mixed(packet: Any, args: Any, flat: list[Tensor]) -> bool:
    """Would it be refused? Single numbers may come from the host.

    So may indices, into what is on the device; but not the other way round, and not what is put
    there.
    """
    if packet in READS + PUTS:
        flat = [args[0], *(args[2:3] if packet in PUTS else ())]
        if not isinstance(args[0], There) and any(isinstance(i, There) for i in args[1]):
            return True
    return len({isinstance(x, There) for x in flat if x.ndim > 0 or isinstance(x, There)}) > 1


def rehearse(method: str) -> dict[str, Any]:
    """What is wrong with learning on the device, what it gives, and the same here."""
    few, many = rehearsed(method, minibatches=1), rehearsed(method, minibatches=2)
    more = {name for name, count in many["waits"].items() if count > few["waits"].get(name, 0)}
    return many | {"in_every_minibatch": sorted(more), "here": learnt_here(method, minibatches=2)}


def config_for(method: str, minibatches: int) -> Config:
    """One pass over a rollout in so many minibatches, by torch's kernels."""
    config = small(method)
    passes = ("epochs", "value_epochs", "auxiliary_epochs")
    once = {name: 1 for name in passes if hasattr(config.policy, name)}
    return replace(
        config,
        policy=replace(config.policy, minibatches=minibatches, **once),
        representation=replace(config.representation, minibatches=minibatches, epochs=1),
        machine=replace(config.machine, kernels="torch"),
    )


def learnt_here(method: str, minibatches: int) -> dict[str, float]:
    """The figures of one rollout's update on the CPU."""
    learner = learner_for(config_for(method, minibatches))
    return update(learner, rollout_for(learner))


def rehearsed(method: str, minibatches: int) -> dict[str, Any]:
    """The figures of the same update on the device, and what was seen there."""
    config = config_for(method, minibatches)
    rollout = rollout_for(learner_for(config))
    machine = replace(config.machine)
    object.__setattr__(machine, "device", str(DEVICE))  # for which there is no other way in
    with Rehearsal() as rehearsal:
        learner = learner_for(replace(config, machine=machine))
        moved = rollout._replace(**{k: v.to(DEVICE) for k, v in rollout._asdict().items()})
        rehearsal.waits.clear()
        rehearsal.mixed.clear()
        figures = update(learner, moved)
    return {"waits": dict(rehearsal.waits), "mixed": dict(rehearsal.mixed), "there": figures}


def main() -> None:
    for method in sys.argv[1:]:
        try:
            told = rehearse(method)
        except Exception as error:  # told of this method, and the next one is tried
            told = {"error": "".join(traceback.format_exception(error)[-8:])}
        print(json.dumps({"method": method, **told}), flush=True)


if __name__ == "__main__":
    main()
