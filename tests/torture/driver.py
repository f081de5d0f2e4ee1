"""A crosstraj process with faults arranged in it: python -m tests.torture.driver FAULTS COMMAND ...

FAULTS is a JSON list. Each fault acts right after the n-th call of a function (0: every call),
inside the process, so that it happens at exactly the same point of a run each time.
"""

import errno
import functools
import importlib
import itertools
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.torture.runs import checkpoint_digests

NOBODY = 65534


class Call(NamedTuple):
    """A call that has just returned, and what its fault was told."""

    arguments: tuple[Any, ...]
    result: Any
    seconds: float
    told: Any


def send(call: Call) -> Any:
    """A signal to this process; 9 ends it on the spot."""
    os.kill(os.getpid(), call.told)
    return call.result


def send_twice(call: Call) -> Any:
    """The second signal, which is to be obeyed at once, a moment after the first."""
    send(call)
    return send(mark(call))


def mark(call: Call) -> Call:
    """Says when it was; the clock is that of all processes."""
    print(f"MARK {time.monotonic()}", flush=True)
    return call


def note(path: str, row: Any) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


def record(call: Call) -> Any:
    """Notes the digests of the checkpoint that has just been saved."""
    run, _, step = call.arguments
    note(call.told, [step, checkpoint_digests(run.directory / "checkpoints" / f"step-{step}")])
    return call.result


def sample(call: Call) -> Any:
    """Notes resident memory and open files."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    handles = len(os.listdir("/proc/self/fd"))
    note(call.told, [time.monotonic(), pages * resource.getpagesize(), handles])
    return call.result


def clock(call: Call) -> Any:
    """Notes how long the call took."""
    note(call.told, call.seconds)
    return call.result


def limit(call: Call) -> Any:
    """No file may grow beyond so many bytes; -1 lifts it."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (call.told, resource.RLIM_INFINITY))
    return call.result


def forbid(call: Call) -> Any:
    """The directory may no longer be written; permissions do not bind root."""
    os.chmod(call.told, 0o555)
    if os.getuid() == 0:
        os.seteuid(NOBODY)
    return call.result


def allow(call: Call) -> Any:
    if os.getuid() == 0:
        os.seteuid(0)
    os.chmod(call.told, 0o755)
    return call.result


def no_space(call: Call) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def poison_terms(call: Call) -> Any:
    """PPO's loss, by way of its surrogate."""
    return call.result._replace(surrogate=call.result.surrogate * float(call.told))


def poison_loss(call: Call) -> Any:
    """An objective's loss."""
    loss, evidence = call.result
    return loss * float(call.told), evidence


def poison_gradient(call: Call) -> Any:
    """One number of the gradient of the policy head."""
    call.arguments[0].agent.policy.weight.grad[0, 0] = float(call.told)
    return call.result


def poison_reward(call: Call) -> Any:
    """The reward of the first environment."""
    call.result[1][0] = float(call.told)
    return call.result


ACTIONS: dict[str, Callable[[Call], Any]] = {
    "allow": allow,
    "clock": clock,
    "forbid": forbid,
    "limit": limit,
    "mark": lambda call: mark(call).result,
    "no space": no_space,
    "poison gradient": poison_gradient,
    "poison loss": poison_loss,
    "poison reward": poison_reward,
    "poison terms": poison_terms,
    "record": record,
    "sample": sample,
    "send": send,
    "send twice": send_twice,
}


def arrange(target: str, at: int, action: str, told: Any) -> None:
    """Puts a fault behind the function `module:name` or `module:Class.name`."""
    module, _, path = target.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    real, calls = getattr(owner, name), itertools.count(1)

    @functools.wraps(real)
    def watched(*arguments: Any, **options: Any) -> Any:
        began = time.monotonic()
        result = real(*arguments, **options)
        if at not in (0, next(calls)):
            return result
        return ACTIONS[action](Call(arguments, result, time.monotonic() - began, told))

    setattr(owner, name, watched)


def main(faults: str, command: Sequence[str]) -> int:
    # As torch.use_deterministic_algorithms, which also imports the compiler: 1.5 s each time.
    torch._C._set_deterministic_algorithms(True)
    assert torch.are_deterministic_algorithms_enabled()
    # Whoever started this may have had them ignored, and then a run leaves them ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    from crosstraj.cli.main import main as cli

    for fault in json.loads(faults):
        arrange(**fault)
    return cli.main(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
