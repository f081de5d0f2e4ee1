"""The learner: agent, objective and their optimisers, and where gradients go.

`encoder_grad` says who trains the encoder: nobody, the policy (rl), the objective (ssl), or both,
with two Adam states. It is decided here, once: what an optimiser does not own it cannot move.
"""

from collections.abc import Callable, Iterator
from typing import Any, assert_never

import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv
from torch import Tensor

from crosstraj import ops
from crosstraj.agent import Agent
from crosstraj.config import Config
from crosstraj.networks import Encode
from crosstraj.objectives import make_objective
from crosstraj.optimise import Averages, Optimiser
from crosstraj.policy import ppo
from crosstraj.randomness import Streams
from crosstraj.rollout import Rollout

Metrics = dict[str, float]


class Learner:
    def __init__(self, config: Config, envs: VectorEnv[Any, Any, Any], streams: Streams) -> None:
        self.config, self.streams = config, streams
        image, actions = image_and_actions(envs)
        self.device = torch.device(config.machine.device)
        self.objective = make_objective(config.objective, actions, streams.weights).to(self.device)
        self.agent = Agent(
            image,
            actions,
            encoder=config.encoder,
            feature_norm=config.feature_norm,
            context=self.objective.context,
            rng=streams.weights,
            split_at=config.split_at,
        ).to(self.device)
        self.agent.encoder.autocast = config.machine.bfloat16
        if config.machine.kernels == "native":
            self.agent.encoder.use_native()
        self.objective.attach(self.agent.encoder)
        if config.machine.compile:
            self.agent.encoder.compile_for(
                config.machine.piece, config.envs, config.evaluation.envs
            )
        self.by_policy = config.encoder_grad in ("rl", "both")
        self.by_objective = config.encoder_grad in ("ssl", "both")
        self._make_optimisers()

    def _make_optimisers(self) -> None:
        config = self.config
        named = dict(self.agent.named_parameters())
        encoder = {name: p for name, p in named.items() if name.startswith("encoder.")}
        heads = {name: p for name, p in named.items() if name not in encoder}
        own = {
            f"objective.{name}": p
            for name, p in self.objective.named_parameters()
            if p.requires_grad  # target networks only follow
        }
        # In joint order one optimiser steps the encoder with the summed gradient.
        twice = config.order != "joint" or not self.by_policy
        p, r = config.policy, config.representation
        self.policy_optimiser = Optimiser(
            heads | (encoder if self.by_policy else {}),
            learning_rate=p.learning_rate,
            epsilon=p.adam_epsilon,
            max_norm=p.max_grad_norm,
        )
        self.objective_optimiser = Optimiser(
            own | (encoder if self.by_objective and twice else {}),
            learning_rate=r.learning_rate,
            epsilon=r.adam_epsilon,
            max_norm=r.max_grad_norm,
        )

    def update(self, rollout: Rollout, steps: ppo.Experience) -> Metrics:
        """Everything that is learnt from one rollout, in the order asked for."""
        match self.config.order:
            case "objective":  # the paper's
                metrics = self.update_objective(rollout)
                return metrics | self.update_policy(rollout, steps, moved=bool(metrics))
            case "policy":
                metrics = self.update_policy(rollout, steps, moved=False)
                return metrics | self.update_objective(rollout)
            case "joint":
                return self.update_jointly(rollout, steps)
            case other:
                assert_never(other)

    def update_objective(self, rollout: Rollout) -> Metrics:
        averages = Averages()
        for batch in self.objective_batches(rollout, self.config.representation.epochs):
            self.objective_optimiser.zero()
            self.objective_backward(batch, averages)
            averages.add(objective_grad_norm=self.objective_optimiser.step())
            self.objective.after_step(self.agent.encoder)
        return averages.numbers()

    def update_policy(self, rollout: Rollout, steps: ppo.Experience, *, moved: bool) -> Metrics:
        """`moved`: the objective has changed the encoder since the rollout was played."""
        averages = Averages()
        features_of, piece = self.feature_reader(rollout, averages, moved=moved)
        for step, index in enumerate(self.policy_batches(len(steps.action))):
            self.policy_optimiser.zero()
            terms = ppo.backward(self.agent, features_of, steps, index, piece, self.config.policy)
            if moved and step == 0:
                averages.add(objective_kl=terms.kl)  # no policy step yet: the objective's doing
            averages.add(policy_grad_norm=self.policy_optimiser.step(), **terms._asdict())
        return averages.numbers()

    def update_jointly(self, rollout: Rollout, steps: ppo.Experience) -> Metrics:
        """One step on the summed loss per minibatch; the policy says how many epochs."""
        averages = Averages()
        features_of, piece = self.feature_reader(rollout, averages, moved=False)
        batches = self.objective_batches(rollout, self.config.policy.epochs)
        for index in self.policy_batches(len(steps.action)):
            self.policy_optimiser.zero()
            self.objective_optimiser.zero()
            terms = ppo.backward(self.agent, features_of, steps, index, piece, self.config.policy)
            # None where there is no objective, or where fragments were too short for a batch.
            if (batch := next(batches, None)) is not None:
                self.objective_backward(batch, averages)
                averages.add(objective_grad_norm=self.objective_optimiser.step())
            averages.add(policy_grad_norm=self.policy_optimiser.step(), **terms._asdict())
            if batch is not None:
                self.objective.after_step(self.agent.encoder)  # which has moved just now
        return averages.numbers()

    def objective_batches(self, rollout: Rollout, epochs: int) -> Iterator[Any]:
        count = self.config.representation.minibatches
        for _ in range(epochs):
            yield from self.objective.minibatches(rollout, count, self.streams.objective)

    def objective_backward(self, batch: Any, averages: Averages) -> None:
        machine = self.config.machine
        encode = Encode(
            self.agent.encoder,
            live=self.by_objective,
            piece=machine.piece,
            low_memory=machine.low_memory,
        )
        loss, evidence = self.objective.loss(encode, batch, self.streams.objective)
        loss.backward()
        averages.add(objective_loss=loss, **evidence)

    def policy_batches(self, size: int) -> Iterator[Tensor]:
        policy = self.config.policy
        for _ in range(policy.epochs):
            for index in ppo.minibatches(size, policy.minibatches, self.streams.policy):
                yield index.to(self.device)

    def feature_reader(
        self, rollout: Rollout, averages: Averages, *, moved: bool
    ) -> tuple[Callable[[Tensor], Tensor], int]:
        """How the policy update reads features of steps, and how many steps at a time."""
        agent, piece = self.agent, self.config.machine.piece
        acted, frames = rollout.features[:-1].flatten(0, 1), rollout.frames()
        if moved and self.by_objective and not self.by_policy:
            encode = Encode(agent.encoder, live=False, piece=piece)
            before, acted = acted, agent.read(encode, frames)
            if self.config.representation.refit_heads:
                agent.refit(before, acted, rollout.context[:-1].flatten(0, 1))
        acted = agent.standardise(acted)
        with torch.no_grad():
            averages.add(**feature_health(agent.top(acted)))
        if self.by_policy:
            return lambda index: agent.read(agent.encoder, frames.index_select(0, index)), piece
        return lambda index: acted.index_select(0, index), len(acted)

    def state_dict(self) -> dict[str, Any]:
        return {
            "policy_optimiser": self.policy_optimiser.state_dict(),
            "objective_optimiser": self.objective_optimiser.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.policy_optimiser.load_state_dict(state["policy_optimiser"])
        self.objective_optimiser.load_state_dict(state["objective_optimiser"])

    def weights(self) -> dict[str, dict[str, Tensor]]:
        return {"agent": self.agent.state_dict(), "objective": self.objective.state_dict()}

    def flat_weights(self) -> dict[str, Tensor]:
        """As a snapshot holds them: one name per tensor."""
        return {
            f"{part}/{name}": tensor
            for part, tensors in self.weights().items()
            for name, tensor in tensors.items()
        }

    def load_weights(self, weights: dict[str, dict[str, Tensor]]) -> None:
        self.agent.load_state_dict(weights["agent"])
        self.objective.load_state_dict(weights.get("objective", {}))


def image_and_actions(envs: VectorEnv[Any, Any, Any]) -> tuple[tuple[int, int, int], int]:
    """Height, width and channels of a frame, and the number of actions."""
    frame, action = envs.single_observation_space, envs.single_action_space
    assert isinstance(frame, Box)  # make_envs has seen to it
    assert isinstance(action, Discrete)
    height, width, channels = frame.shape
    return (height, width, channels), int(action.n)


def feature_health(features: Tensor, sample: int = 1024) -> dict[str, Tensor]:
    """Can linear heads read these features? Scale, rank and dead ones, as the heads see them."""
    spread = features.std(0)
    every = max(1, len(features) // sample)
    return {
        "feature_std": spread.mean(),
        "feature_rank": ops.effective_rank(features[::every]),
        "dead_features": (spread < 0.01 * spread.mean()).float().mean(),
    }
