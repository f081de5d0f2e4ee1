"""Stops, kills and signals: whatever ends a process, the same command ends with the same bytes."""

import random
import signal
import time
from itertools import chain, cycle
from pathlib import Path
from typing import NamedTuple

from tests.torture.runs import (
    SHIPPED,
    Ended,
    Job,
    Outcome,
    Reference,
    Workshop,
    checkpoint_digests,
    different,
    directory_of,
    ends_as,
    fault,
    finish,
    in_lanes,
    newest_of,
    play,
    start,
    start_plain,
    steps_of,
    tally,
    wait_for_mark,
)

METHODS = ("ppo", "ctrl", "situations")
LONG = {method: Job(method, updates=21, evaluate_every=9) for method in METHODS}
SHORT = Job("ctrl", updates=6, evaluate_every=3)
FULL = Job("ctrl", updates=3, evaluate_every=3, size=SHIPPED)

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


# --- Nothing happens


def undisturbed(shop: Workshop) -> Outcome:
    """The command as a user gives it, without deterministic algorithms: the same bytes."""

    def again(job: Job) -> str:
        runs = shop.place(f"again-{job.method}")
        return ends_as(job, runs, shop.reference(job).end, start=start_plain)

    for job in LONG.values():
        shop.reference(job)
    return tally(in_lanes(again, LONG.values()))


# --- Stop after an update


def stop_once(reference: Reference, runs: Path, update: int) -> str:
    """One more update, then SIGTERM: is the checkpoint that of a run which was not stopped?"""
    ended = play(reference.job.command(runs), fault("train:learn", 1, "send", int(signal.SIGTERM)))
    if ended.code != 128 + signal.SIGTERM:
        return f"{runs.name}: SIGTERM gave exit code {ended.code}: {ended.errors[-500:]}"
    newest = newest_of(directory_of(runs))
    frames = update * reference.job.size.rollout_frames
    if newest.name != f"step-{frames}":
        return f"{runs.name}: stopped with {newest.name}, not at {frames}: it did not go on"
    wrong = different(checkpoint_digests(newest), reference.after[frames])
    return f"{runs.name} at {frames} frames: {wrong}" if wrong else ""


def stop_everywhere(shop: Workshop, reference: Reference) -> list[str]:
    """One run, stopped after each update and resumed by the next process; a verdict per stop.

    Every fourth stop is kept, and goes to the end in one go as well.
    """
    job = reference.job
    runs = shop.place(f"stops-{job.method}")
    complaints, kept = [], dict[int, Path]()
    for update in range(1, job.updates):
        complaints.append(stop_once(reference, runs, update))
        if update % 4 == 0:
            kept[update] = shop.copy(runs, f"stopped-{job.method}-{update}")
    end = ends_as(job, runs, reference.end)
    in_one_go = {update: ends_as(job, place, reference.end) for update, place in kept.items()}
    return [
        complaint or end or in_one_go.get(update, "")
        for update, complaint in enumerate(complaints, 1)
    ]


def stops(shop: Workshop) -> Outcome:
    references = [shop.reference(job) for job in LONG.values()]
    stopped = in_lanes(stop_everywhere, [shop] * len(references), references)
    return tally(chain.from_iterable(stopped))


def stops_shipped(shop: Workshop) -> Outcome:
    reference, runs = shop.reference(FULL), shop.place("stops-shipped")
    complaints = [stop_once(reference, runs, update) for update in (1, 2, 3)]
    end = ends_as(FULL, runs, reference.end)
    return tally(complaint or end for complaint in complaints)


# --- kill -9


def kill_in_a_save(job: Job, runs: Path, dice: random.Random) -> Ended:
    """Dies right after some operation on the disk."""
    operation = dice.choice(("write_file", "fsync", "rename", "mkdir", "remove"))
    at = dice.randint(2, 30 if operation in ("write_file", "fsync") else 8)
    return play(job.command(runs), fault(f"disk:{operation}", at, "send", int(signal.SIGKILL)))


def kill_by_the_clock(job: Job, runs: Path, dice: random.Random, seconds: float) -> Ended:
    """Killed from outside, at a random moment after the environments were made."""
    process = start(job.command(runs), fault("learning.state:make_envs", 1, "mark"))
    wait_for_mark(process)
    time.sleep(dice.uniform(0.0, seconds))
    process.kill()
    return finish(process)


def killed_run(
    shop: Workshop, reference: Reference, name: str, dice: random.Random, most: int
) -> list[str]:
    """One run, killed up to `most` times and started again each time; a verdict for each kill."""
    job, runs, kills, reached = reference.job, shop.place(name), 0, 0
    seconds = 1.5 * reference.update_seconds * reference.job.updates / most
    for turn in range(2 * most):
        ended = (
            kill_in_a_save(job, runs, dice)
            if turn % 2
            else kill_by_the_clock(job, runs, dice, seconds)
        )
        kills += ended.code == -signal.SIGKILL
        if ended.code not in (-signal.SIGKILL, 0):
            return [f"{name}: ended with {ended.code}: {ended.errors[-500:]}"]
        before, reached = reached, max(steps_of(directory_of(runs)), default=0)
        if reached < before:
            return [f"{name}: was at {before} frames, and is at {reached} after a kill"]
        if ended.code == 0 or kills == most:
            break
    return [ends_as(job, runs, reference.end)] * kills


def kills(shop: Workshop) -> Outcome:
    def lane(number: int) -> list[str]:
        dice, verdicts = random.Random(number), list[str]()
        turns = cycle(references)  # five runs at least, so each method is killed
        while len(verdicts) < 25:
            name = f"killed-{number}-{len(verdicts)}"
            most = min(5, 25 - len(verdicts))
            verdicts += killed_run(shop, next(turns), name, dice, most)
        return verdicts

    references = [shop.reference(job) for job in LONG.values()]
    return tally(chain.from_iterable(in_lanes(lane, range(2))))


def kills_shipped(shop: Workshop) -> Outcome:
    reference, dice, verdicts = shop.reference(FULL), random.Random(2), list[str]()
    while len(verdicts) < 3:
        name, most = f"killed-shipped-{len(verdicts)}", 3 - len(verdicts)
        verdicts += killed_run(shop, reference, name, dice, most)
    return tally(verdicts)


# --- Signals in every phase


class Phase(NamedTuple):
    """A place in a run at which a signal comes."""

    target: str
    at: int
    stopped_after: int  # frames of the checkpoint that it must have left


FRAMES = SHORT.size.rollout_frames
PHASES = {  # in the second update; in its save, after which one more is played; in the evaluation
    "rollout": Phase("data.collect:Collector._step", 40, 2 * FRAMES),
    "update": Phase("learning.optimiser:Optimiser.step", 6, 2 * FRAMES),  # 2 + 2 steps in each
    "save": Phase("disk:write_file", 8, 3 * FRAMES),  # config.json, then 4 files in each
    "evaluation": Phase("learning.evaluation:outcome_of", 3, 3 * FRAMES),
}


def signalled(reference: Reference, runs: Path, phase: Phase, number: int) -> str:
    """A signal in a phase: exit code, checkpoint within one update, and the end."""
    job = reference.job
    ended = play(job.command(runs), fault(phase.target, phase.at, "send", int(number)))
    if ended.code != 128 + number:
        return f"{runs.name}: exit code {ended.code}, not {128 + number}: {ended.errors[-500:]}"
    newest = newest_of(directory_of(runs))
    if newest.name != f"step-{phase.stopped_after}":
        return f"{runs.name}: stopped with {newest.name}, not at {phase.stopped_after}"
    wrong = different(checkpoint_digests(newest), reference.after[phase.stopped_after])
    return f"{runs.name}: {wrong}" if wrong else ends_as(job, runs, reference.end)


def signalled_twice(reference: Reference, runs: Path, phase: Phase, number: int) -> str:
    """The second signal leaves at once, with nothing lost but what came after the last save."""
    job = reference.job
    ended = play(job.command(runs), fault(phase.target, phase.at, "send twice", int(number)))
    if ended.code != 128 + number:
        return f"{runs.name}: exit code {ended.code}, not {128 + number}: {ended.errors[-500:]}"
    if ended.at - ended.mark > 1.0:
        return f"{runs.name}: left {ended.at - ended.mark:.1f} s after the second signal"
    return ends_as(job, runs, reference.end)


def signals(shop: Workshop) -> Outcome:
    reference = shop.reference(SHORT)

    def trial(case: tuple[str, Phase, int, str]) -> str:
        name, phase, number, times = case
        runs = shop.place(f"{times}-{name}-{signal.Signals(number).name}")
        judge = signalled if times == "once" else signalled_twice
        return judge(reference, runs, phase, number)

    cases = [(*item, number, "once") for item in PHASES.items() for number in SIGNALS]
    cases += [(*item, SIGNALS[index % 3], "twice") for index, item in enumerate(PHASES.items())]
    return tally(in_lanes(trial, cases))


def signals_shipped(shop: Workshop) -> Outcome:
    """One run that is stopped three times: in the rollout, in the update, in the evaluation."""
    reference, runs = shop.reference(FULL), shop.place("signals-shipped")
    frames, complaints = FULL.size.rollout_frames, list[str]()
    points = (
        ("data.collect:Collector._step", 40, signal.SIGTERM, frames),
        ("learning.optimiser:Optimiser.step", 12, signal.SIGINT, 2 * frames),  # 8 + 8 steps in each
        ("learning.evaluation:outcome_of", 3, signal.SIGHUP, 3 * frames),
    )
    for target, at, number, stopped_after in points:
        ended = play(FULL.command(runs), fault(target, at, "send", int(number)))
        newest = newest_of(directory_of(runs))
        good = ended.code == 128 + number and steps_of(directory_of(runs))[0] == stopped_after
        wrong = different(checkpoint_digests(newest), reference.after[stopped_after])
        complaints.append(wrong if good else f"{target}: code {ended.code}, {newest.name}")
    end = ends_as(FULL, runs, reference.end)
    return tally(complaint or end for complaint in complaints)
