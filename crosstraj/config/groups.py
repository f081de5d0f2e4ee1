"""Groups of values that every method has alike: how an objective is trained, how a run is judged,
on what it is computed, and what it leaves behind.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from crosstraj.errors import BadInput, check_range

LevelSplit = Literal["seen", "unseen", "validation"]


@dataclass(frozen=True)
class RepresentationConfig:
    """How an objective is trained."""

    epochs: int = 1
    """Passes over a rollout (paper 1)."""
    minibatches: int = 8
    """Minibatches, and so optimiser steps, per pass (released code)."""
    learning_rate: float = 5e-4
    """Adam's learning rate for the objective's own heads (paper 5e-4)."""
    adam_epsilon: float = 1e-5
    """Adam's epsilon (released code)."""
    max_grad_norm: float = 0.5
    """Clip the norm of the gradient to this value (released code)."""
    encoder_rate: float = 1.0
    """Learning-rate multiplier for the encoder in the objective's update (paper 1)."""
    weight: float = 1.0
    """Weight of the objective's loss; 0 turns it off, and the run then equals the policy alone to
    the bit where the policy trains the encoder."""
    max_ratio: float = 0.0
    """Clip the objective's gradient on the encoder to this many times the policy's norm, which in
    one pass is an estimate; 0 means no bound. For --order joint only."""
    anchor: float = 0.0
    """Weight of a KL penalty that keeps the policy unchanged in the objective's own update (PPG:
    1)."""

    def __post_init__(self) -> None:
        check_range(self, "representation.", "epochs", "minibatches", at_least=1)
        check_range(self, "representation.", "weight", "max_ratio", "anchor", at_least=0)
        check_range(self, "representation.", "learning_rate", "adam_epsilon", at_least=0)
        check_range(self, "representation.", "encoder_rate", at_least=0)
        check_range(self, "representation.", "max_grad_norm", above=0)


@dataclass(frozen=True)
class EvaluationConfig:
    """The frozen policy on seen and on other levels; also done once at the end of a run."""

    every: int = 500_000
    """Frames between evaluations."""
    episodes: int = 128
    """Episodes per evaluation and per set of levels."""
    envs: int = 64
    """Environments played in parallel; must divide the number of episodes."""
    greedy: bool = False
    """Take the most probable action instead of a sampled one."""
    held_out: Literal["unseen", "validation", "both"] = "unseen"
    """Held-out levels to evaluate on: unseen (test), validation (for tuning), or both."""

    @property
    def splits(self) -> tuple[LevelSplit, ...]:
        """What an evaluation plays, in this order."""
        match self.held_out:
            case "both":
                return ("seen", "unseen", "validation")
            case one:
                return ("seen", one)

    def __post_init__(self) -> None:
        check_range(self, "evaluation.", "every", "episodes", "envs", at_least=1)
        if self.episodes % self.envs:
            raise BadInput(
                f"evaluation.episodes={self.episodes} is not a multiple of "
                f"evaluation.envs={self.envs}: each environment plays the same number, so that "
                "short episodes are not over-counted"
            )


@dataclass(frozen=True)
class MachineConfig:
    """Where and how it is computed; changes rounding at most, never the method."""

    device: str = "cpu"
    """Torch device: cpu, or cuda (untested)."""
    threads: int = 0
    """CPU threads; 0 takes all cores."""
    env_processes: bool = False
    """Play each environment of a Gymnasium id in its own process: for slow ones and many cores."""
    piece: int = 128
    """Frames per forward pass of the encoder; small pieces keep activations in the cache."""
    kernels: Literal["auto", "native", "torch"] = "auto"
    """Kernels of the encoder: native is our own C code, compiled once by the machine's compiler;
    auto takes it where it can, and torch's elsewhere. The run says which."""
    low_memory: bool = False
    """Recompute activations instead of keeping them: slower, less memory (docs/performance.md)."""
    compile: bool = False
    """Use torch.compile on the encoder: needs a C++ compiler, changes rounding, gains a little."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Products in the encoder: bf16 keeps weights, sums and losses in float32, and is faster on
    accelerators and on CPUs with AVX512_BF16."""

    def __post_init__(self) -> None:
        check_range(self, "machine.", "piece", at_least=1)
        check_range(self, "machine.", "threads", at_least=0)
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise BadInput(f"machine.device={self.device}: must be cpu, cuda or cuda:NUMBER")
        if self.kernels == "native" and (self.device != "cpu" or self.compile):
            raise BadInput("machine.kernels=native is for the CPU, and not compiled; use auto")
        if self.compile and self.device == "cpu" and not shutil.which(os.environ.get("CXX", "g++")):
            raise BadInput(
                "machine.compile=True needs a C++ compiler: install g++, or leave it off"
            )

    def check_presence(self) -> None:
        """Is the device there? Not asked at construction: runs are read on other machines, too."""
        if self.device != "cpu" and not torch.cuda.is_available():
            raise BadInput(f"machine.device={self.device}: torch finds no such device; use cpu")

    def rounding(self) -> dict[str, Any]:
        """What may change a last bit, beside threads and compile, which are asked of torch."""
        names = ("device", "piece", "kernels", "low_memory")
        facts = {name: getattr(self, name) for name in names}
        return facts | {"bfloat16": self.precision == "bf16"}


@dataclass(frozen=True)
class SavingConfig:
    """What a run leaves behind."""

    runs: Path = Path("runs")
    """Where run directories are made."""
    checkpoint_seconds: float = 120.0
    """Seconds between checkpoints; 0 saves after every update."""
    snapshots: int = 8
    """Number of snapshots of the weights, evenly spaced over the budget and never deleted."""
    tensorboard: bool = False
    """Write TensorBoard event files as well, to `tensorboard` in the run directory."""
    wandb: bool = False
    """Show the figures in Weights & Biases as well; WANDB_MODE=offline keeps them here."""
    video: bool = False
    """Keep a clip of the agent at each evaluation, in `clips` in the run directory."""

    def __post_init__(self) -> None:
        check_range(self, "saving.", "checkpoint_seconds", "snapshots", at_least=0)
