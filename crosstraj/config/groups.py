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
    """Optimiser steps per pass (released code)."""
    learning_rate: float = 5e-4
    """Adam's step size for the objective's own heads (paper 5e-4)."""
    adam_epsilon: float = 1e-5
    """Adam's epsilon (released code)."""
    max_grad_norm: float = 0.5
    """Bound on the norm of the gradient (released code)."""
    encoder_rate: float = 1.0
    """The encoder's step size as a share of the heads', so that the policy can follow (paper 1)."""
    weight: float = 1.0
    """Weight of the objective's loss; with 0 it rests, and where the policy trains the encoder
    the run equals the policy alone, to the bit."""
    max_ratio: float = 0.0
    """Bound the objective's gradient on the encoder to this many times the policy's; 0 means no
    bound. Only --order joint has it."""
    anchor: float = 0.0
    """Weight of a penalty that keeps the policy as it was in the objective's own pass (PPG: 1)."""

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
    """Episodes per evaluation and per split, the same number in each environment."""
    envs: int = 64
    """Environments played at once."""
    greedy: bool = False
    """Take the most probable action instead of a sampled one."""
    held_out: Literal["unseen", "validation", "both"] = "unseen"
    """Levels to evaluate beside the training ones: unseen, validation (to choose by), or both."""

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
    """cpu, or cuda (not tested here)."""
    threads: int = 0
    """CPU threads; 0 takes all cores."""
    piece: int = 128
    """Frames encoded at a time, so that activations stay in the cache."""
    kernels: Literal["torch", "native"] = "torch"
    """torch's convolutions, or our own in C: faster on most CPUs, compiled when first used."""
    low_memory: bool = False
    """Encode twice instead of keeping activations: more work, less memory (docs/performance.md)."""
    compile: bool = False
    """torch.compile the encoder: needs a C++ compiler, changes rounding, gains a little."""
    bfloat16: bool = False
    """Run the encoder under bfloat16 autocast: for accelerators, and CPUs with AVX512_BF16."""

    def __post_init__(self) -> None:
        check_range(self, "machine.", "piece", at_least=1)
        check_range(self, "machine.", "threads", at_least=0)
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise BadInput(f"machine.device={self.device}: must be cpu, cuda or cuda:NUMBER")
        if self.kernels == "native" and (self.device != "cpu" or self.compile or self.bfloat16):
            raise BadInput("machine.kernels=native is for the CPU, in float32, and not compiled")
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
        names = ("device", "piece", "kernels", "low_memory", "bfloat16")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class SavingConfig:
    """What a run leaves behind."""

    runs: Path = Path("runs")
    """Where run directories are made."""
    checkpoint_seconds: float = 120.0
    """Time between checkpoints; 0 saves after every update."""
    snapshots: int = 8
    """Weights kept for good at this many evenly spaced points of the budget."""
    tensorboard: bool = False
    """Show metrics.jsonl in TensorBoard, too: in `tensorboard` in the run directory."""

    def __post_init__(self) -> None:
        check_range(self, "saving.", "checkpoint_seconds", "snapshots", at_least=0)
