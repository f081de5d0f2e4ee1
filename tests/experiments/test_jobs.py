"""Runs of an experiment: a value means the same in a file and on the command line."""

import collections
import json
from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.train import train
from crosstraj.config.methods import METHODS
from crosstraj.envs import GAMES
from crosstraj.errors import BadInput
from crosstraj.experiments import jobs as module
from crosstraj.experiments.cluster import driver
from crosstraj.experiments.file import read
from crosstraj.experiments.jobs import configure, prepare
from crosstraj.policies.daac import DAACConfig
from tests.experiments.files import FILES, SMALL, write


def parsed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The configuration that the command line makes of a command's words."""
    caught: list[Any] = []

    def keep(config: Any, *_: object, **__: object) -> None:
        caught.append(config)
        raise BadInput("caught")

    with monkeypatch.context() as patch:
        patch.setattr("crosstraj.learning.place.open_run", keep)
        with pytest.raises(BadInput, match="caught"):
            train(words)
    return caught[0]


def test_every_kind_of_value_means_the_same_in_a_file_and_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SMALL.replace('"ctrl:paper", "ppo"', '"ctrl"').replace(
        "policy.epochs = 2",
        "objective.temperature = 1\nobjective.swap_codes = false\nfeature_norm = 'none'\n"
        "representation.learning_rate = 1e-4\nevaluation.envs = 2\nevaluation.episodes = 6",
    )
    run = read(write(tmp_path, text)).runs()[0]
    config = configure(run, tmp_path)
    words = run.command({"saving.runs": str(tmp_path)})[1:]
    assert config == parsed(words, monkeypatch)
    assert repr(config.objective.temperature) == "1.0"  # type: ignore[union-attr]
    assert (config.evaluation.envs, config.evaluation.episodes) == (2, 6)


def test_a_variant_may_have_another_policy_with_that_policys_own_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = "policy.kind = 'daac'\npolicy.value_epochs = 2"
    text = SMALL.replace('"ctrl:paper", "ppo"', '"ctrl"').replace("policy.epochs = 2", values)
    run = read(write(tmp_path, text)).runs()[0]
    config = configure(run, tmp_path)
    recipe = {"minibatches": 32, "target_kl": 0.02}  # of all policies
    assert config.policy == DAACConfig(value_epochs=2, **recipe)
    assert config == parsed(run.command({"saving.runs": str(tmp_path)})[1:], monkeypatch)
    bad = read(write(tmp_path, text.replace("'daac'", "'dac'"))).runs()
    with pytest.raises(BadInput, match="did you mean 'daac'"):
        prepare(bad, tmp_path)


def test_a_driver_finds_its_place_among_1440_runs_without_much_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: a second of the processor here, where 10 are allowed."""
    methods = [name for name in METHODS if name not in ("pse", "ppo")][:9]
    text = (
        f'name = "main"\ntitle = "Main"\nreproduces = "Nothing."\nframes = 100_000\n'
        f"games = {json.dumps(GAMES)}\nseeds = {list(range(10))}\n"
        f"methods = {json.dumps(methods)}\n"
    )
    counts = collections.Counter[str]()

    def counted(name: str) -> None:
        real = getattr(module, name)

        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return real(*arguments)

        monkeypatch.setattr(module, name, call)

    for name in ("started", "summary", "last_row"):
        counted(name)
    jobs = prepare(read(write(tmp_path, text)).runs(), tmp_path / "runs")
    assert len(jobs) == 1440
    assert counts == {"started": 144}  # not for each seed
    for job in jobs:
        job.directory.mkdir(parents=True)
        (job.directory / "summary.json").write_text('{"frames": 900000, "unseen_return": 1}')
    nowhere = driver.Cluster("nowhere:1")  # all is done, so nobody asks for it
    assert driver.run_all(jobs, nowhere, allow_inexact=False, title="main") is None
    assert counts["summary"] <= 4 * 1440
    assert counts["last_row"] == 0  # no log is read of what is finished


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_in_experiments_stands_for_valid_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read(path)
    assert plan.name == path.stem
    runs = plan.runs()
    jobs = prepare(runs, Path("runs"))  # all of them valid, and no two the same
    assert {run.variant for run in runs} == set(plan.variants)
    if not any({"games", "seeds"} & values.keys() for values in plan.variants.values()):
        assert len(jobs) == len(plan.variants) * len(plan.games) * len(plan.seeds)
    first = {run.variant: run for run in reversed(runs)}
    for run in first.values():
        assert configure(run, Path("runs")) == parsed(run.command({})[1:], monkeypatch)
