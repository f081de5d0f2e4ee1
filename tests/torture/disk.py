"""The disk: death at every operation of a save, damage, full and read-only disks, other formats."""

import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from crosstraj.runs import checkpoint
from crosstraj.runs.codec import State
from crosstraj.runs.directory import Run
from tests.runs.faults import Fault, equal
from tests.torture.resume import SHORT
from tests.torture.runs import (
    Outcome,
    Workshop,
    directory_of,
    ends_as,
    fault,
    in_lanes,
    newest_of,
    play,
    steps_of,
    tally,
    verdict,
)

FRAMES = SHORT.size.rollout_frames


def stopped_run(shop: Workshop, name: str) -> Path:
    """Runs of one command, stopped after four updates: checkpoints after the third and fourth."""
    stopped = shop.root / "stopped-short"
    if not stopped.exists():
        play(SHORT.command(shop.place("stopped-short")), fault("train:learn", 4, "send", 15))
    assert steps_of(directory_of(stopped)) == [4 * FRAMES, 3 * FRAMES]
    return shop.copy(stopped, name)


def reopen(directory: Path, sentences: list[str]) -> Run:
    """The run directory as its next process finds it."""
    stored = json.loads((directory / "config.json").read_bytes())
    facts = json.loads((newest_facts(directory)).read_bytes())["facts"]
    return Run.open(directory, stored["config"], stored["identity"], facts, warn=sentences.append)


def newest_facts(directory: Path) -> Path:
    """A manifest that holds the facts of this machine: of a snapshot, which no row touches."""
    return next((directory / "snapshots").glob("step-*/MANIFEST.json"))


# --- The process dies in a save


def die_in_a_save(directory: Path, step: int, at: int, when: str) -> bool:
    """In a child: save `step` once more, and end amid or after the n-th operation. Did it?"""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            run = reopen(directory, [])
            state = run.restore() or {}
            run.metrics.write({"frames": step, "row": "late"})
            Fault(pytest.MonkeyPatch(), at, when, lambda: os._exit(9))
            saved = run.save({**state, "counters": {"frames": step}}, step)
            os._exit(0 if saved else 1)
        os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, 9):
        raise RuntimeError(f"the child ended with {code}")
    if code == 0 and steps_of(directory)[0] != step:
        raise RuntimeError(f"nothing happened to the save of step {step}, and it is not there")
    return code == 9


def after_death(directory: Path, old: State, step: int) -> str:
    """Is the newest valid checkpoint the old or the new one, and do the logs agree with it?"""
    sentences: list[str] = []
    with reopen(directory, sentences) as run:
        found = run.restore()
        rows = run.metrics.path.read_text().count('"late"')
    if found is None or sentences:
        return f"restoring said {sentences or 'nothing'} and found {'nothing' if not found else ''}"
    is_new = found["counters"] == {"frames": step} and rows == 1
    rest = {**found, "counters": old["counters"]}
    is_old = found["counters"] == old["counters"] and rows == 0
    if not (is_new or is_old) or not equal(old, rest):
        return f"neither the old nor the new state: {found['counters']}, {rows} rows"
    return "" if not list(directory.rglob(".tmp-*")) else "leftovers stay"


def deaths(shop: Workshop) -> Outcome:
    """A new step, and the same step again, which is what the end of a run does."""
    complaints = []
    with reopen(directory_of(stopped_run(shop, "dying")), []) as run:
        old = run.restore() or {}
    for step in (5 * FRAMES, 4 * FRAMES):
        for when in ("amid", "after"):
            for at in count(1):
                directory = directory_of(stopped_run(shop, "dying"))
                if not die_in_a_save(directory, step, at, when):
                    break
                wrong = after_death(directory, old, step)
                complaints.append(f"step {step}, {when} operation {at}: {wrong}" if wrong else "")
    return tally(complaints)


# --- Damage


def flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, dice: random.Random) -> None:
    os.truncate(path, dice.randrange(path.stat().st_size))


def delete(path: Path, dice: random.Random) -> None:
    path.unlink()


Damage = Callable[[Path, random.Random], None]


def damaged(directory: Path, name: str, damage: Damage, dice: random.Random) -> str:
    """Damage one file of the newest checkpoint: is it noticed, said, and the other one used?"""
    newest = newest_of(directory)
    before = (newest / name).read_bytes()
    damage(newest / name, dice)
    sentences: list[str] = []
    used = checkpoint.newest(newest.parent, sentences.append)
    (newest / name).write_bytes(before)
    if used != newest.with_name(f"step-{3 * FRAMES}"):
        return f"{damage.__name__} {name}: {used} was used"
    said = len(sentences) == 1 and f"{newest} is broken: " in sentences[0]
    return "" if said else f"{damage.__name__} {name}: it was said in these words: {sentences}"


def resumed_from_damage(shop: Workshop, name: str, damage: Damage) -> str:
    """The same with the real command, which must also end with the same bytes."""
    runs = stopped_run(shop, f"{damage.__name__}-{name}")
    newest = newest_of(directory_of(runs))
    damage(newest / name, random.Random(name))
    ended = play(SHORT.command(runs))
    words = (f"{newest} is broken: ", f" at {3 * FRAMES:,} frames")  # those of the one before it
    return verdict(ended, runs, shop.reference(SHORT).end, *words)


def damages(shop: Workshop) -> Outcome:
    dice = random.Random(0)
    directory = directory_of(stopped_run(shop, "damaged"))
    files = checkpoint.FILES
    trials = [(files[turn % 4], flip) for turn in range(200)]
    trials += [(files[turn % 4], truncate) for turn in range(50)]
    trials += [(name, delete) for name in files]
    complaints = [damaged(directory, name, damage, dice) for name, damage in trials]
    shop.reference(SHORT)
    real = [(name, damage) for name in files for damage in (flip, delete)]
    return tally(complaints + in_lanes(lambda pair: resumed_from_damage(shop, *pair), real))


# --- The disk refuses


def refused_for_a_while(shop: Workshop, name: str, *faults: dict[str, object]) -> str:
    """Saves fail in the middle of a run: it warns, goes on, and ends as if nothing had been."""
    runs = shop.place(f"refused-{name}")
    place = str(runs / directory_of(shop.reference(SHORT).runs).name / "checkpoints")
    told = [{**each, "told": each["told"] or place} for each in faults]
    ended = play(SHORT.command(runs), *told)
    return verdict(ended, runs, shop.reference(SHORT).end, "the run goes on")


def refused_at_the_end(shop: Workshop, name: str, *faults: dict[str, object]) -> str:
    """The last saves fail: exit code 74, and the same command makes up for it."""
    runs = shop.place(f"unsaved-{name}")
    place = str(runs / directory_of(shop.reference(SHORT).runs).name / "checkpoints")
    told = [{**each, "told": each["told"] or place} for each in faults]
    ended = play(SHORT.command(runs), *told)
    if ended.code != 74 or "could not be saved" not in ended.errors:
        return f"{name} at the end: code {ended.code}: {ended.errors[-500:]}"
    frames = steps_of(directory_of(runs))[0]
    if frames != 4 * FRAMES:
        return f"{name} at the end: the newest checkpoint is at {frames} frames"
    os.chmod(directory_of(runs) / "checkpoints", 0o755)
    return ends_as(SHORT, runs, shop.reference(SHORT).end)


def refusals(shop: Workshop) -> Outcome:
    shop.reference(SHORT)
    # After the first evaluation: the engine reads its pictures when its games are made.
    full, free = (fault("train:learn", at, "limit", size) for at, size in ((4, 1000), (5, -1)))
    closed, opened = fault("train:learn", 4, "forbid"), fault("train:learn", 5, "allow")
    trials = [
        partial(refused_for_a_while, shop, "full", full, free),
        partial(refused_for_a_while, shop, "read-only", closed, opened),
        partial(refused_at_the_end, shop, "full", {**full, "at": 5}),
        partial(refused_at_the_end, shop, "read-only", {**closed, "at": 5}),
    ]
    for at in (6, 7, 8, 9):  # each file of the second save; the first call wrote config.json
        no_space = fault("disk:write_file", at, "no space", "-")
        trials.append(partial(refused_for_a_while, shop, f"space-{at}", no_space))
    return tally(in_lanes(lambda trial: trial(), trials))


# --- Other machines, formats and configurations


def rewritten(directory: Path, facts: dict[str, object]) -> None:
    """The newest checkpoint, as another machine would have written it."""
    newest = newest_of(directory)
    state, known = checkpoint.read(newest)
    step = int(newest.name.removeprefix("step-"))
    checkpoint.write(newest.parent, step, state, {**known, **facts})


def refused_then_allowed(shop: Workshop, fact: str, value: object) -> str:
    """Facts of another machine are refused by name, and taken with --allow-inexact."""
    runs = stopped_run(shop, f"fact-{fact}-{value}")
    command = SHORT.command(runs)
    if fact == "threads":  # the one that a user can change
        command = (*command, "--machine.threads", str(value))
    else:
        rewritten(directory_of(runs), {fact: value})
    first = play(command)
    if first.code != 2 or f"{fact} is " not in first.errors:
        return f"{fact}: code {first.code}: {first.errors[-500:]}"
    second = play((*command, "--allow-inexact", "True"))
    if second.code or "resuming is not exact" not in second.errors:
        return f"{fact}, allowed: code {second.code}: {second.errors[-500:]}"
    return ""


def other_machines(shop: Workshop) -> Outcome:
    facts = (("torch", "2.8.0"), ("threads", 1), ("compiled", True), ("cpu", "DEFAULT"))
    stopped_run(shop, "fact")
    return tally(in_lanes(lambda pair: refused_then_allowed(shop, *pair), facts))


def reformat(directory: Path, number: int) -> None:
    """A manifest of another format, sealed as that version would have sealed it."""
    for path in (directory / "checkpoints").iterdir():
        manifest = json.loads((path / checkpoint.MANIFEST).read_bytes())
        del manifest["seal"]
        sealed = checkpoint._seal({**manifest, "format": number})
        (path / checkpoint.MANIFEST).write_bytes(sealed)


def other_format(shop: Workshop, number: int) -> str:
    runs = stopped_run(shop, f"format-{number}")
    reformat(directory_of(runs), number)
    ended = play(SHORT.command(runs))
    good = ended.code == 2 and f"has format {number}" in ended.errors
    return "" if good else f"format {number}: code {ended.code}: {ended.errors[-500:]}"


def other_config(shop: Workshop, name: str, change: Callable[[Path], None], words: str) -> str:
    runs = stopped_run(shop, f"config-{name}")
    change(directory_of(runs))
    ended = play(SHORT.command(runs))
    good = ended.code == 2 and words in ended.errors
    return "" if good else f"{name}: code {ended.code}: {ended.errors[-500:]}"


def edit_config(directory: Path, old: str, new: str) -> None:
    path = directory / "config.json"
    path.write_text(path.read_text().replace(old, new))


def other_formats(shop: Workshop) -> Outcome:
    shop.reference(SHORT)
    stopped_run(shop, "format")
    other_identity = partial(rewritten, facts={"identity": "0" * 64})
    other_name = partial(edit_config, old='"identity": "', new='"identity": "0')
    newer = partial(edit_config, old='"format": 1', new='"format": 2')
    trials = [
        partial(other_format, shop, checkpoint.FORMAT + 1),
        partial(other_format, shop, checkpoint.FORMAT - 1),
        partial(other_config, shop, "checkpoint", other_identity, "is of another configuration"),
        partial(other_config, shop, "directory", other_name, "holds another configuration"),
        partial(other_config, shop, "format", newer, "has format 2"),
    ]
    return tally(in_lanes(lambda trial: trial(), trials))
