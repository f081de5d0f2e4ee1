"""What several test files share: few threads that wait asleep, and one tiny trained run."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import browser as browsers

# Two cores may be busy with something else; a thread that waits in a loop would then keep the one
# it waits for from running. Read when torch is loaded, here and in every process a test starts.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# And what tests compute is small: several threads for it would wait for each other, and tests run
# side by side. What is about several threads asks for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

TINY = (
    *("--env", "starpilot", "--envs", "8", "--rollout-steps", "32", "--encoder", "laptop"),
    *("--policy.minibatches", "2", "--representation.minibatches", "2", "--policy.epochs", "1"),
    *("--evaluation.episodes", "2", "--evaluation.envs", "2"),
)


class Trained(NamedTuple):
    command: tuple[str, ...]  # without --saving.runs, which may be a copy's
    directory: Path  # to be read only; copy it to change it


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A finished PPO run of two updates, with its own seed."""
    import torch

    from crosstraj.cli.main import main

    threads = torch.get_num_threads()
    runs = tmp_path_factory.mktemp("runs")
    command = ("train", "--method", "ppo", "--seed", "5", "--frames", "512", *TINY)
    command += ("--machine.threads", "1")
    assert main([*command, "--saving.runs", str(runs)]) == 0
    torch.set_num_threads(threads)
    (directory,) = runs.iterdir()
    return Trained(command, directory)


@pytest.fixture(scope="session")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished CTRL run of three updates, with 8 clusters and a snapshot of each; to be read."""
    import torch

    from crosstraj.cli.main import main

    threads = torch.get_num_threads()
    runs = tmp_path_factory.mktemp("ctrl")
    command = ("train", "--method", "ctrl", *TINY, "--objective.clusters", "8", "--frames", "768")
    command += ("--saving.snapshots", "3", "--machine.threads", "1")
    assert main([*command, "--saving.runs", str(runs)]) == 0
    torch.set_num_threads(threads)
    (directory,) = runs.iterdir()
    return directory


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One for all tests of a process that open a page."""
    yield from browsers.opened()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Pages that nobody has looked at are not to be overlooked."""
    skipped = terminalreporter.stats.get("skipped", ())
    if count := sum(browsers.MISSING in str(report.longrepr) for report in skipped):
        terminalreporter.section("NOT TESTED IN A BROWSER", sep="!", red=True, bold=True)
        terminalreporter.line(f"{count} tests were left out; {browsers.MISSING}", red=True)


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    """A run sets the number of threads of its process: each test gets back what it had."""
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Ask the run in this process to stop after some rows of metrics."""
    from crosstraj.runs.log import Log

    write = Log.write

    def arm(rows: int) -> None:
        left = iter([False] * (rows - 1) + [True])

        def stopping_write(log: Log, row: dict[str, Any]) -> None:
            write(log, row)
            if log.path.name == "metrics.jsonl" and next(left, False):
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(Log, "write", stopping_write)

    return arm
