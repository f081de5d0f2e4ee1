"""START HERE: the whole training loop, top to bottom.

    play S steps in N environments -> scale the rewards -> advantages
    -> learn (policy and objective, in the order that `order` says) -> record; evaluate, save; again

A run is a function of its configuration alone: killed anywhere, the same command goes on from the
last checkpoint and ends with the same bytes.
"""

import time
from typing import Any

import torch

from crosstraj.config.values import Config
from crosstraj.envs import savable
from crosstraj.errors import NonFinite, Refusal
from crosstraj.learning.display import Display
from crosstraj.learning.load import place_of
from crosstraj.learning.signals import Interrupted, Stop
from crosstraj.learning.state import Training
from crosstraj.learning.watch import Watch
from crosstraj.policies.experience import experience
from crosstraj.runs.directory import Run, machine_facts
from crosstraj.runs.log import read_rows
from crosstraj.runs.mirrors import show_in_tensorboard


class Unsaved(Refusal):
    """Trained to the end, but the last checkpoint or the summary could not be written."""

    exit_code = 74  # EX_IOERR


def learn(training: Training) -> dict[str, float]:
    """One turn: play a rollout, scale its rewards, estimate advantages, learn from it."""
    config, learner, collector = training.config, training.learner, training.collector
    figures = training.begin_phase()  # where one begins: routes gradients, resets; else nothing
    rollout = collector.collect(learner.agent)
    reward, of_reward = training.reward(rollout)
    steps = experience(rollout, reward, config.policy)
    metrics = learner.update(rollout._replace(reward=reward), steps)
    training.frames += config.rollout_frames
    training.updates += 1
    return figures | of_reward | collector.mean_return() | metrics


def open_run(config: Config, display: Display, *, allow_inexact: bool = False) -> Run:
    """The run directory that belongs to this configuration, owned by this process."""
    config.machine.check_presence()
    torch.set_num_threads(config.threads)
    directory, identity = place_of(config)
    facts = machine_facts(compiled=config.machine.compile) | config.machine.rounding()
    return Run.open(
        directory, config.to_dict(), identity, facts, allow_inexact=allow_inexact, warn=display.say
    )


def resume(training: Training, run: Run, display: Display) -> None:
    """Go on from the newest valid checkpoint, if there is one."""
    if (state := run.restore()) is None:
        return
    training.load_state_dict(state)
    display.say(f"resuming {run.directory} at {training.frames:,} frames")
    if not savable(training.envs):
        display.say(f"{training.config.env} cannot save its state: resuming with new episodes")


def latest_figures(run: Run) -> dict[str, Any]:
    """The newest value of every figure in the log: what a resumed run shows and sums up."""
    figures: dict[str, Any] = {}
    for row in read_rows(run.metrics.path):
        figures |= row
    return {name: value for name, value in figures.items() if name not in ("row", "frames")}


def train(config: Config, run: Run, display: Display, stop: Stop) -> dict[str, Any]:
    """Train until the budget is spent; returns the summary that the run directory then holds."""
    training = Training(config)
    resume(training, run, display)
    if config.saving.tensorboard:
        show_in_tensorboard(run.metrics, run.directory / "tensorboard", run.warn)
    saved, spent = time.monotonic(), time.process_time()
    latest, watch = latest_figures(run), Watch(config, read_rows(run.metrics.path))
    display.show(training.frames, latest)
    try:
        while True:
            try:
                if training.examiner.due(training.frames, training.examined):
                    latest |= training.examine(run, stop)
                    display.show(training.frames, latest)
                if training.frames >= config.frames:
                    break
                began = time.monotonic()
                metrics = learn(training)
            except NonFinite as trouble:
                training.recover(run, trouble)
                continue
            latest |= metrics
            run.metrics.write({"row": "update", "frames": training.frames, **metrics})
            seconds, used = time.monotonic() - began, time.process_time() - spent
            run.timing.write({"frames": training.frames, "seconds": seconds, "processor": used})
            spent += used
            display.show(training.frames, latest)
            for sentence in watch.news(metrics):
                display.say(sentence)
            if training.at_snapshot():
                run.snapshot(training.learner.flat_weights(), training.frames)
            if stop.signal is not None:
                raise Interrupted(stop.signal)
            if time.monotonic() - saved >= config.saving.checkpoint_seconds:
                run.save(training.state_dict(), training.frames)
                saved = time.monotonic()
    except Interrupted:
        run.save(training.state_dict(), training.frames)
        raise
    summary = {"frames": training.frames, "updates": training.updates, **latest}
    if not (run.save(training.state_dict(), training.frames) and run.finish(summary)):
        raise Unsaved(f"{run.directory}: the last state could not be saved; see above")
    return summary
