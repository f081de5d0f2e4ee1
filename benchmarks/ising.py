"""How fast the Ising task is: environment steps and site updates per second of one core's time.

Processor time, not the wall's: it is one thread, and who else uses the machine matters less.
"""

import statistics
import time
from typing import NamedTuple

import numpy as np

from crosstraj.envs import IsingConfig, IsingVectorEnv


class Speed(NamedTuple):
    envs: int
    steps_per_second: float  # environment steps; each moves all lattices
    site_updates_per_second: float  # proposals, one per site and sweep on average


def measure(envs: int, seconds: float = 1.0, turns: int = 3) -> Speed:
    """The median of a few turns of random play, after one to warm up."""
    config = IsingConfig()
    games = IsingVectorEnv(envs, config)
    games.reset(seed=0)
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(turns + 1):
        began, steps = time.process_time(), 0
        while time.process_time() - began < seconds:
            games.step(rng.integers(0, config.models, envs))
            steps += envs
        rates.append(steps / (time.process_time() - began))
    rate = statistics.median(rates[1:])
    return Speed(envs, rate, rate * config.models * config.side**2 * config.sweeps)


def table() -> list[str]:
    """Markdown lines: one environment, as many as training plays, and more."""
    lines = ["| Ising environments | steps/s | site updates/s |", "|---|---|---|"]
    for envs in (1, 32, 128):
        speed = measure(envs)
        lines.append(
            f"| {envs} | {speed.steps_per_second:,.0f} | {speed.site_updates_per_second:.3g} |"
        )
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
