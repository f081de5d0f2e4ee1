"""Every method on a rehearsed accelerator: one device, the CPU's figures, and few waits."""

import json
import subprocess
import sys
from typing import Any

import pytest

from crosstraj.config.methods import METHODS

# Where a method waits in every minibatch: for singular values (ctrl), and for which pairs are in it
# (situations).
WAITS = {"ctrl": {"nn/ops.py"}, "situations": {"objectives/situations.py", "nn/ops.py"}}


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, Any]]:
    """In a process of its own: a device cannot be taken back."""
    command = [sys.executable, "-m", "tests.learning.rehearsal", *METHODS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["method"]: row for row in rows}


@pytest.mark.parametrize("method", METHODS)
def test_all_of_a_methods_tensors_are_on_one_device(method, told):
    assert "error" not in told[method], told[method]["error"]
    assert told[method]["mixed"] == {}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_learns_there_what_it_learns_on_the_cpu(method, told):
    assert told[method]["there"] == pytest.approx(told[method]["here"], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_inner_loops_wait_for_nothing_that_is_not_written_down(method, told):
    places = {name.split(" in ")[1].split(":")[0] for name in told[method]["in_every_minibatch"]}
    assert places == WAITS.get(method, set())


def test_the_rehearsal_sees_what_it_looks_for():
    program = (
        "import torch; from tests.learning.rehearsal import DEVICE, Rehearsal\n"
        "with Rehearsal() as seen:\n"
        "    there = torch.ones(3, 3, device=DEVICE)\n"
        "    there.sum() + 1, there * torch.tensor(2.0)\n"
        "    assert not seen.waits and not seen.mixed\n"
        "    there @ torch.ones(3, 3)\n"
        "    assert list(seen.mixed) == ['mm in torch']\n"
        "    float(there.sum()), there.cpu(), there[there > 0], there.nonzero()\n"
        "    assert sum(seen.waits.values()) == 4, seen.waits\n"
        "    here, place = torch.ones(3, 3), torch.tensor([0, 2])\n"
        "    seen.mixed.clear()\n"
        "    there[place], there[place.to(DEVICE)]\n"
        "    there[place] = there[:2].clone()\n"
        "    there[place] = torch.tensor(1.0)\n"
        "    assert not seen.mixed, seen.mixed\n"
        "    here[place.to(DEVICE)]\n"
        "    assert sum(seen.mixed.values()) == 1, seen.mixed\n"
        "    there[place] = here[:2]\n"
        "    assert sum(seen.mixed.values()) == 2, seen.mixed\n"
        "    seen.waits.clear()\n"
        "    there[there > 2] = 0.0\n"
        "    torch.linalg.svdvals(there)\n"
        "    torch.repeat_interleave(place.to(DEVICE))\n"
        "    assert sum(seen.waits.values()) == 3, seen.waits\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
