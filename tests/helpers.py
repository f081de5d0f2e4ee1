"""What several test files share: small learners and rollouts, slow loops, and what a run leaves."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from crosstraj.config.groups import RepresentationConfig
from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.data.rollout import Rollout
from crosstraj.learning.learner import Learner
from crosstraj.objectives.ctrl import CTRLConfig
from crosstraj.policies.experience import Experience
from crosstraj.randomness import Streams

# Sends a signal to itself after a number of rows of metrics, or inside a numbered evaluation.
STOPPER = """
import os, sys
from crosstraj.cli.main import main
from crosstraj.learning.evaluation import Examiner
from crosstraj.runs.log import Log

place, number, signal = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
write, examine = Log.write, Examiner.examine
left = {"row": number, "evaluation": number}

def pass_by(what):
    left[what] -= 1
    return what == place and left[what] == 0

def stopping_write(log, row):
    write(log, row)
    if log.path.name == "metrics.jsonl" and pass_by("row"):
        os.kill(os.getpid(), signal)

def stopping_examine(examiner, player, skills, frames, interrupted):
    steps = iter([False, False, False, pass_by("evaluation")])

    def look():
        if next(steps, False):
            os.kill(os.getpid(), signal)
        interrupted()

    return examine(examiner, player, skills, frames, look)

Log.write, Examiner.examine = stopping_write, stopping_examine
sys.exit(main(sys.argv[4:]))
"""


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Scripted(VectorEnv[Any, Any, Any]):
    """Pixel and reward = steps played in the episode; row n ends every `lengths[n]` steps."""

    def __init__(self, lengths: tuple[int, ...], truncate: bool = False) -> None:
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.num_envs, self.lengths, self.truncate = len(lengths), np.array(lengths), truncate
        self.single_observation_space = gymnasium.spaces.Box(0, 255, (2, 2, 1), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        self.age, self.episode = np.zeros(len(lengths), int), np.zeros(len(lengths), int)

    def _obs(self, age: np.ndarray) -> np.ndarray:
        return np.broadcast_to(age[:, None, None, None], (self.num_envs, 2, 2, 1)).astype(np.uint8)

    def _info(self) -> dict[str, Any]:
        return {"level_seed": self.episode * 10 + np.arange(self.num_envs)}

    def reset(self, *, seed=None, options=None):
        self.age[:], self.episode[:] = 0, 0
        return self._obs(self.age), self._info()

    def step(self, actions):
        self.age += 1
        done = self.age >= self.lengths
        reward = self.age.astype(np.float64)
        info = {"final_obs": np.array([*self._obs(self.age), None], dtype=object)[:-1]}
        self.episode += done
        self.age[done] = 0
        nothing = np.zeros_like(done)
        ended, cut = (nothing, done) if self.truncate else (done, nothing)
        return self._obs(self.age), reward, ended, cut, info | self._info()


def small(method: str = "ctrl", **changes: object) -> Config:
    config = plain(method)
    config = replace(
        config,
        encoder="laptop",
        envs=4,
        rollout_steps=16,
        policy=replace(config.policy, epochs=2, minibatches=2),
        representation=RepresentationConfig(minibatches=2),
    )
    if method == "ctrl":
        objective = CTRLConfig(clusters=4, least_rank=0.0)
        config = replace(config, objective=objective, encoder_grad="ssl", order="objective")
    return replace(config, **changes)  # type: ignore[arg-type]  # any field, by name


def learner_for(config: Config) -> Learner:
    return Learner(config, Scripted((5,) * config.envs), Streams(config.seed))


def rollout_for(learner: Learner, config: Config) -> Rollout:
    """Random frames, with the log-probabilities, values and features of this very agent."""
    g = torch.Generator().manual_seed(5)
    s, n = config.rollout_steps, config.envs
    obs = torch.randint(256, (s + 1, n, 2, 2, 1), generator=g, dtype=torch.uint8)
    action = torch.randint(3, (s, n), generator=g)
    with torch.no_grad():
        features = learner.agent.read(learner.agent.encoder, obs.flatten(0, 1))
        log_probs, value = learner.agent.heads(features, torch.zeros(len(features), 0))
    log_prob = log_probs.view(s + 1, n, 3)[:-1].gather(-1, action[..., None]).squeeze(-1)
    return Rollout(
        obs,
        action,
        torch.randn(s, n, generator=g),
        torch.rand(s, n, generator=g) < 0.05,
        torch.zeros(s, n, dtype=torch.int64),
        log_prob,
        value.view(s + 1, n),
        torch.zeros(s, n),
        features.view(s + 1, n, -1),
        torch.zeros(s + 1, n, 0),
    )


def bits(learner: Learner) -> dict[str, bytes]:
    """The bytes of every parameter, by part."""
    parts = {
        "encoder": learner.agent.encoder,
        "policy": learner.agent.policy,
        "value": learner.agent.value,
        "objective": learner.objective,
    }
    return {
        name: b"".join(p.detach().contiguous().numpy().tobytes() for p in part.parameters())
        for name, part in parts.items()
    }


def moved(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def random_experience(size: int, actions: int = 5) -> Experience:
    g = rng(1)
    return Experience(
        torch.randint(actions, (size,), generator=g),
        -torch.rand(size, generator=g) - 1,
        torch.randn(size, generator=g),
        torch.randn(size, generator=g) * 3 + 1,
        torch.randn(size, generator=g),
        torch.zeros(size, 0),
    )


def even_done(length: int, steps: int = 256, envs: int = 8) -> torch.Tensor:
    """Episodes of one length, ended at every `length`-th step."""
    done = torch.zeros(steps, envs, dtype=torch.bool)
    done[length - 1 :: length] = True
    return done


def ragged_done(seed: int, steps: int = 64, envs: int = 6) -> torch.Tensor:
    return torch.rand(steps, envs, generator=rng(seed)) < 0.08


def slow_fragments(done: torch.Tensor) -> list[list[int]]:
    """Frames t * N + n of each fragment, by the obvious loop."""
    steps, envs = done.shape
    found: list[list[int]] = []
    for n in range(envs):
        current: list[int] = []
        for t in range(steps):
            current.append(t * envs + n)
            if done[t, n]:
                found.append(current)
                current = []
        if current:
            found.append(current)
    return found


def only(directory: Path) -> Path:
    (found,) = directory.iterdir()
    return found


def remains(run: Path) -> dict[str, Any]:
    """All that a run is a function of: every byte but those that tell the time."""
    files = [run / name for name in ("metrics.jsonl", "episodes.jsonl", "summary.json")]
    files += run.glob("snapshots/*/*.safetensors")
    last = max(run.glob("checkpoints/step-*"), key=lambda path: int(path.name[5:]))
    files += [last / "weights.safetensors", last / "training.safetensors"]
    state = json.loads((last / "state.json").read_bytes())
    del state["logs"]["timing.jsonl"]  # its length: seconds have more or fewer digits
    return {str(path.relative_to(run)): path.read_bytes() for path in files} | {"state": state}


def tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its content and its time, but for the owner's number in the lock."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "owner.lock"]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def silent(sentence: str) -> None:
    raise AssertionError(f"no warning was due: {sentence}")
