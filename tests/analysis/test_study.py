"""`crosstraj analyse` and `crosstraj explore` on tiny runs, kind ones and hostile ones."""

import io
import json
import math
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from crosstraj.analysis import cluster_levels, explore, plots
from crosstraj.analysis.embed import Lens, prototype_clusters
from crosstraj.analysis.play import Views
from crosstraj.analysis.result import Choices
from crosstraj.analysis.states import draw_levels
from crosstraj.analysis.study import look, prepare
from crosstraj.analysis.summary import summary
from crosstraj.cli.main import main
from crosstraj.config.presets import plain
from crosstraj.health.glossary import GLOSSARY
from crosstraj.learning.load import load, read_weights, untrained
from crosstraj.objectives.ctrl import CTRL, CTRLConfig
from crosstraj.report.curves import ABOUT_LEVEL, PREDICTORS
from crosstraj.report.drawing import png
from crosstraj.runs import checkpoint
from crosstraj.runs.log import series
from tests.conftest import Trained

HOSTILE = "<img src=x onerror=document.title='hacked'> $\\frac{ {{data}} `|a](b)"


@pytest.fixture
def copy(clustered: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(clustered, tmp_path / "run"))


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """Draw one figure alone: all of them take most of the time."""

    def draw(name: str, drawing: Any) -> None:
        def pictures_of(result: Any) -> dict[str, bytes]:
            return {name: png(drawing(result))}

        monkeypatch.setattr("crosstraj.analysis.plots.draw", pictures_of)

    return draw


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without figures."""
    monkeypatch.setattr("crosstraj.analysis.plots.draw", lambda result: {})


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    capfd.readouterr()
    assert main(arguments) == 2
    said = capfd.readouterr().err.splitlines()[-1]
    assert said.startswith("crosstraj: ")
    return said


# --- The whole of it


def test_an_analysis_writes_its_table_figures_and_summary(clustered, tmp_path):
    assert main(["analyse", str(clustered), "--views", "120", "--out", str(tmp_path)]) == 0
    table = pq.read_table(tmp_path / "views.parquet").to_pydict()
    assert len(table["view"]) == 120
    assert table["split"].count("seen") == table["split"].count("unseen") == 60
    assert {type(cluster) for cluster in table["cluster"]} == {int}
    assert all(0 <= cluster < 8 for cluster in table["cluster"])
    assert all(math.isfinite(x) for x in table["x"] + table["y"])
    assert all(0 <= entropy <= math.log(8) + 1e-5 for entropy in table["code_entropy"])
    for level, split in zip(table["level"], table["split"], strict=True):
        assert (level < 200) == (split == "seen")
    assert Image.open(io.BytesIO(table["frames"][0])).size == (128, 64)  # two keypoints
    assert [len(actions) for actions in table["actions"]] == [2] * 120
    found = json.loads((tmp_path / "measures.json").read_bytes())
    raw = np.mean(np.array(table["cluster"]) == np.array(table["raw_cluster"]))
    assert found["agreement"] == pytest.approx(raw)
    assert [moment["frames"] for moment in found["moments"]] == [256, 512, 768]
    assert found["moments"][-1]["silhouette"] == pytest.approx(found["silhouette"])
    sizes = pq.read_table(tmp_path / "clusters.parquet").to_pydict()
    assert sum(sizes["views"]) == 120
    assert sum(sizes["unseen"]) == 60
    passing = pq.read_table(tmp_path / "transitions.parquet").to_pydict()
    assert sum(passing["count"]) == 120 - found["trajectories"]
    text = (tmp_path / "summary.md").read_text()
    for picture in re.findall(r"\]\((.*?)\)", text):
        assert (tmp_path / picture).stat().st_size > 1000
    assert sizes["levels"] == [
        len({table["level"][view] for view in range(120) if table["cluster"][view] == cluster})
        for cluster in sizes["cluster"]
    ]
    mean = np.average(sizes["levels"], weights=sizes["views"])
    assert found["levels_spanned"] == pytest.approx(mean)
    assert 0 < found["levels_per_cluster"] < 1.2
    assert found["codes_about_level"] < 1
    assert "centring_agreement" not in found  # these clusters are not centred
    named = ("map", "silhouette", "losses", "connectivity", "transitions", "states", "health")
    for name in (*named, "levels"):
        assert f"{name}.png" in text


def test_what_the_run_recorded_of_its_codes_stands_beside_the_untrained_encoder(
    copy, tmp_path, undrawn
):
    """Of the update that the analysed weights come from; later ones do not count."""
    log = copy / "metrics.jsonl"
    recorded = {
        "view_cosine": 0.3, "codes_about_level": 0.9, "level_variance": 0.5,
        "level_variance_untrained": 0.25, "knowing_all": 1.5, "knowing_before": 1.75,
    }  # fmt: skip
    later = {"row": "update", "frames": 768, "level_variance": 0.99}
    rows = [{"row": "update", "frames": 512} | recorded, later]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--views", "40", "--step", "512", "--out", str(tmp_path / "out"))
    assert main(["analyse", str(copy), *words]) == 0
    text = (tmp_path / "out/summary.md").read_text()
    assert (
        "Not collapsed; an estimated 90% of what its codes say is which level a view is from; they "
        "are foretold 0.25 nats better than by repeating the code before."
    ) in text
    for name, cell in (
        ("level_variance", "50.0%"),
        ("level_variance_untrained", "25.0%"),
        ("knowing_before", "1.75"),
    ):
        assert f"| {GLOSSARY[name].label} | {cell} |" in text


def test_the_same_analysis_again_gives_the_same_table(clustered, tmp_path, undrawn):
    for name in ("one", "two"):
        out = str(tmp_path / name)
        assert main(["analyse", str(clustered), "--views", "60", "--out", out]) == 0
    for name in ("views.parquet", "summary.md", "measures.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_method_without_prototypes_is_analysed_on_features(
    trained: Trained, tmp_path, monkeypatch
):
    out = ["--views", "60", "--out", str(tmp_path)]
    assert main(["analyse", str(trained.directory), *out]) == 0
    table = pq.read_table(tmp_path / "views.parquet").to_pydict()
    assert set(table["cluster"]) == {None}
    assert Image.open(io.BytesIO(table["frames"][0])).size == (64, 64)
    assert "this method has no prototypes" in (tmp_path / "summary.md").read_text()
    assert not (tmp_path / "states.png").exists()
    text = (tmp_path / "measures.json").read_text()
    assert "null" in text  # no silhouette without clusters
    assert "NaN" not in text  # which JSON has no name for
    monkeypatch.setattr("crosstraj.analysis.plots.draw", lambda result: {})
    assert main(["analyse", str(trained.directory), "--kmeans", "5", *out]) == 0
    table = pq.read_table(tmp_path / "views.parquet").to_pydict()
    assert set(table["cluster"]) == set(range(5))


def test_a_snapshot_is_analysed_by_its_frame_count(clustered, tmp_path, capfd, undrawn):
    out = ["--views", "40", "--out", str(tmp_path)]
    assert main(["analyse", str(clustered), "--step", "512", *out]) == 0
    found = json.loads((tmp_path / "measures.json").read_bytes())
    assert found["frames"] == 512
    assert [moment["frames"] for moment in found["moments"]] == [256, 512]
    assert "partial: 512 of 768 frames" in (tmp_path / "summary.md").read_text()
    said = refused(capfd, "analyse", str(clustered), "--step", "500", *out)
    assert "it has 256, 512, 768" in said


def test_a_checkpoint_that_is_not_the_newest_can_be_chosen(copy):
    expected, _ = read_weights(copy, 256)
    os.rename(copy / "snapshots" / "step-256", copy / "checkpoints" / "step-256")
    weights, frames = read_weights(copy, 256)
    assert frames == 256
    for name, tensor in expected["agent"].items():
        assert torch.equal(weights["agent"][name], tensor)


def test_without_out_the_results_are_in_the_run(copy, undrawn):
    assert main(["analyse", str(copy), "--views", "40"]) == 0
    assert (copy / "analysis" / "summary.md").exists()
    assert main(["explore", str(copy), "--views", "40"]) == 0
    assert (copy / "explore.html").stat().st_size < 15_000_000


# --- The definition


def test_views_are_embedded_as_training_does_but_in_evaluation_mode(clustered):
    subject = prepare(clustered, Choices(40, None, 0, 0))
    objective = subject.lens.trained.objective
    assert isinstance(objective, CTRL)
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    found = subject.lens.embed(subject.views)
    with torch.no_grad():
        slow = []
        for frames, action in zip(subject.views.frames, subject.views.action, strict=True):
            features = subject.lens.trained.agent.encoder(torch.from_numpy(frames))
            u = objective.film(features, torch.from_numpy(action)).flatten()
            slow.append(objective.psi_clust(u[None])[0])  # one row: batch statistics would fail
    np.testing.assert_allclose(found.vectors, torch.stack(slow).numpy(), rtol=1e-3, atol=1e-4)
    for name, tensor in objective.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_cut_at_the_map_the_lens_sees_what_the_heads_read(clustered):
    views = prepare(clustered, Choices(40, None, 0, 0)).views
    config = replace(plain("ppo"), env="bigfish", encoder_grad="none", split_at="conv")
    trained = untrained(replace(config, envs=2, rollout_steps=16, encoder="laptop"))
    found = Lens(clustered, trained, 0).embed(views)
    with torch.no_grad():
        frames = torch.from_numpy(views.frames).flatten(0, 1)
        seen = trained.agent.top(trained.agent.encoder.map(frames).flatten(1))
    np.testing.assert_allclose(found.vectors, seen.numpy(), rtol=1e-3, atol=1e-4)
    assert found.health["feature_std"] == pytest.approx(float(seen.std(0).mean()), rel=1e-3)


def test_centred_views_are_less_the_mean_of_their_trajectory_and_training_is_beside_them(
    clustered, monkeypatch
):
    subject = prepare(clustered, Choices(120, None, 0, 0))
    lens, views = subject.lens, subject.views
    raw = lens.embed(views)
    assert raw.by_stretch is None
    assert lens.clustering is not None
    given: list[torch.Tensor] = []

    def embed(features: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        given.append(features)
        return plain(features, action)

    plain = lens.clustering.embed
    other_views = lens.clustering._replace(centred=True, embed=embed)
    monkeypatch.setattr(CTRL, "clustering", lambda objective: other_views)
    lens.load(None)
    assert lens.stretch == 16  # 32 steps of a rollout in two minibatches
    found = lens.embed(views)
    with torch.no_grad():
        encoder = lens.trained.agent.encoder
        features = encoder(torch.from_numpy(views.frames).flatten(0, 1)).unflatten(0, (120, 2))
    piece = views.step[:, 0] // 16
    for side, same in (
        (given[0], lambda view: views.trajectory == views.trajectory[view]),
        (
            given[1],
            lambda view: (views.trajectory == views.trajectory[view]) & (piece == piece[view]),
        ),
    ):
        for view in range(0, 120, 7):
            rows = np.flatnonzero(same(view))
            if len(rows) > 1:
                mean = features[rows].flatten(0, 1).mean(0)
                torch.testing.assert_close(side[view], features[view] - mean, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        other = prototype_clusters(plain(given[1], torch.from_numpy(views.action)), lens.clustering)
    np.testing.assert_array_equal(found.by_stretch, other.cluster)
    result = look(subject)
    agreement = np.mean(other.cluster == result.embedding.clusters.cluster)
    assert result.figures["centring_agreement"] == pytest.approx(agreement)
    assert f"as in training, not by trajectory | {agreement:.1%} |" in summary(result, [])


def test_the_lens_sees_with_the_weights_of_each_snapshot(clustered):
    subject = prepare(clustered, Choices(40, None, 0, 0))
    assert list(subject.loaded()) == [256, 512, 768]
    subject.lens.load(256)
    early = subject.lens.embed(subject.views).vectors
    subject.lens.load(None)
    late = subject.lens.embed(subject.views).vectors
    assert not np.allclose(early, late)
    again = Lens(clustered, load(clustered, 256), 0).embed(subject.views).vectors
    np.testing.assert_array_equal(early, again)


def test_clustering_without_actions_ignores_them():
    method = CTRL(CTRLConfig(clusters=4, action_conditioning=False), 256, 5, torch.Generator())
    how = method.eval().clustering()
    features = torch.randn(6, 2, 256)
    one, other = (how.embed(features, torch.full((6, 2), action)) for action in (0, 3))
    assert torch.equal(one, other)
    assert (how.keypoints, how.temperature, how.rounds) == (2, 0.05, 3)


# --- Situations or levels


def test_the_page_knows_the_levels_of_every_cluster_at_every_snapshot(clustered, tmp_path):
    page = tmp_path / "page.html"
    assert main(["explore", str(clustered), "--views", "60", "--out", str(page)]) == 0
    data = contents(page)
    assert data["groupName"] == "level"
    lines = {c["title"]: [line["name"] for line in c["lines"]] for c in data["curves"]}
    assert lines[ABOUT_LEVEL][0] == "codes: level's share"
    assert lines[PREDICTORS][:2] == ["loss", "repeating"]
    assert GLOSSARY["levels_per_cluster"].label in lines
    assert len(data["moments"]) == 3
    for moment in data["moments"]:
        assert set(moment["levels"]) == {str(cluster) for cluster in moment["cluster"]}
        for cluster, (count, permuted) in moment["levels"].items():
            own = [view for view in range(60) if moment["cluster"][view] == int(cluster)]
            assert count == len({data["views"]["group"][view] for view in own})
            assert 1 <= permuted <= len(own)


def test_where_there_are_no_levels_episodes_stand_in(clustered):
    subject = prepare(clustered, Choices(40, None, 0, 0))
    assert cluster_levels.group_of(subject.views) == ("level", subject.views.level)
    columns = dict(zip(Views._fields, tuple(subject.views), strict=True))
    views = Views(**columns | {"level": np.full(40, -1)})
    subject = subject._replace(views=views)
    data = explore.content(subject, [])
    assert data["groupName"] == "episode"
    assert data["views"]["group"] == views.trajectory.tolist()
    text = summary(look(subject), [])
    assert f"episodes that a view's cluster spans, of {len(set(views.trajectory))} |" in text
    assert "levels that" not in text


def test_a_cluster_of_one_level_has_one_frame_in_the_picture_of_levels(clustered):
    result = look(prepare(clustered, Choices(40, None, 0, 0)))
    figure = draw_levels(result)
    assert figure is not None
    (axes,) = figure.axes
    spans = result.span.levels
    assert len(axes.images) == np.minimum(spans, 8).sum()
    words = [text.get_text() for text in axes.texts]
    sizes = result.counts.sum(0)
    first = int(sizes.argmax())
    assert words[0].startswith(f"cluster {first}\n{sizes[first]} views\nof {spans[first]} ")
    assert sum(word.endswith("seen)") for word in words) == len(axes.images)
    left, right, bottom, top = axes.images[0].get_extent()
    assert left < right
    assert top < bottom  # the axis points down: the frame is not upside down


# --- Several runs


def test_several_runs_without_out_are_refused(clustered, capfd):
    said = refused(capfd, "analyse", str(clustered), str(clustered))
    assert "several runs need --out" in said


# --- Bad input and damage


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--views 5", "views=5: at least 20"),
        ("--span 1", "span=1: a view has 2 keypoints"),
        ("--kmeans 1", "kmeans=1: from 2"),
        ("--views 40 --kmeans 30", "kmeans=30: from 2"),
    ],
)
def test_bad_choices_are_refused_in_one_sentence(clustered, capfd, arguments, sentence):
    for command in ("analyse", "explore"):
        assert sentence in refused(capfd, command, str(clustered), *arguments.split())


def test_no_run_and_no_directory_are_refused(capfd, tmp_path):
    assert "not a run directory" in refused(capfd, "explore", str(tmp_path))
    assert "no run is given" in refused(capfd, "analyse")
    assert "is a directory; give the file" in refused(
        capfd, "explore", str(tmp_path), "--out", str(tmp_path)
    )
    assert "at most 5000" in refused(capfd, "explore", str(tmp_path), "--views", "6000")


def poison(run: Path, step: int) -> None:
    """A snapshot whose encoder is all NaN."""
    path = run / "snapshots" / f"step-{step}"
    weights = checkpoint.read_weights(path)
    for name, tensor in weights.items():
        if name.startswith("agent/") and tensor.is_floating_point():
            weights[name] = torch.full_like(tensor, torch.nan)
    shutil.rmtree(path)
    checkpoint.write_weights(run / "snapshots", step, weights, {})


def test_nan_is_shown_as_nan(copy, tmp_path, capfd, undrawn):
    poison(copy, 512)
    out = tmp_path / "out"
    assert main(["analyse", str(copy), "--views", "40", "--out", str(out)]) == 0
    rows = [line for line in (out / "summary.md").read_text().splitlines() if "| 512 |" in line]
    assert rows == ["| 512 | NaN | NaN | 0 | NaN | NaN |"]
    page = tmp_path / "page.html"
    assert main(["explore", str(copy), "--views", "40", "--out", str(page)]) == 0
    moments = contents(page)["moments"]
    assert moments[1]["silhouette"] is None
    assert set(moments[1]["x"]) == {None}
    assert None not in moments[2]["x"]
    said = refused(capfd, "analyse", str(copy), "--views", "40", "--step", "512")
    assert "are not finite, so its policy cannot act" in said


def test_a_damaged_snapshot_is_named_and_left_out(copy, tmp_path, capfd, undrawn):
    path = copy / "snapshots" / "step-256" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    assert main(["analyse", str(copy), "--views", "40", "--out", str(tmp_path / "out")]) == 0
    assert "left out" in capfd.readouterr().err
    text = (tmp_path / "out" / "summary.md").read_text()
    assert "left out" in text
    assert "| 256 |" not in text
    assert "| 512 |" in text


def test_rows_of_a_stranger_are_numbers_or_nan(copy, tmp_path, only):
    rows = [{"frames": 1, "cluster": "<script>"}, ["no row"], {"frames": None, "cluster": True}]
    rows += [{"row": "update", "frames": 9, "cluster": math.nan, "<b>": 1}]
    (copy / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert all(math.isnan(y) for _, y in series([rows[0], rows[2], rows[3]], "cluster"))
    page = tmp_path / "page.html"
    assert main(["explore", str(copy), "--views", "40", "--out", str(page)]) == 0
    title = GLOSSARY["cluster"].label
    curve = next(c for c in contents(page)["curves"] if c["title"] == title)
    assert curve["lines"][0]["y"] == [None, None, None]
    only("losses.png", plots.draw_losses)
    assert main(["analyse", str(copy), "--views", "40", "--out", str(tmp_path / "out")]) == 0


def test_a_run_without_metrics_says_so(copy, tmp_path, undrawn):
    (copy / "metrics.jsonl").unlink()
    assert main(["analyse", str(copy), "--views", "40", "--out", str(tmp_path / "out")]) == 0
    assert "metrics.jsonl has no rows" in (tmp_path / "out" / "summary.md").read_text()


# --- Hostile names


def contents(page: Path) -> dict:
    """The data of a page, as a browser would read it."""
    text = page.read_text()
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_a_hostile_run_name_is_text_everywhere(clustered, tmp_path, only):
    run = tmp_path / HOSTILE
    shutil.copytree(clustered, run)
    assert main(["explore", str(run), "--views", "40"]) == 0
    page = (run / "explore.html").read_text()
    assert "<img" not in page.split("<script>")[0]
    assert contents(run / "explore.html")["title"] == HOSTILE
    assert "default-src 'none'" in page
    only("clusters.png", plots.draw_sizes)
    out = tmp_path / "out"
    runs = [str(run), str(clustered), str(run)]
    assert main(["analyse", *runs, "--views", "40", "--out", str(out)]) == 0
    made = sorted(path.name for path in out.iterdir() if path.is_dir())
    assert len(made) == 3
    assert all(re.fullmatch(r"[\w.-]+", name) for name in made)
    texts = [(out / name / "summary.md").read_text().splitlines()[0] for name in made]
    table = (out / "temperatures.md").read_text()
    texts += [line.split(" | ")[0][2:] for line in table.splitlines() if "hacked" in line]
    assert len([text for text in texts if "hacked" in text]) == 4
    assert not [text for text in texts if re.search(r"(?<!\\)[<>`|\[\]$]", text)]
    assert (out / "temperatures.png").exists()


def test_links_in_a_run_lead_nowhere(copy, tmp_path, capfd):
    outside = tmp_path / "outside"
    outside.mkdir()
    precious = outside / "precious"
    precious.write_text("mine")
    os.symlink(outside, copy / "analysis")
    assert "is a link" in refused(capfd, "analyse", str(copy), "--views", "40")
    os.symlink(precious, copy / "explore.html")
    assert main(["explore", str(copy), "--views", "40"]) == 0
    assert precious.read_text() == "mine"
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert not (copy / "explore.html").is_symlink()
