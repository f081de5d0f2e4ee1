"""What a run trains: agent, objective and their optimisers, and where gradients go.

`encoder_grad` says who trains the encoder: nobody, the policy (rl), the objective (ssl), or both,
with two Adam states. It is decided here, once per phase: what an optimiser does not own it cannot
move. A value network of its own (DAAC) has an optimiser of its own, and nobody else moves it.
"""

import copy
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor, nn

from crosstraj.config.values import Config
from crosstraj.envs import image_and_actions
from crosstraj.learning.networks import Start, encoders_of, make_networks, put_on
from crosstraj.learning.optimiser import Optimiser
from crosstraj.nn.encoders import Encode
from crosstraj.nn.heads import linear
from crosstraj.objectives.phases import Phase
from crosstraj.randomness import OBJECTIVES, Streams, generator, own_global_generator


class Parts:
    def __init__(self, config: Config, envs: VectorEnv[Any, Any, Any], streams: Streams) -> None:
        self.config, self.streams = config, streams
        self.device = torch.device(config.machine.device)
        self.policy, self.objective = make_networks(
            config, *image_and_actions(envs), streams.weights
        )
        self.agent = self.policy.agent
        # What every figure of the encoder is held against; made anew from the seed, never saved.
        self.untrained = copy.deepcopy(self.agent.encoder).requires_grad_(False)
        if config.machine.compile:
            for encoder in encoders_of(self.agent):
                encoder.compile_for(config.machine.piece, config.envs, config.evaluation.envs)
        self.rollouts = 0  # learnt from so far: DAAC's values need not learn from each
        self._route(config.schedule[0])

    def start_from(self, start: Start) -> None:
        """Weights of another run instead of random ones; nothing has been learnt from yet."""
        with own_global_generator(generator(self.config.seed, OBJECTIVES)):
            start.put_on(self.agent, self.objective, self.config.method)
        self._route(self.config.schedule[0])  # a target network is another one now

    def begin(self, phase: Phase) -> None:
        """Route gradients as this phase asks; what is trained on keeps its Adam moments."""
        kept = self.state_dict()
        self._route(phase)
        self.load_state_dict(kept)

    def _route(self, phase: Phase) -> None:
        grad = phase.encoder_grad or self.config.encoder_grad
        self.objective_weight = phase.objective_weight * self.config.representation.weight
        self.by_policy = grad in ("rl", "both")
        self.by_objective = grad in ("ssl", "both") and self.objective_weight > 0
        self._make_optimisers()

    def reset_value(self) -> None:
        """A new value head without moments, for rewards of another kind."""
        head = self.agent.value
        fresh = linear(head.in_features, 1, 1.0, self.streams.weights)
        head.load_state_dict(fresh.state_dict())
        for optimiser in (self.policy_optimiser, self.value_optimiser, self.auxiliary_optimiser):
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
        trained = named if self.by_policy else heads | value  # by an auxiliary phase
        late = trained if self.policy.phasic else {}
        self.auxiliary_optimiser = Optimiser((late, p.learning_rate), **bounds)
        self.encoder = encoder
        anchored = heads if r.anchor and self.by_objective else {}  # the heads may follow
        self.objective_optimiser = Optimiser(
            (own, r.learning_rate),
            (anchored, p.head_rate * p.learning_rate),
            (encoder if self.by_objective and twice else {}, r.encoder_rate * r.learning_rate),
            epsilon=r.adam_epsilon,
            max_norm=r.max_grad_norm,
        )

    def live_encode(self, live: bool) -> Encode:
        """The agent's encoder, for a loss on whole minibatches."""
        machine = self.config.machine
        return Encode(
            self.agent.encoder, live=live, piece=machine.piece, low_memory=machine.low_memory
        )

    def stepwise_encode(self, encoder: nn.Module, *, live: bool) -> Encode:
        """An encoder for a loss that takes a minibatch by `steps_at_a_time`: so it keeps little."""
        machine = self.config.machine
        whole = bool(self.agent.memory)
        return Encode(
            encoder, live=live, piece=machine.piece, low_memory=machine.low_memory and whole
        )

    @property
    def steps_at_a_time(self) -> int:
        """Of a minibatch, in a loss through an encoder; with a memory all: stretches stay whole."""
        return self.config.rollout_frames if self.agent.memory else self.config.machine.piece

    def state_dict(self) -> dict[str, Any]:
        kept = {
            "auxiliary_optimiser": self.auxiliary_optimiser.state_dict(),
            "policy": self.policy.state_dict(),
        }  # of PPG's auxiliary phase; empty, and so left out, without one
        return {name: state for name, state in kept.items() if state} | {
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
        self.auxiliary_optimiser.load_state_dict(state.get("auxiliary_optimiser", {}))
        self.policy.load_state_dict(state.get("policy", {}))

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
        put_on(weights, self.agent, self.objective)
