"""Is a person's own method sound? Trained tiny, twice and through a stop; faults in words.

Two runs of one seed must be equal whatever the global generators hold; a run that was stopped must
go on as if it had not been, from its checkpoint and a new reading of the file; the loss must reach
the encoder and every parameter; and nothing may be learnt across the end of an episode.
"""

import random
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from crosstraj.analysis.episode_ends import across_ends
from crosstraj.config.methods import brought
from crosstraj.config.own import read_method
from crosstraj.config.presets import plain
from crosstraj.config.values import Config
from crosstraj.data.rollout import Rollout
from crosstraj.errors import Refusal
from crosstraj.learning.state import Training
from crosstraj.loop import learn
from crosstraj.runs import checkpoint

UPDATES, STOPPED_AFTER = 3, 2


class Course(NamedTuple):
    """What a short run was, as far as equal runs must be equal."""

    rows: list[dict[str, float]]
    weights: dict[str, Tensor]
    drawn: set[str]  # the global generators that were drawn from

    def difference(self, other: "Course") -> str:
        """The first thing in which two courses differ, in words; empty where they are equal."""
        for number, rows in enumerate(zip(self.rows, other.rows, strict=True), 1):
            for name in sorted(rows[0].keys() | rows[1].keys()):
                one, two = (row.get(name) for row in rows)
                if one != two:
                    return f"{name} is {one} and {two} in update {number}"
        for name, tensor in self.weights.items():
            if not torch.equal(tensor, other.weights[name]):
                return f"the weights {name} differ"
        return ""


def faults(name: str, env: str) -> list[str]:
    """What is wrong with a method that was brought along; none when all is well."""
    file, threads = brought()[name].file, torch.get_num_threads()
    torch.set_num_threads(1)  # so little work that threads would only wait for each other
    try:
        with global_generators(seed=1):
            first = course(tiny(name, env))
        with global_generators(seed=2):
            again = course(fresh(file, name, env))
        found = [random_fault(first.drawn | again.drawn)]
        if not any(found):
            found += [difference_fault(first.difference(again))]
        if not any(found):
            found += [stop_fault(file, name, env, first)]
        config = fresh(file, name, env)
        training = Training(config)
        rollout = training.collector.collect(training.learner.agent)
        found += gradient_faults(training, rollout)
        found += [across_ends(training.learner, rollout)]
    except Refusal:
        raise
    except Exception as error:
        return [failure(error, file)]
    finally:
        torch.set_num_threads(threads)
    return [fault for fault in found if fault]


def tiny(name: str, env: str) -> Config:
    """The method's own values, in the smallest run that they fit."""
    config = plain(name)
    steps = max(16, 4 * config.objective.needs()[0])
    return replace(
        config,
        env=env,
        encoder="laptop",
        envs=4,
        rollout_steps=steps,
        frames=4 * steps * UPDATES,
        policy=replace(config.policy, minibatches=2),
        representation=replace(config.representation, minibatches=2),
    )


def fresh(file: str, name: str, env: str) -> Config:
    """The same after reading the file anew: nothing that it kept outside a run is left."""
    read_method(Path(file))
    return tiny(name, env)


@contextmanager
def global_generators(seed: int) -> Iterator[None]:
    """In the block they hold what this seed gives; they are put back after it."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 (it is what is watched)
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


def states() -> dict[str, bytes]:
    """Where the global generators stand."""
    numpy = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    return {
        "torch's": torch.default_generator.get_state().numpy().tobytes(),
        "numpy's": numpy["key"].tobytes() + str(numpy["pos"]).encode(),
        "Python's": str(random.getstate()).encode(),
    }


def course(config: Config, training: Training | None = None, updates: int = UPDATES) -> Course:
    before = states()
    training = training or Training(config)
    rows = [learn(training) for _ in range(updates)]
    weights = {name: tensor.clone() for name, tensor in training.learner.flat_weights().items()}
    return Course(rows, weights, {name for name, at in states().items() if at != before[name]})


def random_fault(drawn: set[str]) -> str:
    if not drawn:
        return ""
    return (
        f"global randomness: {' and '.join(sorted(drawn))} global generator was drawn from, so "
        "that equal runs differ; draw from the `rng` that minibatches, loss and the constructor "
        "are given (torch.randperm(n, generator=rng)); nn.Dropout cannot do that"
    )


def difference_fault(difference: str) -> str:
    if not difference:
        return ""
    return (
        f"two runs of one seed differ: {difference}; something beside the seed decides, such as "
        "the clock, the order of a set, or features[index] on several threads (use index_select)"
    )


def stop_fault(file: str, name: str, env: str, whole: Course) -> str:
    """Stops after some updates, goes on from the checkpoint, and compares."""
    config = fresh(file, name, env)
    stopped = Training(config)
    rows = [learn(stopped) for _ in range(STOPPED_AFTER)]
    with TemporaryDirectory() as place:
        path = checkpoint.write(Path(place), 1, stopped.state_dict(), {})
        state, _ = checkpoint.read(path)
    resumed = Training(fresh(file, name, env))
    resumed.load_state_dict(state)
    lost = ", ".join(lost_attributes(stopped, resumed))
    rest = course(config, resumed, UPDATES - STOPPED_AFTER)
    difference = whole.difference(rest._replace(rows=rows + rest.rows))
    if not difference:
        return ""
    where = f"the objective's {lost}" if lost else "a global variable, or an attribute of a class"
    return (
        f"state outside state_dict: a run that was stopped after update {STOPPED_AFTER} goes on "
        f"differently ({difference}); {where} was not saved; make it a parameter, or a tensor with "
        "register_buffer"
    )


def lost_attributes(stopped: Training, resumed: Training) -> list[str]:
    """Plain attributes of the objective that a checkpoint did not bring back."""
    kept, found = (vars(t.learner.objective) for t in (stopped, resumed))
    names = [n for n in kept if not n.startswith("_") and n not in ("config", "source", "training")]
    return [name for name in names if not alike(kept[name], found.get(name))]


def alike(one: Any, two: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(two, Tensor):
        return torch.equal(one, two)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(alike, one, two))
    return repr(one) == repr(two)


def gradient_faults(training: Training, rollout: Rollout) -> list[str]:
    """Does the loss reach the encoder and all that the objective owns?"""
    learner = training.learner
    batches = list(learner.objective_batches(rollout, 1))
    if not batches:
        return [
            "no batch: minibatches gave nothing for a rollout of "
            f"{len(rollout.done)} steps in {rollout.done.shape[1]} environments"
        ]
    for batch in batches:
        loss, evidence = learner.objective.loss(
            learner.live_encode(True), batch, training.streams.objective
        )
        for name, figure in {"the loss": loss, **evidence}.items():
            if not isinstance(figure, Tensor) or figure.ndim:
                return [f"{name} is {type(figure).__name__} {figure}: give a tensor of one number"]
        if not loss.requires_grad:
            return ["the loss has no gradient at all: it was computed without one, or detached"]
        loss.backward()
    return [encoder_fault(learner.agent.encoder), dead_fault(learner.objective)]


def reached(parameter: Tensor) -> bool:
    return parameter.grad is not None and bool(parameter.grad.any())


def encoder_fault(encoder: torch.nn.Module) -> str:
    if any(map(reached, encoder.parameters())):
        return ""
    return (
        "the encoder gets no gradient of the loss, so its features learn nothing from it; do not "
        "detach what `encode` gives, nor call it under no_grad: where gradients go is the "
        "trainer's to decide (encoder_grad)"
    )


def dead_fault(objective: torch.nn.Module) -> str:
    named = objective.named_parameters()
    dead = [name for name, p in named if p.requires_grad and not reached(p)]
    if not dead:
        return ""
    return (
        f"dead parameters: no gradient reaches {', '.join(dead[:5])}; use them in the loss, or "
        "requires_grad_(False) if they only follow others"
    )


def failure(error: Exception, file: str) -> str:
    """What was raised, and the last line of the person's own file that it passed."""
    here = Path(file).resolve()
    frames = traceback.extract_tb(error.__traceback__)
    own = [at for at in frames if Path(at.filename).resolve() == here]
    where = f" in line {own[-1].lineno} ({own[-1].line})" if own else ""
    return f"it fails{where}: {type(error).__name__}: {error}"
