"""The table of probes: what an experiment file must say, and what it makes of finished runs."""

import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

from crosstraj.analysis.probes import variants
from crosstraj.analysis.probes.variants import UNTRAINED
from crosstraj.cli.main import main
from crosstraj.runs import codec
from tests import conftest
from tests.experiments.same_run import SAME, rows_of

SCREEN = SAME.replace('methods = ["ctrl"]\n', "").format(table="screen")


def screened(place: Path, runs: Path, text: str, *more: str) -> int:
    (place / "e.toml").write_text(text)
    command = ["experiment", str(place / "e.toml"), "--table", "--runs", str(runs)]
    return main([*command, "--kept", str(place / "kept"), "--out", str(place / "out"), *more])


@pytest.fixture
def text(trained: conftest.Trained, monkeypatch: pytest.MonkeyPatch) -> str:
    """One variant, held against itself, with few frames of the expert's play."""
    few = "crosstraj.analysis.probes.ranking.Choices.__new__.__defaults__"
    monkeypatch.setattr(few, (200, 4, 0.2, (), None))
    start = SCREEN.replace("[base]", 'baseline = "ctrl"\n[base]')
    return (
        f'{start}[experts]\nstarpilot = "{trained.directory}"\n[variants.ctrl]\nmethod = "ctrl"\n'
    )


def test_an_experiment_screens_its_variants_with_the_experts_that_it_names(
    trained: conftest.Trained, clustered: Path, text: str, tmp_path: Path
) -> None:
    assert screened(tmp_path, clustered.parent, text) == 0
    found = json.loads((tmp_path / "out/table.json").read_text())["games"]["starpilot"]
    first, ctrl = found["lines"]
    assert [first["variant"], ctrl["variant"]] == [UNTRAINED, "ctrl"]
    gap = ctrl["share"]["value"] - first["share"]["value"]
    assert gap != 0
    assert ctrl["share_over_untrained"]["value"] == pytest.approx(gap)
    assert ctrl["share_over_baseline"]["value"] == 0
    assert ["ctrl", "0 of 1", ""] in rows_of(tmp_path / "out")
    score = json.loads((clustered / "summary.json").read_text())["unseen_return"]
    last = {row[0]: row[-1] for row in rows_of(tmp_path / "out") if len(row) == 9}
    assert last == {
        "variant": "unseen return",
        "---": "---",
        UNTRAINED: "",
        "ctrl": f"{score:.2f}",
        "random play": "1.48",  # of starpilot's unseen levels, by results/random
    }
    assert (
        f"unseen levels; the expert is {trained.directory}"
        in (tmp_path / "out/table.md").read_text()
    )


FILE = "kept/e/probes-starpilot.safetensors"


def test_a_table_is_made_again_of_kept_logs_and_measurements_without_play(
    clustered: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = shutil.copytree(clustered.parent, tmp_path / "runs")
    assert screened(tmp_path, runs, text, "--keep") == 0
    first = (tmp_path / "out/table.md").read_bytes()
    shutil.rmtree(runs)

    def play(*_: Any) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(variants, "examined", play)
    assert screened(tmp_path, runs, text, "--out", str(tmp_path / "elsewhere")) == 0
    assert (tmp_path / "elsewhere/table.md").read_bytes() == first


def test_a_run_whose_weights_are_gone_is_left_out_with_a_note(
    clustered: Path, text: str, tmp_path: Path
) -> None:
    runs = shutil.copytree(clustered.parent, tmp_path / "runs")
    assert screened(tmp_path, runs, text, "--keep") == 0
    shutil.rmtree(runs)
    (tmp_path / FILE).unlink()
    assert screened(tmp_path, runs, text) == 0
    said = (tmp_path / "out/table.md").read_text()
    assert "ctrl, seed 0, is left out: its logs were kept, and its weights were not; rem" in said
    assert "| ctrl |" not in said


def test_a_run_is_judged_by_its_weights_at_the_end_of_the_budget(
    clustered: Path, text: str, tmp_path: Path
) -> None:
    place = tmp_path / "runs"
    run = shutil.copytree(clustered, place / clustered.name)
    assert screened(tmp_path, place, text) == 0
    first = (tmp_path / "out/table.md").read_bytes()
    (tmp_path / FILE).unlink()
    shutil.copytree(run / "snapshots/step-256", run / "checkpoints/step-2048")  # it went on
    assert screened(tmp_path, place, text) == 0
    assert (tmp_path / "out/table.md").read_bytes() == first


def test_measurements_of_another_expert_or_play_are_not_mixed(
    clustered: Path, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert screened(tmp_path, clustered.parent, text) == 0
    other = text.replace("[experts]\nstarpilot = ", f'[experts]\nstarpilot = "{clustered}" #')
    assert screened(tmp_path, clustered.parent, other) == 2
    assert "was measured with another expert or other choices" in capfd.readouterr().err

    file = tmp_path / FILE
    data = file.read_bytes()
    said = json.loads(codec.read_facts(data)["said"])
    for name in [name for name in said["encoders"] if name.startswith("ctrl/")]:
        del said["encoders"][name]
    assert list(said["encoders"]) == ["untrained/0/0"]

    def write(**changed: str) -> None:
        exam = said["exam"] | changed
        facts = {"said": json.dumps(said | {"exam": exam})}
        file.write_bytes(codec.pack(codec.unpack(data), facts))

    write()
    assert screened(tmp_path, clustered.parent, text) == 0  # the same play: it is measured anew
    assert file.read_bytes() == data
    write(play="another")
    assert screened(tmp_path, clustered.parent, text) == 0
    table = (tmp_path / "out/table.md").read_text()
    assert "ctrl, seed 0, is left out: the expert plays otherwise on this machine" in table
    file.write_bytes(data[: len(data) // 2])
    assert screened(tmp_path, clustered.parent, text) == 2
    assert "cannot be read" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "table = 'screen' needs `baseline`"),
        ('baseline = "ctrl"\n', "experts.starpilot is missing"),
        ('baseline = "ctrl"\nexperts.starpilot = 3\n', "experts.starpilot is missing"),
        (
            'baseline = "ctrl"\nexperts.starpilot = "a"\nexperts.maze = "b"\n',
            "experts.maze: 'maze' is not in games above",
        ),
    ],
)
def test_a_screen_without_its_baseline_or_experts_is_refused(
    more: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = SCREEN.replace("[base]", f"{more}[base]") + '[variants.ctrl]\nmethod = "ctrl"\n'
    assert screened(tmp_path, tmp_path / "none", text) == 2
    assert said in capfd.readouterr().err


def test_experts_are_for_a_screen_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = SAME.format(table="health") + '[experts]\nstarpilot = "a"\n'
    assert screened(tmp_path, tmp_path / "none", text) == 2
    assert "experts is for table = 'screen', and this is 'health'" in capfd.readouterr().err
