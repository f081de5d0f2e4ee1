"""A look at the machine: what is there, what is missing, how fast it is, and what would help.

Imports nothing that could itself be missing.
"""

import platform
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from crosstraj.cli.parse import parse
from crosstraj.cores import memory, usable_cores
from crosstraj.errors import Refusal

NEEDED = ("torch", "numpy", "gymnasium", "safetensors", "rich")
OPTIONAL = {
    "matplotlib": "crosstraj[report]",
    "scikit-learn": "crosstraj[analysis]",
    "ale-py": "crosstraj[atari]",
    "minigrid": "crosstraj[minigrid]",
}


@dataclass(frozen=True)
class DoctorArguments:
    seconds: float = 5.0
    """How long to play."""
    training: float = 10.0
    """How long to train, to say how fast this machine is; 0 leaves it out."""


def doctor(arguments: list[str]) -> None:
    """Check this machine: versions, cores, memory, the game engine, and how fast it trains."""
    given = parse(DoctorArguments, "doctor", doctor.__doc__, arguments)
    if not examine_packages():
        raise Refusal("something is missing: see above")
    playable = _test_engine(given.seconds)
    foretell_training(given.training if playable else 0)
    if not playable:
        raise Refusal(
            "the games of Procgen cannot be played: see above; other environments and the losses "
            "work without the engine"
        )


def examine_packages() -> bool:
    """Print what was found; false when nothing could work."""
    python = platform.python_version()
    fine = python.startswith(("3.11.", "3.12.", "3.13."))
    advice = "" if fine else "  <- the game engine has wheels for 3.11, 3.12 and 3.13 only"
    _show("python", f"{python}{advice}")
    _show("machine", f"{platform.machine()}, {usable_cores()} cores")
    _show("memory", f"{memory():.1f} GiB (a default run needs about 3)")
    for package in NEEDED:
        found = _version(package)
        fine &= found is not None
        _show(package, found or f"missing: pip install {package}")
    for package, extra in OPTIONAL.items():
        _show(package, _version(package) or f"not installed (optional: pip install {extra!r})")
    return fine


def foretell_training(seconds: float) -> None:
    """Print what a run will do here: kernels, precision, threads and, if asked for, its speed."""
    from crosstraj.learning.speed import frames_per_second, kernels_for
    from crosstraj.nn.compiler import has_bf16

    _show("kernels", kernels_for("fp32").removeprefix("kernels: "))
    has = has_bf16()
    advice = "--machine.precision bf16 would be faster" if has else "this processor has no bf16"
    _show("precision", f"fp32; {advice}")
    _show("threads", f"{usable_cores()} (one run; --jobs auto for many: one thread each)")
    for precision in ("fp32", "bf16") if has else ("fp32",):
        if seconds:
            rate = frames_per_second(precision, seconds / (2 if has else 1))
            _show("training", f"{rate:,.0f} frames/s: PPO with the default values, {precision}")


def _show(name: str, what: str) -> None:
    print(f"{name:<15} {what}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _test_engine(seconds: float) -> bool:
    """Play at random: frames must move and episodes must end."""
    from crosstraj.envs.load_engine import engine_name

    try:
        rate, moved, ended = _play(seconds)
    except Exception as error:  # whatever it is, it is what the person wants to know
        _show("engine", f"broken: {type(error).__name__}: {error}")
        return False
    fine = moved and ended > 0
    verdict = "fine" if fine else "broken: frames do not change or episodes do not end"
    played = f"{rate:,.0f} frames/s on coinrun, {ended} episodes ended"
    _show("engine", f"{engine_name()}, {verdict}: {played}")
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
