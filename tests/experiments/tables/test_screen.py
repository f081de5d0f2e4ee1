"""The table of probes: what an experiment file must say, and what it makes of finished runs."""

import json
from pathlib import Path

import pytest

from crosstraj.analysis.probes.variants import UNTRAINED
from crosstraj.cli.main import main
from tests import conftest
from tests.experiments.same_run import SAME, rows_of

SCREEN = SAME.replace('methods = ["ctrl"]\n', "").format(table="screen")


def screened(place: Path, clustered: Path, text: str) -> int:
    (place / "e.toml").write_text(text)
    command = ["experiment", str(place / "e.toml"), "--table", "--runs", str(clustered.parent)]
    return main([*command, "--out", str(place / "out")])


def test_an_experiment_screens_its_variants_with_the_experts_that_it_names(
    trained: conftest.Trained, clustered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = "crosstraj.analysis.probes.ranking.Choices.__new__.__defaults__"
    monkeypatch.setattr(few, (200, 4, 0.2, (), None))
    text = SCREEN.replace("[base]", 'baseline = "ctrl"\n[base]')
    text += f'[experts]\nstarpilot = "{trained.directory}"\n[variants.ctrl]\nmethod = "ctrl"\n'
    assert screened(tmp_path, clustered, text) == 0
    found = json.loads((tmp_path / "out/table.json").read_text())["games"]["starpilot"]
    first, ctrl = found["lines"]
    assert [first["variant"], ctrl["variant"]] == [UNTRAINED, "ctrl"]
    gap = ctrl["share"]["value"] - first["share"]["value"]
    assert gap != 0
    assert ctrl["share_over_untrained"]["value"] == pytest.approx(gap)
    assert ctrl["share_over_baseline"]["value"] == 0
    assert ["ctrl", "0 of 1", ""] in rows_of(tmp_path / "out")
    assert (
        f"unseen levels; the expert is {trained.directory}"
        in (tmp_path / "out/table.md").read_text()
    )


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
