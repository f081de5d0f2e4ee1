"""START HERE: the whole training loop, top to bottom.

    play S steps in N environments -> scale the rewards -> advantages
    -> learn (policy and objective, in the order that `order` says) -> record; evaluate, save; again

Killed anywhere, the same command goes on from the last checkpoint and ends with the same bytes.
"""

import time
from typing import Any

from crosstraj.clips.camera import Camera
from crosstraj.config.values import Config
from crosstraj.errors import NonFinite, Unsaved
from crosstraj.learning.display import Display
from crosstraj.learning.evaluation import rows_of, summarise
from crosstraj.learning.kernels import restored
from crosstraj.learning.networks import Start
from crosstraj.learning.signals import Interrupted, Stop
from crosstraj.learning.state import PATIENCE, Training
from crosstraj.learning.watch import Watch
from crosstraj.policies.experience import experience
from crosstraj.runs.directory import Run
from crosstraj.runs.log import newest, read_rows
from crosstraj.runs.mirrors import show_elsewhere


def learn(training: Training) -> dict[str, float]:
    """One turn: play a rollout, scale its rewards, estimate advantages, learn from it."""
    config, learner, collector = training.config, training.learner, training.collector
    figures = training.begin_phase()  # where one begins: routes gradients, resets; else nothing
    rollout = collector.collect(learner.agent)
    reward, of_reward = training.reward(rollout)
    steps = experience(rollout, reward, config.policy)
    figures |= training.score_levels(rollout, steps.advantage)  # where levels are chosen by it
    metrics = learner.update(rollout._replace(reward=reward), steps)
    training.count_update()
    return figures | of_reward | collector.mean_return() | metrics


def resume(training: Training, run: Run, display: Display) -> None:
    """Go on from the newest valid checkpoint, if there is one."""
    if (state := restored(run, training.kernels, display.say)) is None:
        return
    training.load_state_dict(state)
    display.say(f"resuming {run.directory} at {training.frames:,} frames")
    if not training.collector.continued:
        display.say(f"{training.config.env} cannot save its state: resuming with new episodes")


def evaluate(training: Training, run: Run, stop: Stop) -> dict[str, float]:
    """Play the levels that the run is judged by; if a signal comes, nothing is written."""
    episodes = training.examine(stop.check)
    for row in rows_of(episodes, training.frames):
        run.episodes.write(row)
    scores = summarise(episodes)
    run.metrics.write({"row": "evaluation", "frames": training.frames, **scores})
    return scores


def recover(training: Training, run: Run, trouble: NonFinite) -> None:
    """Something was not finite, and touched no weight: keep the rollout, halt or roll back."""
    place = run.dump(training.collector.rollout._asdict(), training.frames)
    found = f"after {training.frames:,} frames {trouble}; the rollout is in {place}"
    if training.config.on_nonfinite == "halt":
        raise NonFinite(f"{found}; --on-nonfinite rollback would try again from the last save")
    if (state := run.restore()) is None:
        raise NonFinite(f"{found}; there is no checkpoint to roll back to")
    if not training.roll_back(state):
        raise NonFinite(f"{found}, as in {PATIENCE} tries before it from the last save")
    run.warn(f"{found}; rolled back to {training.frames:,} frames")


def train(
    config: Config, run: Run, display: Display, stop: Stop, start: Start | None = None
) -> dict[str, Any]:
    """Train until the budget is spent; returns the summary that the run directory then holds."""
    training = Training(config, run.saved_fact("kernels"), start)
    run.facts["kernels"] = training.config.machine.kernels  # chosen, now that frames are known
    resume(training, run, display)
    show_elsewhere(run, config)
    camera = Camera(config, run)
    saved, spent = time.monotonic(), time.process_time()
    latest, watch = newest(run.metrics.path), Watch(config, read_rows(run.metrics.path))
    display.show(training.frames, latest)
    try:
        while True:
            try:
                if training.examiner.due(training.frames, training.examined):
                    latest |= evaluate(training, run, stop)
                    display.show(training.frames, latest)
                    camera.film(training.learner, training.frames)
                if training.frames >= config.frames:
                    break
                began = time.monotonic()
                metrics = learn(training)
            except NonFinite as trouble:
                recover(training, run, trouble)
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
            stop.check()
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
