"""A look at the machine: what is there, what is missing and how to get it."""

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from rich.console import Console

from crosstraj.envs import ProcgenConfig, make_envs

NEEDED = ("torch", "numpy", "gymnasium", "procgen-mirror", "gym3", "safetensors", "tyro", "rich")
OPTIONAL = {"tensorboard": "crosstraj[tensorboard]", "ale-py": "crosstraj[atari]"}


def examine_machine(console: Console, seconds: float = 5.0) -> bool:
    """Print what was found; false when training could not work."""
    python = platform.python_version()
    fine = python.startswith(("3.11.", "3.12."))
    advice = "" if fine else "  <- the game engine has wheels for 3.11 and 3.12 only"
    console.print(f"python      {python}{advice}")
    console.print(f"machine     {platform.machine()}, {len(os.sched_getaffinity(0))} cores")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    console.print(f"memory      {memory:.1f} GiB (a default run needs about 3)")
    for package in NEEDED:
        found = _version(package)
        fine &= found is not None
        console.print(f"{package:<11} {found or f'missing: pip install {package}'}")
    for package, extra in OPTIONAL.items():
        missing = f"not installed (optional: pip install {extra!r})"
        console.print(f"{package:<11} {_version(package) or missing}")
    if _version("procgen-mirror"):
        fine &= _test_engine(console, seconds)
    return fine


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _test_engine(console: Console, seconds: float) -> bool:
    """Play at random: frames must move and episodes must end."""
    envs = make_envs("coinrun", 32, levels="train", procgen=ProcgenConfig(), seed=0)
    rng = np.random.default_rng(0)
    first, _ = envs.reset()
    first, steps, ended, began = first.copy(), 0, 0, time.monotonic()
    obs = first
    while time.monotonic() - began < seconds:
        obs, _, terminated, _, _ = envs.step(rng.integers(0, 15, 32))
        steps += 1
        ended += int(terminated.sum())
    rate = 32 * steps / (time.monotonic() - began)
    alive = bool((obs != first).any()) and ended > 0
    envs.close()
    verdict = "fine" if alive else "broken: frames do not change or episodes do not end"
    console.print(f"engine      {verdict}: {rate:,.0f} frames/s on coinrun, {ended} episodes ended")
    return alive
