"""A look at the machine: what is there, what is missing and how to get it.

Imports nothing that could itself be missing.
"""

import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from crosstraj.cli.parse import parse
from crosstraj.cores import usable_cores
from crosstraj.errors import Refusal

NEEDED = (
    "torch",
    "numpy",
    "gymnasium",
    "safetensors",
    "rich",
    "matplotlib",
    "scipy",
)
OPTIONAL = {"ale-py": "crosstraj[atari]", "minigrid": "crosstraj[minigrid]"}


@dataclass(frozen=True)
class DoctorArguments:
    seconds: float = 5.0
    """How long to play."""


def doctor(arguments: list[str]) -> None:
    """Check this machine: versions, cores, memory, and a few seconds of the game engine."""
    given = parse(DoctorArguments, "doctor", doctor.__doc__, arguments)
    if not examine_machine(given.seconds):
        raise Refusal("something is missing or broken: see above")


def examine_machine(seconds: float) -> bool:
    """Print what was found; false when training could not work."""
    python = platform.python_version()
    fine = python.startswith(("3.11.", "3.12.", "3.13."))
    advice = "" if fine else "  <- the game engine has wheels for 3.11, 3.12 and 3.13 only"
    _show("python", f"{python}{advice}")
    _show("machine", f"{platform.machine()}, {usable_cores()} cores")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    _show("memory", f"{memory:.1f} GiB (a default run needs about 3)")
    for package in NEEDED:
        found = _version(package)
        fine &= found is not None
        _show(package, found or f"missing: pip install {package}")
    for package, extra in OPTIONAL.items():
        _show(package, _version(package) or f"not installed (optional: pip install {extra!r})")
    return fine and _test_engine(seconds)


def _show(name: str, what: str) -> None:
    print(f"{name:<15} {what}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _test_engine(seconds: float) -> bool:
    """Play at random: frames must move and episodes must end."""
    try:
        rate, moved, ended = _play(seconds)
    except Exception as error:  # whatever it is, it is what the person wants to know
        _show("engine", f"broken: {type(error).__name__}: {error}")
        return False
    fine = moved and ended > 0
    verdict = "fine" if fine else "broken: frames do not change or episodes do not end"
    _show("engine", f"{verdict}: {rate:,.0f} frames/s on coinrun, {ended} episodes ended")
    return fine


def _play(seconds: float) -> tuple[float, bool, int]:
    """Frames per second, whether a picture changed, and how many episodes ended."""
    import numpy as np

    from crosstraj.envs import ProcgenConfig, make_envs

    count, longest = 32, 1000  # in coinrun, time is up after 1000 steps
    envs = make_envs("coinrun", count, levels="train", procgen=ProcgenConfig(), seed=0)
    rng = np.random.default_rng(0)
    first, _ = envs.reset()
    obs, steps, ended, began = first, 0, 0, time.monotonic()
    while time.monotonic() - began < seconds or (not ended and steps < longest):
        obs, _, terminated, _, _ = envs.step(rng.integers(0, 15, count))
        steps += 1
        ended += int(terminated.sum())
    rate = count * steps / (time.monotonic() - began)
    envs.close()
    return rate, bool((obs != first).any()), ended
