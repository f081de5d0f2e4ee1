"""Variants of several seeds against untrained encoders and a baseline, by one expert."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from crosstraj.analysis.probes.judge import Pair
from crosstraj.analysis.probes.variants import UNTRAINED, Line, lines
from crosstraj.cli.main import main
from crosstraj.report.statistics import Estimate
from tests import conftest
from tests.analysis.test_gallery import SAME, rows_of

EXAM = SimpleNamespace(levels=5)
RESAMPLED = np.array([0.0, -0.1, 0.1])  # what two resamples add


def pair(share: float, noise: np.ndarray = RESAMPLED) -> Pair:
    return Pair(share + noise, share / 2 + noise)


def test_each_seed_is_held_against_its_own_untrained_encoder_and_baseline():
    found = {
        (UNTRAINED, 0): pair(0.1),
        (UNTRAINED, 1): pair(0.3),
        ("ppo", 0): pair(0.2),
        ("ppo", 1): pair(0.4),
        ("ours", 0): pair(0.7),
        ("ours", 1): pair(0.5),
        ("half", 1): pair(0.6),
        ("alone", 2): pair(0.9),  # the baseline has no such seed
    }
    table = {line.variant: line for line in lines(found, "ppo", EXAM)}
    assert list(table) == [UNTRAINED, "ppo", "ours", "half"]
    assert table["ours"].seeds == [0, 1]
    assert table["half"].seeds == [1]
    assert table["ours"].share.value == pytest.approx(0.6)
    assert table["ours"].share_over_untrained.value == pytest.approx((0.6 + 0.2) / 2)
    assert table["ours"].share_over_baseline.value == pytest.approx((0.5 + 0.1) / 2)
    assert table["half"].share_over_baseline.value == pytest.approx(0.2)
    assert table["half"].auc_over_untrained.value == pytest.approx(0.15)
    assert table["ppo"].share_over_baseline == pytest.approx((0, 0, 0))
    assert table[UNTRAINED].share_over_untrained == pytest.approx((0, 0, 0))
    # On the same resamples the noise of both cancels, so a difference has no width.
    low, high = table["ours"].share_over_baseline[1:]
    assert (low, high) == pytest.approx((0.3, 0.3))
    assert table["ours"].share.low < 0.55


@pytest.mark.parametrize(
    ("untrained", "baseline", "passes"),
    [(0.01, 0.01, True), (-0.01, 0.01, False), (0.01, -0.01, False), (0.01, np.nan, False)],
)
def test_a_variant_passes_where_both_intervals_lie_above_zero(
    untrained: float, baseline: float, passes: bool
) -> None:
    both = (Estimate(0.5, low, 1) for low in (untrained, baseline))
    assert Line("ours", [0], Estimate(1), *both, *[Estimate(1)] * 3).passes is passes


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
