"""How near is the bound on an objective's gradient to what it says? Estimated and measured ratios.

`python -m benchmarks.gradient_bound`: in one pass the norms of both gradients on the encoder are
measured on the first minibatch of a rollout; on the others their ratio is estimated from the
gradients at the features (`joint.through_encoder`). Here it is measured on every minibatch as well,
and what is learnt stays the same. Measured over estimated is by how much the objective's part is
above its bound, wherever that holds it back. Prints a table by epoch, and writes
results/bench/gradient_bound.md.
"""

import argparse
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor, nn

from crosstraj.config.groups import MachineConfig
from crosstraj.config.presets import preset
from crosstraj.config.values import Config
from crosstraj.learning import learner
from crosstraj.learning.joint import Shared, norm, through_encoder
from crosstraj.learning.state import Training
from crosstraj.nn.encoders import EncoderKind
from crosstraj.objectives.situations import SituationsConfig
from crosstraj.policies.experience import experience


def configuration(game: str, encoder: EncoderKind, envs: int, steps: int) -> Config:
    """The recipe, with the bound of the screen (docs/learning.md)."""
    recipe = preset("situations", "default")
    assert isinstance(recipe.objective, SituationsConfig)
    return replace(
        recipe,
        env=game,
        encoder=encoder,
        envs=envs,
        rollout_steps=steps,
        objective=replace(recipe.objective, inverse_weight=10.0),
        representation=replace(recipe.representation, max_ratio=0.1),
        machine=MachineConfig(threads=1),
    )


@contextmanager
def drifts() -> Iterator[list[float]]:
    """Fills up with measured over estimated ratios, one for each minibatch that has an estimate."""
    found: list[float] = []

    def on_weights(weights: Mapping[str, nn.Parameter], features: Tensor, grad: Tensor) -> Tensor:
        parts = torch.autograd.grad(features, list(weights.values()), grad, retain_graph=True)
        return norm(dict(zip(weights, parts, strict=True)))

    def measured(
        encoder: Mapping[str, nn.Parameter],
        features: Tensor,
        policy: Tensor | None,
        own: Tensor | None,
        most: float,
        gain: float | None = None,
    ) -> Shared:
        if gain is not None and policy is not None and own is not None:
            ratio = on_weights(encoder, features, own) / on_weights(encoder, features, policy)
            found.append(float(ratio / (gain * own.norm() / policy.norm())))
        return through_encoder(encoder, features, policy, own, most, gain)

    with patch.object(learner, "through_encoder", measured):
        yield found


def update(training: Training) -> list[list[float]]:
    """The drifts in each epoch of the next rollout's update."""
    rollout = training.collector.collect(training.learner.agent)
    reward, _ = training.reward(rollout)
    steps = experience(rollout, reward, training.config.policy)
    with drifts() as found:
        training.learner.update(rollout._replace(reward=reward), steps)
    training.updates += 1
    count = training.config.policy.minibatches
    first = [found[: count - 1]]  # the minibatch before them is the one that is measured
    return first + [found[at : at + count] for at in range(count - 1, len(found), count)]


def line(game: str, epoch: int, drift: list[float]) -> str:
    low, high = (statistics.quantiles(drift, n=20)[at] for at in (0, -1))
    cells = [game, f"{epoch}", f"{len(drift)}", f"{statistics.median(drift):.2f}"]
    cells += [f"{low:.2f} - {high:.2f}", f"{max(drift):.2f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=10)
    parser.add_argument("--games", nargs="+", default=["fruitbot", "starpilot"])
    parser.add_argument("--encoder", default="slim")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--out", type=Path, default=Path("results/bench/gradient_bound.md"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "The ratio of two gradients on the encoder, measured over estimated: situations on "
        f"{given.rollouts} rollouts of {given.envs} x {given.steps} steps, {given.encoder} "
        "encoder.",
        "",
        "| game | epoch | minibatches | median | 5 % - 95 % | largest |",
        "|---" * 6 + "|",
    ]
    for game in given.games:
        training = Training(configuration(game, given.encoder, given.envs, given.steps))
        rollouts = [update(training) for _ in range(given.rollouts)]
        for epoch in range(training.config.policy.epochs):
            drift = [x for found in rollouts if epoch < len(found) for x in found[epoch]]
            if len(drift) > 1:  # an update may end early, where the policy has moved too far
                lines.append(line(game, epoch + 1, drift))
                print(lines[-1], flush=True)
    given.out.write_text("\n".join(lines) + "\n")
    print(given.out)


if __name__ == "__main__":
    main()
