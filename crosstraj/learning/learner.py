"""The learner: what is learnt from one rollout, and in which order."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, assert_never

import torch
from torch import Tensor

from crosstraj.config.methods import METHODS
from crosstraj.data.rollout import Rollout
from crosstraj.data.within_episodes import Stretches
from crosstraj.health.instruments import variance_between
from crosstraj.learning.auxiliary import update_auxiliary
from crosstraj.learning.gradient_routing import Parts
from crosstraj.learning.joint import (
    Anchor,
    Gradients,
    Shared,
    at_features,
    norm,
    summed,
    take,
    through_encoder,
)
from crosstraj.learning.optimiser import Averages, until_far
from crosstraj.nn import ops
from crosstraj.nn.encoders import Encode
from crosstraj.nn.memory import Frames
from crosstraj.policies.experience import Experience, minibatches
from crosstraj.policies.ppo import PPOAgent

Metrics = dict[str, float]
APART = 32  # steps between frames that are compared: nearer ones are nearly equal


class Learner(Parts):
    """Updates all that it owns from one rollout after another."""

    update_auxiliary = update_auxiliary

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
        own, others = (metrics.pop(f"{who}_on_encoder", 0.0) for who in ("objective", "policy"))
        if own and others:
            metrics["gradient_ratio"] = own / others
        figures = self.named(self.objective.figures()) | self.level_variance(rollout)
        figures |= self.worth_of_memory(rollout)
        metrics |= {name: float(f) for name, f in figures.items() if f.isfinite()}
        metrics |= self.update_value(rollout, steps) | self.update_auxiliary(rollout, steps)
        self.rollouts += 1
        return metrics

    def update_objective(self, rollout: Rollout) -> Metrics:
        averages, anchor = Averages(), self.anchor()
        before = self.opinions(rollout) if self.by_objective else None
        for batch in self.objective_batches(rollout, self.config.representation.epochs):
            self.objective_optimiser.zero()
            self.objective_backward(batch, averages, anchor)
            self.note_norm("objective", averages)
            averages.add(objective_grad_norm=self.objective_optimiser.step())
            self.objective.after_step(self.agent.encoder)
        if before is not None:
            averages.add(objective_kl=ops.divergence(before, self.opinions(rollout)))
        return averages.numbers()

    @torch.no_grad()
    def opinions(self, rollout: Rollout, *, apart: bool = False) -> Tensor:
        """Log-probabilities of all actions in some of the frames: does the policy stand still?"""
        frames, context = rollout.frames(), rollout.context[:-1].flatten(0, 1)
        some = rollout.places(128, 0 if apart else self.config.policy.stretch)
        frames, context = frames.index_select(0, some), context.index_select(0, some)
        encode = Encode(self.agent.encoder, live=False, piece=self.config.machine.piece)
        return self.agent.decide(frames, self.agent.read(encode, frames), context)[0]

    def worth_of_memory(self, rollout: Rollout) -> dict[str, Tensor]:
        """How far the policy would be from itself if it had forgotten all but the present frame."""
        if not self.agent.memory:
            return {}
        alone = rollout._replace(  # each step an episode of its own
            memory=torch.zeros_like(rollout.memory), done=torch.ones_like(rollout.done)
        )
        now, then = (self.opinions(frames, apart=True) for frames in (rollout, alone))
        return {"memory_kl": ops.divergence(now, then)}

    @torch.no_grad()
    def level_variance(self, rollout: Rollout) -> dict[str, Tensor]:
        """How much of the features' variance lies between levels, and of an untrained encoder's.

        On frames far apart, as they were read when acting; nothing where the cut is at the map. An
        untrained memory has not seen the frames between: with one, the first figure stands alone.
        """
        if self.config.split_at == "conv":
            return {}
        apart = slice(None, -1, APART)
        group = rollout.group()[::APART].flatten()
        figures = {"level_variance": variance_between(rollout.features[apart].flatten(0, 1), group)}
        if not self.agent.memory:
            encode = Encode(self.untrained, live=False, piece=self.config.machine.piece)
            before = encode(rollout.obs[apart].flatten(0, 1))
            figures["level_variance_untrained"] = variance_between(before, group)
        return figures

    def update_policy(self, rollout: Rollout, steps: Experience, *, moved: bool) -> Metrics:
        """`moved`: the objective has changed the encoder since the rollout was played."""
        averages, most = Averages(), self.config.policy.target_kl
        features_of, piece = self.feature_reader(rollout, averages, moved=moved)
        for minibatch in until_far(self.policy_batches(rollout.done), averages, most):
            self.policy_optimiser.zero()
            terms = self.policy.backward(features_of, steps, minibatch.frame, piece)
            self.note_norm("policy", averages)
            averages.add(policy_grad_norm=self.policy_optimiser.step(), **terms)
        return averages.numbers()

    def update_jointly(self, rollout: Rollout, steps: Experience) -> Metrics:
        """One step on the summed loss per minibatch; the policy says how many epochs.

        In one pass where the objective reads the policy's own frames; else it has its own.
        """
        averages, most = Averages(), self.config.policy.target_kl
        features_of, piece = self.feature_reader(rollout, averages, moved=False)
        shared = self.one_pass
        if shared:
            self.objective.gather(self.streams.objective)
        batches = self.objective_batches(rollout, 0 if shared else self.config.policy.epochs)
        gain, tried = None, False
        for minibatch in until_far(self.policy_batches(rollout.done), averages, most):
            self.policy_optimiser.zero()
            self.objective_optimiser.zero()
            if shared:
                batch = self.objective.batch(rollout, minibatch, self.streams.objective)
                seen = rollout.frames()  # which the batch has gathered already, if there is one
                frames = seen.index_select(0, minibatch.frame) if batch is None else batch.frames
                chosen = self.policy.chosen(steps, minibatch.frame)
                terms, (own, gain, _) = self.shared_backward(frames, chosen, batch, gain, averages)
            else:
                # None where there is no objective, or where fragments were too short for a batch.
                batch = next(batches, None)
                terms = self.policy.backward(features_of, steps, minibatch.frame, piece)
                own = self.added_backward(batch, averages) if batch is not None else {}
            whose = {}
            if batch is not None:
                whose["objective_grad_norm"] = self.objective_optimiser.step()
            whose["policy_grad_norm"] = self.policy_optimiser.step()
            averages.add(**whose, **terms)
            if batch is not None:
                self.objective.after_step(self.agent.encoder)  # which has moved just now
            if own and not tried:
                averages.add(objective_kl=self.trial_kl(rollout, own, whose))
                tried = True
        return averages.numbers()

    def added_backward(self, batch: Any, averages: Averages) -> Gradients:
        """Adds an objective's gradient to the policy's; returns its part on the encoder."""
        policy = take(self.encoder)
        self.objective_backward(batch, averages)
        most = self.config.representation.max_ratio
        own, figures = summed(self.encoder, policy, take(self.encoder), most)
        averages.add_known(**figures)
        return own

    def shared_backward(
        self,
        frames: Frames,
        steps: Experience,
        batch: Any,
        gain: float | None,
        averages: Averages,
    ) -> tuple[dict[str, Tensor], Shared]:
        """Adds the gradients of both losses, from one encoding of the frames."""

        def objective(features: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            loss, evidence = self.objective.loss_of(features, batch, self.streams.objective)
            return self.objective_weight * loss, {"objective_loss": loss} | self.named(evidence)

        features = self.live_encode(self.by_policy or self.by_objective)(frames)
        policy, terms = at_features(features, lambda read: self.policy.loss(read, steps))
        own = None
        if batch is not None:
            own, evidence = at_features(features, objective)
            averages.add(**evidence)
        shared = through_encoder(
            self.encoder,
            features,
            policy if self.by_policy else None,
            own if self.by_objective else None,
            self.config.representation.max_ratio,
            gain,
        )
        averages.add_known(**shared.figures)
        return terms._asdict(), shared

    def trial_kl(self, rollout: Rollout, own: Gradients, norms: dict[str, Tensor]) -> Tensor:
        """How far the policy would move by the objective's part of one joint step alone.

        own: that part on the encoder, before its optimiser bounded the norm of all that it steps.
        """
        who, optimiser = "objective", self.objective_optimiser
        if self.by_policy:
            who, optimiser = "policy", self.policy_optimiser
        kept = (optimiser.max_norm / (norms[f"{who}_grad_norm"] + 1e-6)).clamp(max=1)
        before = self.opinions(rollout)
        with optimiser.tried({name: kept * gradient for name, gradient in own.items()}):
            return ops.divergence(before, self.opinions(rollout))

    def note_norm(self, whose: str, averages: Averages) -> None:
        """The norm of the encoder's gradient, where both train it: `update` makes a ratio of it."""
        grads = {name: p.grad for name, p in self.encoder.items() if p.grad is not None}
        if grads and self.by_policy and self.by_objective:
            averages.add(**{f"{whose}_on_encoder": norm(grads)})

    def update_value(self, rollout: Rollout, steps: Experience) -> Metrics:
        """A value network of its own: its own epochs over the same rollout, the same targets."""
        averages, piece = Averages(), self.steps_at_a_time
        for minibatch in self.policy_batches(rollout.done, self.policy.value_epochs(self.rollouts)):
            encode = self.stepwise_encode(self.policy.value_encoder, live=True)
            features_of = features_by(encode, rollout.frames())
            self.value_optimiser.zero()
            error = self.policy.value_backward(features_of, steps, minibatch.frame, piece)
            averages.add(value_error=error, value_grad_norm=self.value_optimiser.step())
        return averages.numbers()

    @property
    def one_pass(self) -> bool:
        """Does the objective read the frames of the policy's own minibatches?"""
        config = self.config
        stretches = config.policy.stretch > 0 and config.split_at == "fc"
        return self.objective.reads_stretches and stretches and self.objective_weight > 0

    def objective_batches(self, rollout: Rollout, epochs: int) -> Iterator[Any]:
        """All batches of one update, over however many passes."""
        if self.objective_weight:
            self.objective.gather(self.streams.objective)
        count = self.config.representation.minibatches
        for _ in range(epochs if self.objective_weight else 0):
            yield from self.objective.minibatches(rollout, count, self.streams.objective)

    def anchor(self) -> Anchor | None:
        """What holds the policy as it is now, if a pass of the objective is to hold it."""
        if not (self.config.representation.anchor and self.by_objective):
            return None
        assert isinstance(self.agent, PPOAgent)  # the configuration has seen to it
        return Anchor(self.agent, self.live_encode(True))

    def objective_backward(
        self, batch: Any, averages: Averages, anchor: Anchor | None = None
    ) -> None:
        encode = anchor or self.live_encode(self.by_objective)
        loss, evidence = self.objective.loss(encode, batch, self.streams.objective)
        whole, evidence = self.objective_weight * loss, self.named(evidence)
        if anchor is not None:
            evidence["anchor"] = anchor.loss()
            whole = whole + self.config.representation.anchor * evidence["anchor"]
        whole.backward()
        averages.add(objective_loss=loss, **evidence)

    def named(self, evidence: dict[str, Tensor]) -> dict[str, Tensor]:
        """Figures of a person's own method are named after it: they hide none of the others."""
        own = METHODS[self.config.method].own
        return {f"{self.config.method}/{n}": f for n, f in evidence.items()} if own else evidence

    def policy_batches(self, done: Tensor, epochs: int | None = None) -> Iterator[Stretches]:
        policy, done = self.config.policy, done.cpu()
        for _ in range(policy.epochs if epochs is None else epochs):
            for minibatch in minibatches(
                done, policy.minibatches, policy.stretch, self.streams.policy
            ):
                yield Stretches(*(field.to(self.device) for field in minibatch))

    def feature_reader(
        self, rollout: Rollout, averages: Averages, *, moved: bool
    ) -> tuple[Callable[[Tensor], Tensor], int]:
        """How the policy update reads features of steps, and how many steps at a time."""
        agent = self.agent
        acted, frames = rollout.features[:-1].flatten(0, 1), rollout.frames()
        encode = self.stepwise_encode(agent.encoder, live=self.by_policy)
        if moved and self.by_objective and not self.by_policy:
            acted = agent.read(encode, frames)
        with torch.no_grad():
            averages.add(**ops.feature_health(agent.top(acted)))
        # Joint steps move the encoder between minibatches, whoever it is that trains it.
        if self.by_policy or (self.by_objective and self.config.order == "joint"):
            return features_by(partial(agent.read, encode), frames), self.steps_at_a_time
        return lambda index: acted.index_select(0, index), len(acted)


def features_by(read: Callable[[Frames], Tensor], frames: Frames) -> Callable[[Tensor], Tensor]:
    """What is read of the frames of some steps [B], as a function of these steps."""
    return lambda index: read(frames.index_select(0, index))
