"""What a run asks of a node: from the file, and from options over it."""

from pathlib import Path

import pytest

from crosstraj.errors import BadInput
from crosstraj.experiments.cluster.needs import Needs, needs_of
from crosstraj.experiments.file import read


def test_options_go_before_the_file() -> None:
    table = {"cpus": 2, "gpus": 0.25, "resources": {"fast": 1}, "labels": {"kind": "c7"}}
    assert needs_of(table) == Needs(2.0, 0.25, {"fast": 1.0}, {"kind": "c7"})
    given = needs_of(table, 3.5, 0.0, ("slow=0.5",), ("kind=c8", "zone=b"))
    assert given == Needs(3.5, 0.0, {"slow": 0.5}, {"kind": "c8", "zone": "b"})
    assert given.threads == 3
    assert given.options() == {
        "num_cpus": 3.5,
        "num_gpus": 0.0,
        "resources": {"slow": 0.5},
        "label_selector": {"kind": "c8", "zone": "b"},
    }
    assert needs_of({}, cpus=0.5).threads == 1
    assert needs_of({"gpus": 1}, cpus=0).options()["num_cpus"] == 0


def test_a_node_meets_needs_that_it_has_enough_for() -> None:
    needs = Needs(2, 0.5, {"fast": 1}, {"kind": "c7"})
    node = {"CPU": 2.0, "GPU": 1.0, "fast": 1.0}
    assert needs.met_by(node, {"kind": "c7", "zone": "b"})
    assert not needs.met_by(node | {"CPU": 1.5}, {"kind": "c7"})
    assert not needs.met_by(node, {"kind": "c8"})
    assert not needs.met_by({"CPU": 2.0, "GPU": 1.0}, {"kind": "c7"})


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ({"cpu": 1}, {}, "did you mean 'cpus'"),
        ({"cpus": "two"}, {}, "cluster.cpus='two': must be a number"),
        ({"cpus": True}, {}, "must be a number"),
        ({"labels": "c7"}, {}, "must be a table"),
        ({"gpus": 1.5}, {}, "above 1 it must be a whole number"),
        ({"cpus": -1}, {}, "at least 0"),
        ({"cpus": 0}, {}, "cluster.cpus=0: a run that asks for nothing"),
        ({"resources": {"fast": 0}}, {}, "above 0"),
        ({}, {"resources": ("fast",)}, "must be NAME=VALUE"),
        ({}, {"resources": ("fast=much",)}, "must be a number"),
    ],
)
def test_nonsense_gets_one_sentence(
    table: dict[str, object], options: dict[str, tuple[str, ...]], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        needs_of(table, resources=options.get("resources", ()))


def test_a_file_with_nonsense_is_refused_before_anything_runs(tmp_path: Path) -> None:
    text = 'name = "a"\ntitle = "A"\nreproduces = "Nothing."\nframes = 1\ngames = ["bigfish"]\n'
    text += 'seeds = [0]\nmethods = ["ppo"]\n[cluster]\n'
    (tmp_path / "file.toml").write_text(f"{text}cpus = 2\n")
    assert needs_of(read(tmp_path / "file.toml").cluster) == Needs(2.0)
    (tmp_path / "file.toml").write_text(f"{text}cpu = 2\n")
    with pytest.raises(BadInput, match=r"file.toml: unknown key of cluster 'cpu'"):
        read(tmp_path / "file.toml")
