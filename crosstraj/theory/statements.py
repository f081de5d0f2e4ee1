"""`crosstraj theory`: every proved statement searched for violations, every false one for failures.

Each row has a generator of its own, so that a row's numbers do not depend on the other rows.
"""

from collections.abc import Iterator

import numpy as np

from crosstraj.theory.behaviour import BEHAVIOUR, sweep_behaviour
from crosstraj.theory.geometry import GEOMETRY, SHAPES, sweep_geometry
from crosstraj.theory.rates import RATES, rates
from crosstraj.theory.sweep import Sweep

# At scale 1; a scale multiplies all three.
SETS = 50  # sets of prototypes of each shape for T1-T3 and P0, 1000 views each
PROCESSES = 20  # random processes for B1, B2 and R1-R5
RATE_SETS = 100  # sets of prototypes of each shape for the rates, 100 views each


def check_statements(scale: int, seed: int) -> Iterator[tuple[str, Sweep]]:
    """What must hold: not one violation."""
    for index, name in enumerate(GEOMETRY):
        yield name, sweep_geometry(name, SETS * scale, np.random.default_rng([seed, 0, index]))
    for index, name in enumerate(BEHAVIOUR):
        rng = np.random.default_rng([seed, 1, index])
        yield name, sweep_behaviour(name, PROCESSES * scale, rng)


def measure_rates(scale: int, seed: int) -> Iterator[tuple[str, list[Sweep]]]:
    """What fails as printed, and how often: one sweep for each shape."""
    for index, name in enumerate(RATES):
        yield name, rates(name, RATE_SETS * scale, np.random.default_rng([seed, 2, index]))


def print_checks(scale: int, seed: int) -> list[str]:
    """Prints each row when it is done; returns the statements that did not hold."""
    print(f"{'must hold':<44}{'tried':>11}{'premise':>11}{'violated':>10}")
    violated = []
    for name, sweep in check_statements(scale, seed):
        print(f"{name:<44}{sweep.tried:>11,}{sweep.held:>11,}{sweep.violated:>10,}", flush=True)
        violated += [name] if sweep.violated else []
    shapes = "".join(f"{f'D={d}, E={e}':>16}" for d, e in SHAPES)
    print(f"\n{'fails as printed':<44}{shapes}")
    for name, found in measure_rates(scale, seed):
        shares = "".join(f"{f'{s.violated / s.held:.2%}':>16}" for s in found)
        print(f"{name:<44}{shares}", flush=True)
    return violated
