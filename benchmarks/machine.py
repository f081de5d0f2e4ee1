"""What the machine can do, and what a frame costs: matrix-multiplication rate, FLOPs, memory."""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from crosstraj.config.values import Config
from crosstraj.learning.state import Training
from crosstraj.policies.experience import experience
from crosstraj.policies.ppg import PPGConfig

SHAPES = ((2048, 2048, 2048), (1024, 4096, 1024), (4096, 1024, 1024), (512, 8192, 2048))


class Limit:
    """fp32 matrix multiplication on all cores: the best of several large shapes."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pairs = [
            (torch.randn(n, k, generator=generator), torch.randn(k, m, generator=generator))
            for n, m, k in SHAPES
        ]
        self.seen: list[float] = []

    def measure(self, repeats: int = 3) -> float:
        """FLOPs per second now; remembered for the median over the whole benchmark."""
        best = 0.0
        for a, b in self.pairs:
            for _ in range(repeats):
                began = time.perf_counter()
                a @ b
                best = max(
                    best, 2 * a.shape[0] * a.shape[1] * b.shape[1] / (time.perf_counter() - began)
                )
        self.seen.append(best)
        return best

    def median(self) -> float:
        return statistics.median(self.seen)


PARTS_OF_LEARNING = {
    "update_objective": "objective",
    "update_policy": "policy",
    "update_value": "policy",
    "update_jointly": "objective and policy",
    "update_auxiliary": "auxiliary phase",
}


def flops_per_frame(config: Config) -> dict[str, float]:
    """Counted by PyTorch's own counter on a real, shorter rollout: acting, objective, policy.

    With torch's kernels, which the counter knows: the work is the same with ours. PPG has a phase
    after each rollout, which costs a frame as much as one after many. A bound on the policy's KL
    ends no rollout: how much it saves depends on what is learnt.
    """
    steps = 64  # enough for runs as long as every method wants them
    machine = replace(config.machine, kernels="torch", compile=False, low_memory=False)
    whole = replace(config.policy, target_kl=0.0)
    shorter = replace(config, rollout_steps=steps, machine=machine, policy=whole)
    small = phase_each_time(shorter)
    training = Training(small)
    learner, counted = training.learner, dict[str, float]()

    def count(label: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            with FlopCounterMode(display=False) as counter:
                result = work(*args, **kwargs)
            counted[label] = counted.get(label, 0) + counter.get_total_flops()
            return result

        return counting

    for name, label in PARTS_OF_LEARNING.items():
        setattr(learner, name, count(label, getattr(learner, name)))
    rollout = count("acting", training.collector.collect)(learner.agent)
    learner.update(rollout, experience(rollout, rollout.reward, small.policy))
    training.envs.close()
    return {name: value / small.rollout_frames for name, value in counted.items()}


def phase_each_time(config: Config) -> Config:
    """The same with an auxiliary phase after each rollout, where the policy has such phases."""
    if not isinstance(config.policy, PPGConfig):
        return config
    return replace(config, policy=replace(config.policy, auxiliary_every=1))


def peak_memory(arguments: Sequence[str]) -> int:
    """Bytes of resident memory at the peak of a fresh process that runs `crosstraj train`.

    From the kernel's record of its memory: getrusage would also count the process it came from.
    """
    script = (
        "import re, sys; from crosstraj.cli.main import main; code = main(sys.argv[1:]);"
        "print('PEAK', re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]);"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "train", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("PEAK"))
    return int(line.split()[1]) * 1024


def seconds_to_first_step() -> float:
    """Wall time from starting `crosstraj train` to its first environment step, in a new process:
    the median of three.
    """
    return statistics.median(_seconds_to_first_step() for _ in range(3))


def _seconds_to_first_step() -> float:
    script = (
        "import os, sys, time; from crosstraj.cli.main import main;"
        "from crosstraj.envs import ProcgenVectorEnv;"
        "say = lambda *_: (print('FIRST', time.time(), flush=True), os._exit(0));"
        "ProcgenVectorEnv.step = say; main(sys.argv[1:])"
    )
    with tempfile.TemporaryDirectory() as runs:
        began = time.time()
        done = subprocess.run(
            [sys.executable, "-c", script, "train", "--saving.runs", runs],
            capture_output=True,
            text=True,
            check=True,
        )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("FIRST"))
    return float(line.split()[1]) - began


def cpu_seconds(arguments: Sequence[str]) -> float:
    """CPU time of a command of ours in a fresh process: the median of three."""
    command = [sys.executable, "-m", "crosstraj", *arguments]
    times: list[float] = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times)
