"""`crosstraj theory situations`: what codes become in each variant, and whether it is as proved.

One row for each process and variant (docs/theory.md, S1-S7), the mean of a few seeds.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from crosstraj.theory.identity import Found, Setting, Variant, learn

SEEDS = 3  # at scale 1
NOTHING = 0.03  # nats: below this nothing is predicted

VARIANTS = {
    "uniform": Variant(near=False),
    "near": Variant(near=True),
    "uniform, centred": Variant(near=False, centred=True),
    "near, centred": Variant(near=True, centred=True),
    "near, centred, action in code": Variant(near=True, centred=True, action_in_code=True),
    "near, balanced within": Variant(near=True, balanced_within=True),
}


class Row(NamedTuple):
    setting: Setting
    expected: Callable[[Found], bool]  # of the mean of the seeds


def rows(
    title: str, setting: Setting, expected: dict[str, Callable[[Found], bool]]
) -> dict[str, Row]:
    """The same process with each of the variants that something is expected of."""
    return {
        f"{title}: {name}": Row(setting._replace(variant=VARIANTS[name]), holds)
        for name, holds in expected.items()
    }


NEAR_CENTRED = VARIANTS["near, centred"]
ROWS: dict[str, Row] = {
    **rows(
        "additive",
        Setting("additive", NEAR_CENTRED),
        {
            "uniform": lambda f: f.level > 1 > 0.4 > f.place and f.predicted > 0.8,
            "near": lambda f: f.level > 0.8 and f.level > 1.5 * f.place,
            "uniform, centred": lambda f: abs(f.predicted) < NOTHING and f.level < 0.05,
            "near, centred": lambda f: (
                f.predicted > 0.3
                and f.place > 0.8
                and f.level < 0.05
                and f.share < 0.4
                and f.acting > 0.15
            ),
            "near, centred, action in code": lambda f: (
                f.predicted < 0.1 and f.action > 1 > 0.3 > f.place
            ),
            "near, balanced within": lambda f: (
                f.predicted > 0.25 and f.place > 0.8 and f.level < 0.1
            ),
        },
    ),
    **rows(
        "interacting",
        Setting("interacting", NEAR_CENTRED, nonlinear=True),
        {
            "uniform": lambda f: f.level > 0.6 and f.predicted > 0.5,
            "near": lambda f: f.level > 0.25 and f.predicted > 0.5,
            "uniform, centred": lambda f: f.level > 0.5 and f.predicted > 0.4,
            "near, centred": lambda f: f.level > 0.5 and f.predicted > 0.5,
            "near, centred, action in code": lambda f: (
                f.predicted < 0.15 and f.action > 0.8 > 0.1 > f.level
            ),
            "near, balanced within": lambda f: f.level < 0.15 and f.predicted > 0.25,
        },
    ),
    **rows(
        "interacting, linear psi",
        Setting("interacting", NEAR_CENTRED),
        {
            "uniform, centred": lambda f: abs(f.predicted) < NOTHING,
            "near, centred": lambda f: f.level > 0.1 and f.predicted > 0.4,
        },
    ),
    **rows(
        "independent frames, 2 steps",
        Setting("independent", NEAR_CENTRED, steps=2),
        {"near, centred": lambda f: f.predicted > 0.4},
    ),
    **rows(
        "independent frames, 8 steps",
        Setting("independent", NEAR_CENTRED, steps=8),
        {"near, centred": lambda f: abs(f.predicted) < NOTHING},
    ),
}


def learn_rows(seeds: int, seed: int) -> Iterator[tuple[str, Found]]:
    """The mean of each figure over seeds, row by row."""
    for name, row in ROWS.items():
        found = [learn(row.setting, seed * seeds + repeat) for repeat in range(seeds)]
        yield name, Found(*map(float, np.mean(found, axis=0)))


def print_situations(scale: int, seed: int) -> list[str]:
    """Prints each row when it is done; returns those that did not come out as proved."""
    columns = ("H(C)-L", "I(C;F)", "level", "place", "action", "acting", "share")
    print(f"{'codes are about (nats)':<47}" + "".join(f"{name:>8}" for name in columns))
    wrong = []
    for name, f in learn_rows(SEEDS * scale, seed):
        figures = f.predicted, f.stretch, f.level, f.place, f.action, f.acting, f.share
        print(f"{name:<47}" + "".join(f"{value + 0.0:>8.2f}" for value in figures), flush=True)
        wrong += [] if ROWS[name].expected(f) else [name]
    return wrong
