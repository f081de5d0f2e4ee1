"""Experiment files whose pictures are made of weights: one command makes each of them."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crosstraj.analysis import gallery
from crosstraj.analysis.gallery import Course, Map, Sample
from crosstraj.cli.main import main
from crosstraj.experiments.file import read
from crosstraj.experiments.tables.kinds import WEIGHTS
from tests.experiments.same_run import SAME, rows_of


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough views to make every picture."""
    monkeypatch.setattr("crosstraj.analysis.gallery.VIEWS", 64)
    monkeypatch.setattr("crosstraj.analysis.temperatures.SNAPSHOT_VIEWS", 64)


def made(table: str, clustered: Path, place: Path) -> Path:
    """The results of `crosstraj experiment FILE`, where the one run is done already."""
    file = place / "e.toml"
    file.write_text(SAME.format(table=table))
    assert read(file).table == table
    out = place / "out"
    command = ["experiment", str(file), "--runs", str(clustered.parent), "--out", str(out)]
    assert main(command) == 0
    return out


def shape(path: Path) -> tuple[int, int]:
    return Image.open(path).size


def test_states_of_the_largest_clusters_four_of_each_and_four_clusters_on_starpilot(
    clustered: Path, tmp_path: Path, fewer: None
) -> None:
    out = made("samples", clustered, tmp_path)
    found = json.loads((out / "table.json").read_text())["rows"]
    assert [one["rank"] for one in found] == [0, 1, 2, 3]
    sizes = [one["views"] for one in found]
    assert sizes == sorted(sizes, reverse=True)
    assert len(rows_of(out)) == 2 + 4
    assert "1 of 1 runs are finished" in (out / "table.md").read_text()
    assert shape(out / "figure.png")[0] > 100


def test_sampled_states_are_members_of_their_cluster(
    clustered: Path, fewer: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}
    prepare = gallery.prepare

    def watched(run: Path, choices: gallery.Choices) -> object:
        seen["subject"] = prepare(run, choices)
        return seen["subject"]

    monkeypatch.setattr(gallery, "prepare", watched)
    found = gallery.samples(clustered, "ctrl")
    subject = seen["subject"]
    clusters = subject.lens.embed(subject.views).clusters.cluster
    for one in found:
        members = subject.views.frames[clusters == one.cluster, 0]
        assert len(members) == one.views
        assert len(one.states) == min(4, one.views)
        assert all((state == members).all((1, 2, 3)).any() for state in one.states)


def test_a_map_for_each_snapshot_of_what_it_meets(
    clustered: Path, tmp_path: Path, fewer: None
) -> None:
    out = made("maps", clustered, tmp_path)
    assert [cells[1] for cells in rows_of(out)[2:]] == ["256", "512", "768"]
    assert (out / "figure.png").exists()


def test_losses_from_the_log_and_likeness_from_every_snapshot(
    clustered: Path, tmp_path: Path, fewer: None
) -> None:
    out = made("course", clustered, tmp_path)
    (course,) = json.loads((out / "table.json").read_text())["rows"]
    logged = [json.loads(line) for line in (clustered / "metrics.jsonl").read_text().splitlines()]
    expected = [[row["frames"], row["cluster"]] for row in logged if "cluster" in row]
    assert course["cluster"] == expected
    assert len(expected) == 3
    assert [frames for frames, _ in course["alike"]] == [256, 512, 768]
    assert all(-1 <= value <= 1 for _, value in course["alike"])
    assert (out / "figure.png").exists()


def test_silhouette_and_return_by_temperature_in_a_figure_for_each_preset(
    clustered: Path, tmp_path: Path, fewer: None
) -> None:
    out = made("temperature", clustered, tmp_path)
    text = (out / "table.md").read_text()
    assert "Preset `default`" in text
    assert "figure-default.png" in text
    (run,) = json.loads((out / "table.json").read_text())["rows"]
    assert len(run["moments"]) == 3
    assert (out / "figure-default.png").exists()


@pytest.mark.parametrize("table", [name for name in WEIGHTS if name != "ising"])
def test_nothing_is_drawn_of_runs_that_have_not_begun(table: str, tmp_path: Path) -> None:
    file, out = tmp_path / "e.toml", tmp_path / "out"
    file.write_text(SAME.format(table=table))
    command = ["experiment", str(file), "--table", "--runs", str(tmp_path / "runs")]
    assert main([*command, "--out", str(out)]) == 0
    assert "**Partial**: 0 of 1 runs are finished" in (out / "table.md").read_text()
    assert not list(out.glob("*.png"))


def test_the_files_of_the_papers_pictures_have_the_papers_values_and_ours() -> None:
    tables = {"tsne": "maps", "temperature": "temperature", "temporal": "course"}
    for name, table in (tables | {"samples": "samples"}).items():
        plan = read(Path(f"experiments/paper/{name}.toml"))
        assert plan.table == table
        assert {v["preset"] for v in plan.variants.values()} == {"paper", "default"}


def drawn(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_pictures_show_every_variant() -> None:
    """A second variant makes them larger, or adds its colour."""
    red = np.full((4, 8, 8, 3), (200, 30, 30), np.uint8)
    first, second = (Sample(name, "bigfish", 0, 3, 9, 2, red) for name in "ab")
    assert (
        drawn(gallery.draw_samples([first, second])).shape[1]
        > 1.5 * (drawn(gallery.draw_samples([first])).shape[1])
    )
    place, cluster = np.zeros((5, 2), np.float32), np.arange(5)
    one, other = (Map(name, 10, place, cluster, 0.5) for name in "ab")
    assert len(drawn(gallery.draw_maps([one, other]))) > 1.5 * len(drawn(gallery.draw_maps([one])))
    points = [(1.0, 0.5), (2.0, 0.1)]
    a, b = (Course(name, points, points, points, points) for name in "ab")
    assert (drawn(gallery.draw_courses([a, b])) != drawn(gallery.draw_courses([a]))).any()
