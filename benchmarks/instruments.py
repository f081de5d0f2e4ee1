"""What the instruments cost: an update with and without them, in processor time and in FLOPs.

`python -m benchmarks.instruments`: the instruments are all that measures and does not learn, but
for what PPO has as well: what codes are about, whether views are alive, what actions are worth, the
KL of the objective; the variance between levels, too. The second backward pass on the first
minibatch of a rollout is listed apart: it measures the norms by which the objective's gradient is
bounded, and what is learnt depends on it. Updates with and without take turns on the same rollout.
Prints a table, and writes results/bench/instruments.md.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.utils.flop_counter import FlopCounterMode

from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.learning.learner import Learner
from crosstraj.learning.state import Training
from crosstraj.nn.encoders import EncoderKind
from crosstraj.objectives.prototypes import Prototypes
from crosstraj.policies.experience import experience

MODES = ("whole", "no instruments", "one backward")


def configurations(encoder: EncoderKind, steps: int) -> dict[str, Config]:
    """Torch's kernels, whose FLOPs can be counted; one thread, whose time is all of the work."""
    rows = {}
    for method, count in (("situations", 8), ("situations", 32), ("ctrl", 8)):
        config = plain(method)
        rows[f"{method}, {count} minibatches"] = replace(
            config,
            env="bigfish",
            encoder=encoder,
            rollout_steps=steps,
            machine=replace(config.machine, kernels="torch", threads=1),
            policy=replace(config.policy, minibatches=count),
            representation=replace(config.representation, minibatches=count),
        )
    return rows


@contextmanager
def no_instruments(learner: Learner) -> Iterator[None]:
    """The same update, without what it measures and does not learn from."""
    objective = learner.objective
    assert isinstance(objective, Prototypes)
    gather, minibatches = objective.gather, objective.minibatches

    def gather_blind(rng: torch.Generator) -> None:
        gather(rng)
        objective.play.most, objective.measured = 0, True

    def unprobed(*given: Any) -> Iterator[Any]:
        for batch in minibatches(*given):
            yield batch._replace(probe=False) if "probe" in batch._fields else batch

    with ExitStack() as patches:
        for owner, name, quiet in (
            (objective, "gather", gather_blind),
            (objective, "minibatches", unprobed),
            (learner, "level_variance", lambda _: {}),
            (learner, "opinions", lambda _: torch.zeros(1, 2)),
            (learner, "trial_kl", lambda *_: torch.zeros(())),
        ):
            patches.enter_context(patch.object(owner, name, quiet))
        yield


@contextmanager
def one_backward(learner: Learner) -> Iterator[None]:
    """No instruments, and the norms of two gradients not measured apart in any minibatch."""
    inner = learner.shared_backward

    def together(frames: Any, steps: Any, batch: Any, gain: float | None, averages: Any) -> Any:
        return inner(frames, steps, batch, 1.0 if gain is None else gain, averages)

    with no_instruments(learner), patch.object(learner, "shared_backward", together):
        yield


class Costs:
    """Of one configuration, by mode: processor seconds of each turn, and FLOPs."""

    def __init__(self, config: Config) -> None:
        self.training = Training(config)
        learner = self.training.learner
        self.rollout = self.training.collector.collect(learner.agent)
        self.steps = experience(self.rollout, self.rollout.reward, config.policy)
        self.modes = MODES if learner.one_pass else MODES[:2]
        self.seconds: dict[str, list[float]] = {mode: [] for mode in self.modes}
        self.flops = {mode: self.counted(mode) for mode in self.modes}

    def update(self, mode: str) -> None:
        learner = self.training.learner
        quiet = {"no instruments": no_instruments, "one backward": one_backward}
        with quiet[mode](learner) if mode in quiet else nullcontext():
            learner.update(self.rollout, self.steps)

    def counted(self, mode: str) -> int:
        with FlopCounterMode(display=False) as counter:
            self.update(mode)
        return int(counter.get_total_flops())

    def turn(self) -> None:
        for mode in self.modes:
            began = time.process_time()
            self.update(mode)
            self.seconds[mode].append(time.process_time() - began)

    def line(self, name: str) -> str:
        time_of = {mode: statistics.median(turns) for mode, turns in self.seconds.items()}
        cells = [name, f"{time_of['whole']:.2f} s", f"{self.flops['whole'] / 1e9:.1f}"]
        for more, less in pairwise(MODES):
            for cost in (time_of, self.flops):
                known = less in cost
                cells.append(f"{(cost[more] - cost[less]) / cost['whole']:.1%}" if known else "")
        return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--encoder", default="impala")
    parser.add_argument("--steps", type=int, default=256, help="of a rollout of 32 environments")
    parser.add_argument("--out", type=Path, default=Path("results/bench/instruments.md"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = {n: Costs(c) for n, c in configurations(given.encoder, given.steps).items()}
    for _ in range(given.turns):
        for costs in rows.values():
            costs.turn()
    lines = [
        f"Shares of an update of 32 x {given.steps} frames, {given.encoder} encoder, one thread: "
        f"processor time (median of {given.turns} turns) and FLOPs.",
        "",
        "| method | update | GFLOP | instruments: time | FLOPs | second backward: time | FLOPs |",
        "|---" * 7 + "|",
        *(costs.line(name) for name, costs in rows.items()),
    ]
    given.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines), given.out, sep="\n")


if __name__ == "__main__":
    main()
