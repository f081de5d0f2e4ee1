"""The learner: agent, objective and their optimisers, and where gradients go.

`encoder_grad` says who trains the encoder: nobody, the policy (rl), the objective (ssl), or both,
with two Adam states. It is decided here, once per phase: what an optimiser does not own it cannot
move. A value network of its own (DAAC) has an optimiser of its own, and nobody else moves it.
"""

from collections.abc import Callable, Iterator
from typing import Any, assert_never

import torch
import torch.nn.functional as F
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv
from torch import Tensor

from crosstraj import ops
from crosstraj.agent import Agent
from crosstraj.config import Config
from crosstraj.errors import BadInput
from crosstraj.networks import Encode, Impala, linear
from crosstraj.objectives import make_objective
from crosstraj.optimise import Averages, Optimiser
from crosstraj.phases import Phase
from crosstraj.policy import daac, ppo
from crosstraj.policy.daac import DAACAgent, DAACConfig
from crosstraj.policy.experience import Experience, minibatches
from crosstraj.policy.ppo import PPOConfig
from crosstraj.randomness import Streams
from crosstraj.rollout import Rollout

Metrics = dict[str, float]


class Learner:
    def __init__(self, config: Config, envs: VectorEnv[Any, Any, Any], streams: Streams) -> None:
        self.config, self.streams = config, streams
        image, actions = image_and_actions(envs)
        self.device = torch.device(config.machine.device)
        self.objective = make_objective(config.objective, actions, streams.weights).to(self.device)
        kind = DAACAgent if isinstance(config.policy, DAACConfig) else Agent
        self.agent = kind(
            image,
            actions,
            encoder=config.encoder,
            feature_norm=config.feature_norm,
            context=self.objective.context,
            rng=streams.weights,
            split_at=config.split_at,
        ).to(self.device)
        encoders = [part for part in self.agent.modules() if isinstance(part, Impala)]
        for encoder in encoders:
            encoder.autocast = config.machine.bfloat16
            if config.machine.kernels == "native":
                encoder.use_native()
        self.objective.attach(self.agent.encoder)
        if config.machine.compile:
            for encoder in encoders:
                encoder.compile_for(config.machine.piece, config.envs, config.evaluation.envs)
        self.rollouts = 0  # learnt from so far: DAAC's values need not learn from each
        self._route(config.schedule[0])

    def begin(self, phase: Phase) -> None:
        """Route gradients as this phase asks; what is trained on keeps its Adam moments."""
        kept = self.state_dict()
        self._route(phase)
        self.load_state_dict(kept)

    def _route(self, phase: Phase) -> None:
        grad = phase.encoder_grad or self.config.encoder_grad
        self.objective_weight = phase.objective_weight
        self.by_policy = grad in ("rl", "both")
        self.by_objective = grad in ("ssl", "both") and phase.objective_weight > 0
        self._make_optimisers()

    def reset_value(self) -> None:
        """A new value head without moments, for rewards of another kind."""
        head = self.agent.value
        fresh = linear(head.in_features, 1, 1.0, self.streams.weights)
        head.load_state_dict(fresh.state_dict())
        for optimiser in (self.policy_optimiser, self.value_optimiser):
            optimiser.forget(head.parameters())

    def _make_optimisers(self) -> None:
        config = self.config
        named = dict(self.agent.named_parameters())
        encoder = {name: p for name, p in named.items() if name.startswith("encoder.")}
        value = {n: p for n, p in named.items() if n.startswith(self.agent.value_network)}
        heads = {n: p for n, p in named.items() if n not in encoder and n not in value}
        own = {
            f"objective.{name}": p
            for name, p in self.objective.named_parameters()
            if p.requires_grad  # target networks only follow
        }
        # In joint order one optimiser steps the encoder with the summed gradient.
        twice = config.order != "joint" or not self.by_policy
        p, r = config.policy, config.representation
        bounds = {"epsilon": p.adam_epsilon, "max_norm": p.max_grad_norm}
        self.policy_optimiser = Optimiser(
            (heads, p.head_rate * p.learning_rate),
            (encoder if self.by_policy else {}, p.learning_rate),
            **bounds,
        )
        self.value_optimiser = Optimiser((value, p.learning_rate), **bounds)
        self.objective_optimiser = Optimiser(
            (own, r.learning_rate),
            (encoder if self.by_objective and twice else {}, r.encoder_rate * r.learning_rate),
            epsilon=r.adam_epsilon,
            max_norm=r.max_grad_norm,
        )

    def update(self, rollout: Rollout, steps: Experience) -> Metrics:
        """Everything that is learnt from one rollout, in the order asked for."""
        match self.config.order:
            case "objective":  # the paper's
                metrics = self.update_objective(rollout)
                metrics |= self.update_policy(rollout, steps, moved=bool(metrics))
            case "policy":
                metrics = self.update_policy(rollout, steps, moved=False)
                metrics |= self.update_objective(rollout)
            case "joint":
                metrics = self.update_jointly(rollout, steps)
            case other:
                assert_never(other)
        metrics |= self.update_value(rollout, steps)
        self.rollouts += 1
        return metrics

    def update_objective(self, rollout: Rollout) -> Metrics:
        averages = Averages()
        before = self.opinions(rollout) if self.by_objective else None
        for batch in self.objective_batches(rollout, self.config.representation.epochs):
            self.objective_optimiser.zero()
            self.objective_backward(batch, averages)
            averages.add(objective_grad_norm=self.objective_optimiser.step())
            self.objective.after_step(self.agent.encoder)
        if before is not None:
            after = self.opinions(rollout)
            kl = F.kl_div(after, before, log_target=True, reduction="batchmean")
            averages.add(objective_kl=kl)
        return averages.numbers()

    @torch.no_grad()
    def opinions(self, rollout: Rollout) -> Tensor:
        """Log-probabilities of all actions in some of the frames: does the policy stand still?"""
        frames, context = rollout.frames(), rollout.context[:-1].flatten(0, 1)
        frames, context = sample(frames, 128), sample(context, 128)
        encode = Encode(self.agent.encoder, live=False, piece=self.config.machine.piece)
        return self.agent.decide(frames, self.agent.read(encode, frames), context)[0]

    def update_policy(self, rollout: Rollout, steps: Experience, *, moved: bool) -> Metrics:
        """`moved`: the objective has changed the encoder since the rollout was played."""
        averages = Averages()
        features_of, piece = self.feature_reader(rollout, averages, moved=moved)
        for index in self.policy_batches(len(steps.action)):
            self.policy_optimiser.zero()
            terms = self.policy_backward(features_of, steps, index, piece)
            averages.add(policy_grad_norm=self.policy_optimiser.step(), **terms._asdict())
        return averages.numbers()

    def update_jointly(self, rollout: Rollout, steps: Experience) -> Metrics:
        """One step on the summed loss per minibatch; the policy says how many epochs."""
        averages = Averages()
        features_of, piece = self.feature_reader(rollout, averages, moved=False)
        batches = self.objective_batches(rollout, self.config.policy.epochs)
        for index in self.policy_batches(len(steps.action)):
            self.policy_optimiser.zero()
            self.objective_optimiser.zero()
            terms = self.policy_backward(features_of, steps, index, piece)
            # None where there is no objective, or where fragments were too short for a batch.
            if (batch := next(batches, None)) is not None:
                self.objective_backward(batch, averages)
                averages.add(objective_grad_norm=self.objective_optimiser.step())
            averages.add(policy_grad_norm=self.policy_optimiser.step(), **terms._asdict())
            if batch is not None:
                self.objective.after_step(self.agent.encoder)  # which has moved just now
        return averages.numbers()

    def update_value(self, rollout: Rollout, steps: Experience) -> Metrics:
        """A value network of its own: its own epochs over the same rollout, the same targets."""
        policy, averages = self.config.policy, Averages()
        if not isinstance(policy, DAACConfig) or self.rollouts % policy.value_every:
            return {}
        assert isinstance(self.agent, DAACAgent)
        frames, piece = rollout.frames(), self.config.machine.piece
        for index in self.policy_batches(len(steps.action), policy.value_epochs):
            self.value_optimiser.zero()
            error = daac.value_backward(self.agent, frames, steps, index, piece, policy)
            averages.add(value_error=error, value_grad_norm=self.value_optimiser.step())
        return averages.numbers()

    def policy_backward(
        self,
        features_of: Callable[[Tensor], Tensor],
        steps: Experience,
        index: Tensor,
        piece: int,
    ) -> ppo.Terms | daac.Terms:
        match self.config.policy:
            case PPOConfig() as policy:
                return ppo.backward(self.agent, features_of, steps, index, piece, policy)
            case DAACConfig() as policy:
                assert isinstance(self.agent, DAACAgent)
                return daac.backward(self.agent, features_of, steps, index, piece, policy)

    def objective_batches(self, rollout: Rollout, epochs: int) -> Iterator[Any]:
        """All batches of one update, over however many passes."""
        if self.objective_weight:
            self.objective.gather(self.streams.objective)
        count = self.config.representation.minibatches
        for _ in range(epochs if self.objective_weight else 0):
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
        (self.objective_weight * loss).backward()
        averages.add(objective_loss=loss, **evidence)

    def policy_batches(self, size: int, epochs: int | None = None) -> Iterator[Tensor]:
        policy = self.config.policy
        for _ in range(epochs or policy.epochs):
            for index in minibatches(size, policy.minibatches, self.streams.policy):
                yield index.to(self.device)

    def feature_reader(
        self, rollout: Rollout, averages: Averages, *, moved: bool
    ) -> tuple[Callable[[Tensor], Tensor], int]:
        """How the policy update reads features of steps, and how many steps at a time."""
        agent, piece = self.agent, self.config.machine.piece
        acted, frames = rollout.features[:-1].flatten(0, 1), rollout.frames()
        encode = Encode(agent.encoder, live=self.by_policy, piece=piece)
        if moved and self.by_objective and not self.by_policy:
            acted = agent.read(encode, frames)
        with torch.no_grad():
            averages.add(**feature_health(agent.top(acted)))
        # Joint steps move the encoder between minibatches, whoever it is that trains it.
        if self.by_policy or (self.by_objective and self.config.order == "joint"):
            return lambda index: agent.read(encode, frames.index_select(0, index)), piece
        return lambda index: acted.index_select(0, index), len(acted)

    def state_dict(self) -> dict[str, Any]:
        return {
            "policy_optimiser": self.policy_optimiser.state_dict(),
            "value_optimiser": self.value_optimiser.state_dict(),
            "objective_optimiser": self.objective_optimiser.state_dict(),
            "rollouts": self.rollouts,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.policy_optimiser.load_state_dict(state["policy_optimiser"])
        self.value_optimiser.load_state_dict(state["value_optimiser"])
        self.rollouts = state["rollouts"]
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
        try:
            self.agent.load_state_dict(weights["agent"])
            self.objective.load_state_dict(weights.get("objective", {}))
        except (RuntimeError, KeyError) as error:
            first = str(error).strip().splitlines()[0]
            raise BadInput(f"the weights do not fit the run's config.json: {first}") from error


def image_and_actions(envs: VectorEnv[Any, Any, Any]) -> tuple[tuple[int, int, int], int]:
    """Height, width and channels of a frame, and the number of actions."""
    frame, action = envs.single_observation_space, envs.single_action_space
    assert isinstance(frame, Box)  # make_envs has seen to it
    assert isinstance(action, Discrete)
    height, width, channels = frame.shape
    return (height, width, channels), int(action.n)


def sample(steps: Tensor, count: int) -> Tensor:
    """Some steps of a flat rollout [S N, ...]: from everywhere, the same ones in every run."""
    chosen = torch.randperm(len(steps), generator=torch.Generator().manual_seed(0))[:count]
    return steps.index_select(0, chosen.to(steps.device))


def feature_health(features: Tensor) -> dict[str, Tensor]:
    """Can linear heads read these features? Scale, rank and dead ones, as the heads see them."""
    spread = features.std(0)
    return {
        "feature_std": spread.mean(),
        "feature_rank": ops.effective_rank(sample(features, 1024)),
        "dead_features": (spread <= 0.01 * spread.mean()).float().mean(),
    }
