"""Which runs are compared: budgets, tasks, values and versions are never mixed."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from crosstraj.config.groups import EvaluationConfig
from crosstraj.config.presets import plain, preset
from crosstraj.report.comparison import compare, named
from crosstraj.report.page import write_report
from crosstraj.report.reading import find_runs, read_run
from tests.report.runs import TITLE, make_run, report_on

pytestmark = pytest.mark.usefixtures("quick")


def test_runs_judged_by_validation_levels_stand_apart_and_are_called_so(tmp_path: Path) -> None:
    unseen = make_run(tmp_path, "unseen")
    path = make_run(tmp_path, "validation", evaluation=EvaluationConfig(held_out="validation"))
    rows = (path / "metrics.jsonl").read_text().replace("unseen_return", "validation_return")
    (path / "metrics.jsonl").write_text(rows)
    first, second = compare([read_run(unseen), read_run(path)])
    assert (first.title, first.levels) == (TITLE, "unseen")
    assert (second.title, second.levels) == (
        f"{TITLE}, judged by validation levels",
        "validation",
    )
    (final,) = second.variants[0].finals("coinrun")
    assert (final.seen, final.held_out) == (2.0, 1.0)
    text = write_report([path], tmp_path / "out").with_name("report.md").read_text()
    assert "Raw return on validation levels" in text
    assert "unseen return" not in text


def test_budgets_tasks_and_values_are_never_mixed(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_run(root, "a", seed=0, finals=[(1000, 9.0, 6.0)])
    make_run(root, "b", seed=1, frames=2000, finals=[(1000, 9.0, 7.0), (2000, 9.0, 9.0)])
    make_run(root, "c", "ppo", "procgen", seed=1, finals=[(1000, 9.0, 8.0)])
    make_run(root, "d", seed=1, encoder="laptop", finals=[(1000, 9.0, 5.0)])
    greedy = replace(plain("ppo").evaluation, greedy=True)
    make_run(root, "e", seed=1, evaluation=greedy, finals=[(1000, 9.0, 5.0)])
    fewer = replace(plain("ppo").procgen, train_levels=100)
    make_run(root, "f", seed=1, procgen=fewer, finals=[(1000, 9.0, 5.0)])
    comparisons = compare([read_run(path) for path in find_runs([root])])
    titles = [comparison.title for comparison in comparisons]
    assert titles == [  # that of most runs first
        "1,000 frames, easy levels 0 to 199, sampled actions",
        "2,000 frames, easy levels 0 to 199, sampled actions",
        "1,000 frames, easy levels 0 to 199, greedy actions",
        "1,000 frames, easy levels 0 to 99, sampled actions",
    ]
    (mixed,) = [c for c in comparisons if len(c.variants) > 1]
    assert [v.label for v in mixed.variants] == ["ppo", "ppo procgen", "ppo, encoder=laptop"]
    assert all(len(v.finished) == 1 for v in mixed.variants)
    page = report_on(root)
    note = page.index("The runs differ in budget or task.")
    assert page.index("Normalised return on unseen levels of coinrun") < page.index("![") < note
    assert note < page.index(f"## {titles[0]}") < page.index(f"## {titles[1]}")
    assert "ppo was run with 3 sets of values, which are not averaged" in page


def test_a_variant_with_many_changes_is_called_by_the_first_of_them(tmp_path: Path) -> None:
    make_run(tmp_path, "a")
    policy = replace(preset("ppo", "default").policy, epochs=4, clip=0.3, minibatches=4)
    make_run(tmp_path, "b", encoder="laptop", policy=policy)
    (found,) = compare([read_run(path) for path in find_runs([tmp_path])])
    label = found.variants[1].label
    assert label.startswith("ppo, encoder=laptop, policy.")
    assert label.endswith(" and 2 more")
    assert label.count("=") == 2


def test_other_lattices_are_another_task(tmp_path: Path) -> None:
    ising = plain("ctrl").ising
    for side in (16, 32):
        make_run(tmp_path, str(side), env="ising", ising=replace(ising, side=side))
    assert len(compare([read_run(path) for path in find_runs([tmp_path])])) == 2


def test_machines_do_not_make_a_variant_but_different_episode_counts_are_said(
    tmp_path: Path,
) -> None:
    base = plain("ppo")
    make_run(tmp_path, "a", seed=0, machine=replace(base.machine, threads=1))
    judged = replace(base.evaluation, episodes=64)
    make_run(tmp_path, "b", seed=1, machine=replace(base.machine, threads=2), evaluation=judged)
    (comparison,) = compare([read_run(path) for path in find_runs([tmp_path])])
    assert len(comparison.variants) == 1
    assert named(comparison) == ["mixed: runs were judged by 128 or 64 episodes"]


def test_a_run_of_another_version_is_its_own_variant(tmp_path: Path) -> None:
    make_run(tmp_path, "a")
    make_run(tmp_path, "b", changed={"method": "elsewhere", "wings": 2})
    (comparison,) = compare([read_run(path) for path in find_runs([tmp_path])])
    ours, theirs = comparison.variants
    assert ours.label == "ppo"
    assert re.fullmatch(r"elsewhere #[0-9a-f]{6}", theirs.label)
