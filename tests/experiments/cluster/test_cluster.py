"""Runs on a cluster of three nodes on this machine: deaths, exit codes, stopping, pinning.

The runs are stand-ins, so that what is tested is the placing and owning of runs;
`make torture-cluster` does the same with real ones.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.main import main
from crosstraj.errors import BadInput, Owned
from crosstraj.experiments.cluster import driver
from crosstraj.experiments.cluster.needs import Needs
from crosstraj.learning.signals import Interrupted
from tests.experiments.cluster.stand_ins import FILE, LEASE, Bench, alive, node, until

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A head without processors, two nodes of the kind `here` and one of the kind `there`."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for number in range(3):
        kind = "there" if number == 2 else "here"
        cluster.add_node(**node(kind), wait=False)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


@pytest.fixture
def bench(nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(nodes, tmp_path, monkeypatch)


def test_runs_end_with_their_codes_and_75_is_tried_again(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    refused, unfinite, waited, plain = bench.jobs[:4]
    for job, code in ((refused, 2), (unfinite, 70), (waited, 75)):
        bench.diaries.path(job).with_suffix(".do").write_text(str(code))
    failed = bench.run(4)
    assert failed is not None
    assert "2 of 4 runs failed" in str(failed)
    assert "ppo/bigfish/s0 (exit code 2), ppo/bigfish/s1 (exit code 70)" in str(failed)
    said = capsys.readouterr().out
    assert "run 1 of 4, ppo/bigfish/s0, ended with exit code 2 on " in said
    assert ": leaves with 2" in said
    assert bench.diaries.words(refused) == bench.diaries.words(unfinite) == ["from 0"]  # not again
    assert bench.diaries.words(waited) == ["from 0", "from 0", "done"]
    assert bench.diaries.words(plain) == ["from 0", "done"]
    assert [job.finished() for job in bench.jobs[:4]] == [False, False, True, True]
    # The same command again runs what is not finished, and only that.
    for job in (refused, unfinite):
        bench.diaries.path(job).with_suffix(".do").unlink()
    assert bench.run(4) is None
    assert bench.diaries.words(plain) == ["from 0", "done"]
    assert bench.diaries.words(refused) == ["from 0", "from 0", "done"]


def test_a_worker_that_is_killed_takes_its_run_along_and_the_next_goes_on(bench: Bench) -> None:
    job, children = bench.jobs[0], list[int]()
    bench.seconds = 0.3

    def kill() -> None:
        bench.diaries.wait_for(job, 2)
        _, child, worker, *_ = bench.diaries.rows(job)[0]
        children.append(child)
        os.kill(worker, signal.SIGKILL)
        until(lambda: not alive(child), 5)

    thread = bench.beside(kill)
    assert bench.run(1) is None
    thread.join()
    first, second, last = bench.diaries.words(job)
    assert (first, last) == ("from 0", "done")
    assert int(second.removeprefix("from ")) >= 2
    assert not alive(children[0])


def test_a_signal_makes_runs_save_and_the_rest_never_begin(bench: Bench) -> None:
    bench.seconds = 1.0

    def interrupt() -> None:
        for job in bench.jobs[:3]:
            bench.diaries.wait_for(job)
        time.sleep(1.5)  # so that the driver knows of them
        os.kill(os.getpid(), signal.SIGTERM)

    thread = bench.beside(interrupt)
    with pytest.raises(Interrupted) as stopped:
        bench.run(6)
    thread.join()
    assert stopped.value.exit_code == 143
    for job in bench.jobs[:3]:
        assert bench.diaries.words(job) == ["from 0", "stopped"]
        assert not alive(bench.diaries.rows(job)[0][1])
    assert not any(bench.diaries.words(job) for job in bench.jobs[3:])
    bench.seconds = 0.01
    assert bench.run(6) is None
    assert all(bench.diaries.words(job)[-1] == "done" for job in bench.jobs)


def test_runs_stay_on_their_kind_of_node(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    there = next(
        node
        for node in bench.cluster.list_all_nodes()
        if "there" in str(node._ray_params.resources)
    )
    assert bench.run(2, Needs(labels={"kind": "there"}), shelf=True) is None
    assert bench.run(4, Needs(resources={"there": 1}), shelf=True) is None
    for job in bench.jobs[:4]:
        assert {Path(row[4]).name for row in bench.diaries.rows(job)} == {there.node_id}
    assert "waiting for one" not in capsys.readouterr().out


def test_what_no_node_has_is_said(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        time.sleep(6)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = bench.beside(interrupt)
    with pytest.raises(Interrupted):
        bench.run(1, Needs(labels={"kind": "nowhere"}))
    thread.join()
    assert "no node has what a run asks for (CPUs 1, GPUs 0, kind nowhere); waiting for one" in (
        capsys.readouterr().out
    )
    with pytest.raises(BadInput, match="no cluster answers there"):
        driver.run_all(
            bench.jobs[:1], driver.Cluster("127.0.0.1:1"), allow_inexact=False, title="many"
        )
    with pytest.raises(BadInput, match="on a machine of the cluster"):
        driver.run_all(
            bench.jobs[:1], driver.Cluster("ray://x:1"), allow_inexact=False, title="many"
        )


def test_a_second_driver_is_refused_and_a_dead_one_is_not_in_the_way(bench: Bench) -> None:
    from crosstraj.experiments.cluster.session import Session

    bench.seconds = 0.3
    refused: list[str] = []

    def second() -> None:
        bench.diaries.wait_for(bench.jobs[0])
        with pytest.raises(Owned) as error:  # the same machine: its lock
            bench.run(1)
        refused.append(str(error.value))
        with pytest.raises(Owned) as error:  # another machine: the registry's lease
            Session(bench.jobs[0].directory.parent.resolve(), "many", shelf=False, lease=LEASE)
        refused.append(str(error.value))

    thread = bench.beside(second)
    assert bench.run(1) is None
    thread.join()
    assert "another driver is running many" in refused[0]
    assert "another driver has many in " in refused[1]
    assert bench.diaries.words(bench.jobs[0]) == ["from 0", "done"]


def test_a_node_dies_without_a_shared_disk(bench: Bench) -> None:
    """At most the steps since the last save that arrived are done again; then the node is back."""
    bench.seconds = 0.4
    job = bench.jobs[0]

    def kill() -> None:
        bench.diaries.wait_for(job, 3)
        place = Path(bench.diaries.rows(job)[0][4])
        node = next(n for n in bench.cluster.list_all_nodes() if n.node_id == place.name)
        bench.cluster.remove_node(node, allow_graceful=False)

    thread = bench.beside(kill)
    assert bench.run(3, shelf=True) is None
    thread.join()
    words = bench.diaries.words(job)
    assert words[0] == "from 0"
    assert words[-1] == "done"
    assert int(words[1].removeprefix("from ")) >= 3
    places = {Path(row[4]) for row in bench.diaries.rows(job)}
    assert len(places) == 2
    assert bench.jobs[0].directory.parent not in places
    assert sorted(path.name for path in job.directory.iterdir()) == [
        "checkpoints", "metrics.jsonl", "summary.json"]  # fmt: skip
    bench.cluster.add_node(**node("here"))


def test_a_shelf_that_takes_nothing_is_told_and_the_run_is_made_again(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    job = bench.jobs[0]
    job.directory.parent.mkdir()
    job.directory.write_text("a file where a directory has to be")
    bench.seconds = 0.01
    failed = bench.run(2, shelf=True)
    assert failed is not None
    assert failed.exit_code == 74
    assert "the last save could not be put on the shelf: " in capsys.readouterr().out
    assert bench.jobs[1].finished()
    job.directory.unlink()
    assert bench.run(2, shelf=True) is None
    assert bench.diaries.words(job) == ["from 0", "done"] * 2


def test_without_ray_one_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.toml").write_text(FILE)
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ["experiment", str(tmp_path / "file.toml"), "--ray", "local"]
    assert main([*words, "--runs", str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err.count("pip install 'crosstraj[ray]'") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--ray", "local", "--jobs", "2"), "with --ray say what a run takes"),
        (("--shelf", "x"), "--shelf is for a cluster"),
        (("--cpus", "2"), "--cpus is for a cluster"),
        (("--ray", "local", "--shelf", "x", "--runs", "y"), "give one of them"),
        (("--ray", "local", "--resources", "fast"), "must be NAME=VALUE"),
    ],
)
def test_options_that_do_not_go_together_get_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "file.toml").write_text(FILE)
    assert main(["experiment", str(tmp_path / "file.toml"), *words]) == 2
    assert sentence in capsys.readouterr().err
