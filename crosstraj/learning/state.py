"""The parts of a run and its whole state: what `train` plays with, and what a checkpoint holds."""

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, assert_never

import torch
from torch import Tensor

from crosstraj.config.values import Config
from crosstraj.data.collect import Collector
from crosstraj.data.level_replay import LevelReplay
from crosstraj.data.rewards import RewardNormaliser
from crosstraj.data.rollout import Rollout
from crosstraj.data.skills import begun
from crosstraj.envs import GAMES, image_and_actions, make_envs, shown_by
from crosstraj.learning.evaluation import Episode, Examiner
from crosstraj.learning.experts import make_source
from crosstraj.learning.kernels import prepare, settled
from crosstraj.learning.learner import Learner
from crosstraj.learning.networks import Start
from crosstraj.objectives.phases import phase_at
from crosstraj.randomness import ENVIRONMENTS, LEVELS, Streams, derived_seed, generator
from crosstraj.runs.codec import State

PATIENCE = 10  # rollbacks to one checkpoint before a run gives up


class Training:
    """Everything that a run consists of. `state_dict` is the whole truth: nothing else survives."""

    def __init__(
        self, config: Config, kernels: str | None = None, start: Start | None = None
    ) -> None:
        """kernels: those that the run's checkpoint was written with, if there is one.

        start: weights to begin with instead of random ones; a checkpoint's replace them.
        """
        self.streams = Streams(config.seed)
        self.replay: LevelReplay | None = None
        if config.replay.levels:
            levels_rng = generator(config.seed, LEVELS)
            self.replay = LevelReplay(config.levels, config.replay, levels_rng)
        with ThreadPoolExecutor() as beside:  # what takes seconds, as does the engine's start
            beside.submit(importlib.import_module, "torch._dynamo")  # Adam will
            if config.env in GAMES:  # else the size of a frame is not known yet
                shown = shown_by(config.env, ising=config.ising, frame_stack=config.frame_stack)
                beside.submit(prepare, config, shown[0])
            self.envs = make_envs(
                config.env,
                config.envs,
                levels="train",
                procgen=config.procgen,
                ising=config.ising,
                gymnasium=config.gymnasium,
                processes=config.machine.env_processes,
                seed=derived_seed(config.seed, ENVIRONMENTS),
                frame_stack=config.frame_stack,
                copy=False,
                next_level=self.replay.choose if self.replay else None,
            )
        image, _ = image_and_actions(self.envs)
        config, self.kernels = settled(config, image, kernels)
        self.config = config
        self.learner = Learner(config, self.envs, self.streams)
        if start is not None:
            self.learner.start_from(start)
        self.source = self.learner.objective.source = make_source(config, self.envs)
        self.collector = Collector(
            self.envs,
            config.rollout_steps,
            self.learner.agent.reads,
            self.learner.objective,
            config.seed,
            self.streams.acting,
            self.learner.device,
            self.learner.agent.memory,
        )
        self._new_normalisers()
        self.examiner = Examiner(config)
        self.frames, self.updates, self.examined, self.rollbacks = 0, 0, 0, 0
        self.phase = 0

    def _new_normalisers(self) -> None:
        # One for each kind of reward: neither's scale depends on the other's.
        self.normaliser = RewardNormaliser(self.config.envs)
        self.intrinsic_normaliser = RewardNormaliser(self.config.envs)

    def begin_phase(self) -> dict[str, float]:
        """Does the next rollout belong to another phase? Then do what that phase asks for.

        Returns the number of the phase, for the log; nothing where there is only one.
        """
        phases = self.config.schedule
        due = phase_at(phases, self.frames, self.config.frames)
        if due != self.phase:
            self.phase = due
            self.learner.begin(phases[due])
            for what in phases[due].reset:
                match what:
                    case "normaliser":
                        self._new_normalisers()
                    case "value":
                        self.learner.reset_value()
                    case other:
                        assert_never(other)
        return {"phase": due + 1} if len(phases) > 1 else {}

    def reward(self, rollout: Rollout) -> tuple[Tensor, dict[str, float]]:
        """What this phase learns from [S, N]: rewards of each kind in units of their spread."""
        phase, reward = self.config.schedule[self.phase], torch.zeros_like(rollout.reward)
        figures = {}
        if phase.extrinsic:
            reward = reward + phase.extrinsic * self.normaliser(rollout.reward, rollout.done)
        if phase.intrinsic:
            own = self.learner.objective.reward(rollout, self.streams.objective)
            reward = reward + phase.intrinsic * self.intrinsic_normaliser(own, rollout.done)
            figures["intrinsic_reward"] = float(own.mean())
            figures |= self.by_memory(own, rollout.done)
        return reward, figures

    def by_memory(self, reward: Tensor, done: Tensor) -> dict[str, float]:
        """The mean reward for skills in episodes that began in this rollout, and in the others.

        The discriminator has been trained on earlier frames of those: there it may be paid for what
        it remembers of an episode. Nothing where there are no such steps.
        """
        if not self.learner.objective.context:
            return {}
        fresh = begun(self.collector.first, done)
        parts = {"fresh": reward[fresh], "remembered": reward[~fresh]}
        return {f"intrinsic_reward_{n}": float(p.mean()) for n, p in parts.items() if len(p)}

    def score_levels(self, rollout: Rollout, advantage: Tensor) -> dict[str, float]:
        """Where levels are played again: by the advantages of their steps [B]. Else nothing."""
        return self.replay.learn(rollout.level.flatten(), advantage) if self.replay else {}

    def count_update(self) -> None:
        """A rollout has been learnt from."""
        self.frames += self.config.rollout_frames
        self.updates += 1

    def examine(self, check: Callable[[], None]) -> dict[str, list[Episode]]:
        """Every split; if `check` raises between two steps, nothing has changed."""
        learner = self.learner
        episodes = self.examiner.examine(learner.agent, learner.objective, self.frames, check)
        self.examined = self.frames
        return episodes

    def roll_back(self, state: State) -> bool:
        """The state of a checkpoint, with other random numbers: or all would happen again.

        False if too many tries from this checkpoint have failed already.
        """
        rollbacks = self.rollbacks + 1  # counted on from here: each try draws other numbers
        self.load_state_dict(state)
        if rollbacks - self.rollbacks > PATIENCE:
            return False
        self.rollbacks = rollbacks
        self.streams.branch(self.config.seed, self.rollbacks)
        return True

    def at_snapshot(self) -> bool:
        """Has this update passed one of the evenly spaced points at which weights are kept?"""
        config, count = self.config, self.config.saving.snapshots
        before = self.frames - config.rollout_frames
        return self.frames * count // config.frames > before * count // config.frames

    def state_dict(self) -> State:
        of_levels = {"replay": self.replay.state_dict()} if self.replay else {}
        return of_levels | {
            "weights": self.learner.weights(),
            "learner": self.learner.state_dict(),
            "collector": self.collector.state_dict(),
            "normaliser": self.normaliser.state_dict(),
            "intrinsic_normaliser": self.intrinsic_normaliser.state_dict(),
            "source": self.source.state_dict() if self.source else {},
            "streams": self.streams.state_dict(),
            "counters": {
                "frames": self.frames,
                "updates": self.updates,
                "examined": self.examined,
                "rollbacks": self.rollbacks,
                "phase": self.phase,
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        counters = state["counters"]
        self.phase = counters["phase"]
        self.learner.begin(self.config.schedule[self.phase])  # its optimisers, before their moments
        self.learner.load_weights(state["weights"])
        self.learner.load_state_dict(state["learner"])
        if self.replay:  # before the collector, which may begin new episodes
            self.replay.load_state_dict(state["replay"])
        self.collector.load_state_dict(state["collector"])
        self.normaliser.load_state_dict(state["normaliser"])
        self.intrinsic_normaliser.load_state_dict(state["intrinsic_normaliser"])
        if not self.collector.continued:
            for normaliser in (self.normaliser, self.intrinsic_normaliser):
                normaliser.returns[:] = 0.0  # of episodes that are no more
        if self.source:
            self.source.load_state_dict(state["source"])
        self.streams.load_state_dict(state["streams"])
        self.frames, self.updates = counters["frames"], counters["updates"]
        self.examined, self.rollbacks = counters["examined"], counters["rollbacks"]
