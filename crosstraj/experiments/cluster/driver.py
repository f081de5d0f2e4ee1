"""Hands the runs of an experiment to a Ray cluster and waits for them.

What a run has done is in its run directory, here as with processes of this machine: a driver that
died is started again with the same command and finds everything as it is. One driver at a time
works on an experiment; a second is refused.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crosstraj.cores import usable_cores
from crosstraj.errors import BadInput, Owned
from crosstraj.experiments.cluster.needs import Needs
from crosstraj.experiments.cluster.owners import SECONDS, STOPPED
from crosstraj.experiments.jobs import Job
from crosstraj.experiments.processes import Failed, words_of
from crosstraj.experiments.standing import Lines, display_for
from crosstraj.learning.signals import Interrupted, Stop
from crosstraj.runs.lock import disown, own

LOCAL = "local"
NAMESPACE = "crosstraj"
PYTHON = "python"  # as the first word of a command: the interpreter of the node


@dataclass(frozen=True)
class Cluster:
    """Where runs are to run, and how."""

    address: str
    needs: Needs = field(default_factory=Needs)
    threads: int = 0  # of each run; 0: as many as it has CPUs
    shelf: bool = False  # nodes share no disk: run directories are kept on this machine
    lease: float = SECONDS


def run_all(jobs: list[Job], cluster: Cluster, *, allow_inexact: bool, title: str) -> Failed | None:
    """Run what is not finished; a signal makes every run save."""
    todo = [job for job in jobs if not job.finished()]
    with display_for(jobs, title) as display:
        display.say(f"{title}: {len(jobs) - len(todo)} of {len(jobs)} runs are finished")
        if not todo:
            return None
        root = todo[0].directory.parent.resolve()
        threads = cluster.threads or cluster.needs.threads
        with _alone(root, title), _connected(cluster, display), Stop() as stop:
            from crosstraj.experiments.cluster.session import Session

            local = cluster.address == LOCAL
            with Session(
                root, title, shelf=cluster.shelf, lease=cluster.lease, local=local
            ) as session:
                for job in todo:
                    words = command_of(job, threads, allow_inexact)
                    session.submit(job, words, cluster.needs.options())
                codes = session.wait(display, stop)
    if stop.signal is not None:
        interrupted = Interrupted(stop.signal)
        other = [code for code in codes.values() if code != STOPPED]
        interrupted.exit_code = next(iter(other), interrupted.exit_code)
        raise interrupted
    return Failed(codes, len(jobs)) if codes else None


def command_of(job: Job, threads: int, allow_inexact: bool) -> list[str]:
    """The command of a run on any node, but for --saving.runs."""
    return [PYTHON, "-m", "crosstraj", *words_of(job, threads, allow_inexact)]


@contextmanager
def _alone(root: Path, title: str) -> Iterator[None]:
    """No other driver of this machine; those of others are found by the registry's lease."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = own(root / f".{title}.lock")
    except Owned:
        raise Owned(f"another driver is running {title} in {root}; wait, or stop it") from None
    except OSError as error:
        raise BadInput(f"{root} cannot be used: {error.strerror}; choose another") from error
    try:
        yield
    finally:
        disown(lock)


@contextmanager
def _connected(cluster: Cluster, display: Lines) -> Iterator[None]:
    """Ray, connected to the cluster or started for this machine alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    try:
        import ray
    except ImportError:
        raise BadInput(
            "--ray needs Ray, which is not installed: pip install 'crosstraj[ray]'"
        ) from None
    _check_address(cluster.address)
    more: dict[str, Any] = {"address": cluster.address}
    if cluster.address == LOCAL:
        more |= {"num_cpus": usable_cores(), "include_dashboard": False}
    try:
        ray.init(namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR, **more)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        first = str(error).strip().split("\n")[0]
        raise BadInput(f"--ray {cluster.address}: no cluster answers there: {first}") from error
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        if not any(cluster.needs.met_by(n["Resources"], n["Labels"]) for n in nodes):
            if cluster.address == LOCAL:
                raise BadInput(f"this machine has not what a run asks for: {cluster.needs}")
            display.say(f"no node has what a run asks for ({cluster.needs}); waiting for one")
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Ray itself would try for minutes where nobody answers."""
    if address.startswith("ray://"):
        raise BadInput(
            f"--ray {address}: the driver has to be on a machine of the cluster; run this command "
            "there, with --ray auto"
        )
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise BadInput(f"--ray {address}: no cluster answers there: {error}") from error
