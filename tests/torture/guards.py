"""What must never get in: numbers that are not finite, a stranger's code, a second owner."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from crosstraj.runs import checkpoint
from tests.torture.disk import stopped_run
from tests.torture.resume import SHORT
from tests.torture.runs import (
    ENVIRONMENT,
    ROOT,
    Job,
    Outcome,
    Workshop,
    checkpoint_digests,
    different,
    directory_of,
    ends_as,
    fault,
    fingerprint,
    finish,
    in_lanes,
    newest_of,
    play,
    start,
    tally,
    wait_for_mark,
)

FRAMES = SHORT.size.rollout_frames
ROLLING = SHORT._replace(options=("--on-nonfinite", "rollback"))


# --- Not finite


class Poison(NamedTuple):
    """Where it is put in the third update, and the words that must name it."""

    target: str
    at: int
    action: str
    words: str


POISONS = {  # an update has 32 steps of the games, 2 steps of the policy, 2 of the objective
    "policy loss": Poison("policies.ppo:terms", 2 * 2 + 2, "poison terms", "the gradient of "),
    "objective loss": Poison(
        "objectives.ctrl:CTRL.loss", 2 * 2 + 2, "poison loss", "the gradient of objective."
    ),
    "gradient": Poison(
        "policies.policy:Policy.backward",
        2 * 2 + 2,
        "poison gradient",
        "of policy.weight is not finite",
    ),
    "reward": Poison(
        "envs.procgen:ProcgenVectorEnv.step", 2 * 32 + 5, "poison reward", "a reward is not finite"
    ),
}


def all_finite(path: Path) -> bool:
    state, _ = checkpoint.read(path)

    def finite(node: Any) -> bool:
        if isinstance(node, dict):
            return all(map(finite, node.values()))
        if isinstance(node, list):
            return all(map(finite, node))
        if isinstance(node, float):
            return abs(node) < float("inf")
        return not hasattr(node, "isfinite") or bool(node.isfinite().all())

    return finite(state)


def halted(shop: Workshop, what: str, value: str) -> str:
    """Exit code 70, the tensor's name, the rollout on the disk, and a checkpoint from before."""
    runs, reference = shop.place(f"halt-{what}-{value}"), shop.reference(SHORT)
    target, at, action, words = POISONS[what]
    ended = play(SHORT.command(runs), fault(target, at, action, value))
    if ended.code != 70 or words not in ended.errors:
        return f"{value} in {what}: code {ended.code}: {ended.errors[-500:]}"
    directory = directory_of(runs)
    if "reward" not in checkpoint.read_weights(directory / "nonfinite" / f"step-{2 * FRAMES}"):
        return f"{value} in {what}: the rollout was not written"
    newest = newest_of(directory)
    wrong = different(checkpoint_digests(newest), reference.after[2 * FRAMES])
    if wrong or not all_finite(newest):
        return f"{value} in {what}: the checkpoint is not that of the update before: {wrong}"
    return ends_as(SHORT, runs, reference.end)


def rolled_back(shop: Workshop, what: str, value: str) -> str:
    """It goes on to the end from the last good state, by another way; NaN twice, the same way."""
    ends = []
    target, at, action, _ = POISONS[what]
    for turn in range(2 if value == "nan" else 1):
        runs = shop.place(f"rollback-{what}-{value}-{turn}")
        ended = play(ROLLING.command(runs), fault(target, at, action, value))
        if ended.code or f"rolled back to {2 * FRAMES:,} frames" not in ended.errors:
            return f"{value} in {what}, rollback: code {ended.code}: {ended.errors[-500:]}"
        newest = newest_of(directory_of(runs))
        if checkpoint.read(newest)[0]["counters"]["rollbacks"] != 1 or not all_finite(newest):
            return f"{value} in {what}, rollback: {newest} is not finite, or counts otherwise"
        ends.append(fingerprint(directory_of(runs)))
    if wrong := different(ends[0], ends[-1]):
        return f"{value} in {what}: rolling back twice gives two results: {wrong}"
    same_way = not different(ends[0], shop.reference(SHORT).end)
    return f"{value} in {what}: the rolled-back run drew the same numbers" if same_way else ""


def float_observations(shop: Workshop) -> str:
    """Frames are uint8; an environment that shows floats is refused before anything is played."""
    command = ("train", "--method", "ppo", "--env", "CartPole-v1")
    ended = play((*command, "--saving.runs", str(shop.place("floats"))))
    good = ended.code == 2 and "uint8 images" in ended.errors
    return "" if good else f"float observations: code {ended.code}: {ended.errors[-500:]}"


def nonfinite(shop: Workshop) -> Outcome:
    shop.reference(SHORT)
    cases = [
        (judge, what, value)
        for what in POISONS
        for value in ("nan", "inf")
        for judge in (halted, rolled_back)
    ]
    complaints = in_lanes(lambda case: case[0](shop, *case[1:]), cases)
    return tally([*complaints, float_observations(shop)])


# --- A stranger's files


class Payload:
    """What a reader that unpickles would run."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


READER = """
import json, sys
from crosstraj.cli.main import main
looked_up = []
def listen(event, arguments):
    if event == "pickle.find_class":
        looked_up.append(arguments)
sys.addaudithook(listen)
for command in json.loads(sys.argv[1]):
    try:
        print(command[0], "ended with", main(command))
    except (Exception, SystemExit) as error:
        print(command[0], "raised", type(error).__name__, error)
    print("LOOKED UP", looked_up)
"""


def read_everything(job: Job, runs: Path) -> str:
    """Every command that reads a run directory, one after the other; returns what was said."""
    directory = str(directory_of(runs))
    evaluate = ("evaluate", directory, "--episodes", "2", "--envs", "2")
    commands = [
        job.command(runs),
        evaluate,
        (*evaluate, "--step", str(3 * FRAMES)),
        ("curves", directory),
    ]
    done = subprocess.run(
        [sys.executable, "-c", READER, json.dumps(commands)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout + done.stderr


def poisoned(shop: Workshop, relative: Path, sealed: bool) -> str:
    """A pickle in place of one file; `sealed`: by somebody who knows the manifest."""
    marker = shop.root / "it-ran"
    runs = stopped_run(shop, f"pickle-{sealed}-{'-'.join(relative.parts)}")
    path = directory_of(runs) / relative
    path.write_bytes(pickle.dumps(Payload(marker)))
    if sealed:
        manifest = json.loads((path.parent / checkpoint.MANIFEST).read_bytes())
        del manifest["seal"]
        manifest["files"][path.name] = checkpoint._digest(path.read_bytes())
        (path.parent / checkpoint.MANIFEST).write_bytes(checkpoint._seal(manifest))
    said = read_everything(SHORT, runs)
    shutil.rmtree(runs)
    if marker.exists() or said.count("LOOKED UP []") != 4:
        return f"{relative}: {'it ran' if marker.exists() else said[-500:]}"
    return f"{relative}: {said[-800:]}" if "Traceback" in said or "raised" in said else ""


def pickles(shop: Workshop) -> Outcome:
    directory = directory_of(stopped_run(shop, "pickles"))
    (directory / "summary.json").write_text('{"frames": 0}')  # as if it were being extended
    files = [path.relative_to(directory) for path in directory.rglob("*") if path.is_file()]
    cases = [(path, False) for path in sorted(files)]
    cases += [(path, True) for path in sorted(files) if path.suffix == ".safetensors"]
    cases += [(path, True) for path in sorted(files) if path.name == checkpoint.STATE]
    complaints = in_lanes(lambda case: poisoned(shop, *case), cases)
    marker = shop.root / "it-ran"
    pickle.loads(pickle.dumps(Payload(marker)))
    assert marker.exists(), "the payload works: whoever had unpickled it would have been seen"
    return tally(complaints)


# --- One owner


def refused(shop: Workshop, turn: int) -> list[str]:
    """A second process is refused; when the first is killed, the next one takes over."""
    runs = shop.place(f"owned-{turn}")
    first = start(SHORT.command(runs), fault("learning.state:make_envs", 1, "mark"))
    wait_for_mark(first)
    first.send_signal(signal.SIGSTOP)  # alive, and in no hurry
    second = play(SHORT.command(runs), fault("cli.train:display_for", 1, "mark"))
    first.send_signal(signal.SIGKILL)
    finish(first)
    took = second.at - second.mark
    good = second.code == 75 and f"process {first.pid} is writing" in second.errors and took < 1
    complaint = "" if good else f"code {second.code} after {took:.1f} s: {second.errors[-500:]}"
    lock = directory_of(runs) / "owner.lock"
    lock.write_text(f"{os.getpid()}\n")  # the number of a dead owner may belong to somebody else
    return [complaint, ends_as(SHORT, runs, shop.reference(SHORT).end)]


def owners(shop: Workshop) -> Outcome:
    shop.reference(SHORT)
    return tally(chain.from_iterable(in_lanes(lambda turn: refused(shop, turn), range(3))))
