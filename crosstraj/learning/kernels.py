"""Which kernels the encoder runs on: our own in C where they can be, torch's otherwise."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from crosstraj.config.groups import MachineConfig
from crosstraj.config.values import Config
from crosstraj.errors import BadInput
from crosstraj.nn.compiler import has_bf16
from crosstraj.nn.encoders import SHAPES
from crosstraj.nn.native import prepare_convolutions
from crosstraj.runs.codec import State
from crosstraj.runs.directory import Run

Image = tuple[int, int, int]  # height, width, channels


def settled(config: Config, image: Image, begun_with: str | None = None) -> tuple[Config, str]:
    """The same configuration with kernels that are there, and a sentence that says which and why.

    begun_with: what the run's checkpoint was written with. `auto` keeps to it where it can, since
    other kernels round differently.
    """
    machine = config.machine
    if machine.kernels == "torch":
        return config, _sentence(machine, "asked for")
    if machine.kernels == "auto" and begun_with == "torch":
        return _with(config, "torch", "as when this run began")
    try:
        return _with(config, "native", _compiled(config, image))
    except BadInput as trouble:
        if machine.kernels == "native":
            advice = "use machine.kernels=auto or torch"
            raise BadInput(f"machine.kernels=native: {trouble}; {advice}") from None
        return _with(config, "torch", str(trouble))


def prepare(config: Config, image: Image) -> None:
    """Compile what will be needed; where it cannot be, `settled` says so later."""
    if config.machine.kernels != "torch":
        with suppress(BadInput):
            _compiled(config, image)


def _compiled(config: Config, image: Image) -> str:
    """Compile our kernels and say where they are; `BadInput`: why they cannot be used."""
    machine = config.machine
    if config.encoder == "lattice":
        raise BadInput("there are no other kernels for encoder=lattice")
    if machine.device != "cpu" or machine.compile:
        raise BadInput("ours are for the CPU, and not compiled by torch")
    bfloat16 = machine.precision == "bf16"
    return prepare_convolutions(SHAPES[config.encoder], image, bfloat16=bfloat16)


def _with(config: Config, kernels: Literal["native", "torch"], why: str) -> tuple[Config, str]:
    machine = replace(config.machine, kernels=kernels)
    return replace(config, machine=machine), _sentence(machine, why)


def _sentence(machine: MachineConfig, why: str) -> str:
    bf16 = machine.precision == "bf16"
    whose = "our own convolutions in C" if machine.kernels == "native" else "torch's convolutions"
    whose += " in bfloat16" if bf16 else ""
    slow = machine.device == "cpu" and bf16 and not has_bf16()
    warning = "; this processor has no bfloat16 products: precision fp32 is faster" if slow else ""
    return f"kernels: {whose} ({why}){warning}"


def restored(run: Run, chosen: str, say: Callable[[str], None]) -> State | None:
    """A run's newest state. Which kernels were chosen is said, too: first if others wrote it.

    For that is refused, and the sentence says why they are others.
    """
    others = run.saved_fact("kernels") not in (None, run.facts["kernels"])
    if others:
        say(chosen)
    state = run.restore()
    if not others:
        say(chosen)
    return state
