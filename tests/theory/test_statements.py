"""The sweep of what is proved: its size, its command, and the page that names its checks."""

import re
from pathlib import Path

import numpy as np
import pytest

from crosstraj.cli.main import main
from crosstraj.theory import statements
from crosstraj.theory.behaviour import BEHAVIOUR, sweep_behaviour
from crosstraj.theory.geometry import GEOMETRY, sweep_geometry
from crosstraj.theory.rates import RATES
from crosstraj.theory.sweep import Sweep
from tests.theory.slow import rng


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GEOMETRY, *BEHAVIOUR])
def test_no_violation_in_a_large_sweep(name: str) -> None:
    large = sweep_geometry(name, 500, rng(22)) if name in GEOMETRY else None
    found = large or sweep_behaviour(name, 200, rng(23))
    assert found.violated == 0


def test_a_sweep_counts_only_failures_under_the_premise() -> None:
    held, failed = np.array([True, True, False]), np.array([True, False, True])
    assert Sweep.of(held, failed) == Sweep(tried=3, held=2, violated=1)


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SETS", "PROCESSES", "RATE_SETS"):
        monkeypatch.setattr(statements, name, 1)


def test_the_command_prints_every_statement_and_the_same_for_a_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small(monkeypatch)
    said = []
    for _ in range(2):
        assert main(["theory", "--seed", "3"]) == 0
        said.append(capsys.readouterr().out)
    assert all(name in said[0] for name in (*GEOMETRY, *BEHAVIOUR, *RATES))
    assert said[0] == said[1]


def test_the_command_finds_a_statement_that_is_false(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small(monkeypatch)
    monkeypatch.setitem(GEOMETRY, "T1 cone", RATES["F1 aligned with one, leaves; step 0.3"])
    assert main(["theory"]) == 1
    assert "a proved statement was violated: T1 cone" in capsys.readouterr().err


def test_the_command_refuses_a_scale_below_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "--scale", "0"]) == 2
    assert capsys.readouterr().err == "crosstraj: --scale=0: must be at least 1\n"


def test_the_page_names_checks_that_exist_and_every_statement_of_the_sweep() -> None:
    tests = Path(__file__).parents[1]
    page = (tests.parent / "docs" / "theory.md").read_text()
    code = "".join(
        path.read_text()
        for place in ("theory/*.py", "objectives/test_situations*.py")
        for path in tests.glob(place)
    )
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 30
    assert [name for name in sorted(named) if f"def {name}(" not in code] == []
    swept = re.findall(r"^(\w\d .*?)\s{2,}[\d,]+\s+[\d,]+\s+0$", page, re.MULTILINE)
    assert swept == [*GEOMETRY, *BEHAVIOUR]
