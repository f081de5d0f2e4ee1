"""How well does a minibatch's gradient stand for its rollout's? Single steps against stretches.

`python -m benchmarks.minibatches`: PPO learns as usual; before each of its updates the gradient of
its loss on the whole rollout is held against those on the minibatches of each kind. Both on the
recipe (docs/recipe.md) and on the paper's PPO with a small encoder, whose minibatches are twice as
large. Prints the mean cosine over rollouts with its standard error, and writes
results/bench/minibatches.md.
"""

import argparse
import statistics
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from crosstraj.config.groups import MachineConfig
from crosstraj.config.presets import preset
from crosstraj.config.values import Config
from crosstraj.data.rollout import Rollout
from crosstraj.learning.state import Training
from crosstraj.policies.experience import Experience, experience, minibatches
from crosstraj.policies.ppo import PPOConfig

# Of stretches of 8 a row of 256 steps has one for each of 32 minibatches, of 32 for a quarter.
KINDS = {"single steps": 0, "stretches of 32": 32, "stretches of 8": 8}


def configurations(game: str, steps: int) -> dict[str, Config]:
    made = {
        "recipe": preset("ppo", "default"),
        "paper's PPO": replace(preset("ppo", "paper"), encoder="laptop"),
    }
    for name, config in made.items():
        assert isinstance(config.policy, PPOConfig)
        made[name] = replace(
            config,
            env=game,
            rollout_steps=steps,
            policy=replace(config.policy, advantages="rollout"),
            machine=MachineConfig(threads=1),
        )
    return made


def described(config: Config) -> str:
    return (
        f"{config.encoder}, {config.envs} x {config.rollout_steps} steps in "
        f"{config.policy.minibatches} minibatches"
    )


def gradient(training: Training, rollout: Rollout, steps: Experience, index: Tensor) -> Tensor:
    """Of PPO's loss on some steps, flat, over encoder and heads."""
    learner, frames = training.learner, rollout.frames()
    learner.policy_optimiser.zero()
    read = learner.live_encode(live=True)
    learner.policy.backward(
        lambda part: read(frames.index_select(0, part)), steps, index, training.config.machine.piece
    )
    grads = [p.grad for p in learner.policy_optimiser.parameters.values() if p.grad is not None]
    return torch.cat([grad.flatten() for grad in grads])


def cosines(training: Training) -> dict[str, float]:
    """The mean cosine of each kind's minibatches on the next rollout; then PPO learns from it."""
    config, collector = training.config, training.collector
    rollout = collector.collect(training.learner.agent)
    reward, _ = training.reward(rollout)
    steps = experience(rollout, reward, config.policy)
    whole = gradient(training, rollout, steps, torch.arange(config.rollout_frames))
    found, rng = {}, torch.Generator().manual_seed(training.updates)
    for name, stretch in KINDS.items():
        parts = minibatches(rollout.done, config.policy.minibatches, stretch, rng)
        each = [gradient(training, rollout, steps, part.frame) for part in parts]
        found[name] = statistics.fmean(float(torch.cosine_similarity(g, whole, 0)) for g in each)
    training.learner.update(rollout._replace(reward=reward), steps)
    training.updates += 1
    return found


def line(name: str, config: Config, rollouts: int) -> str:
    training = Training(config)
    rows = [cosines(training) for _ in range(rollouts)]
    cells = [name, described(config), config.env]
    for kind in KINDS:
        values = [row[kind] for row in rows]
        error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
        cells.append(f"{statistics.fmean(values):.3f} ({error:.3f})")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=20)
    parser.add_argument("--games", nargs="+", default=["fruitbot", "starpilot"])
    parser.add_argument("--steps", type=int, default=256, help="of a rollout")
    parser.add_argument("--out", type=Path, default=Path("results/bench/minibatches.md"))
    given = parser.parse_args()
    lines = [
        f"Cosine of a minibatch's gradient with its rollout's, PPO on {given.rollouts} rollouts: "
        "mean (standard error over rollouts).",
        "",
        "| values | size | game | " + " | ".join(KINDS) + " |",
        "|---" * (len(KINDS) + 3) + "|",
    ]
    torch.set_num_threads(1)
    for game in given.games:
        for name, config in configurations(game, given.steps).items():
            lines.append(line(name, config, given.rollouts))
            print(lines[-1], flush=True)
    given.out.write_text("\n".join(lines) + "\n")
    print(given.out)


if __name__ == "__main__":
    main()
