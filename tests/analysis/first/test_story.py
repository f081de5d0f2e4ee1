"""A first run told from its directory: judged, filmed, looked into, on one page."""

import shutil
from pathlib import Path

import pytest

from crosstraj.analysis.first import story
from crosstraj.config.values import Config
from crosstraj.runs import shipped

FEW = {"VIEWS": 40, "SPAN": 0, "SCENE": story.SCENE._replace(steps=4)}


@pytest.fixture
def run(clustered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a CTRL run, with no agent that comes along."""
    for name, value in FEW.items():
        monkeypatch.setattr(story, name, value)
    monkeypatch.setattr(shipped, "RESULTS", tmp_path / "nothing")
    place = tmp_path / "run"
    shutil.copytree(clustered, place)
    return place


def test_the_page_has_the_verdict_the_clip_the_clusters_and_says_what_is_missing(run: Path):
    told = story.tell(run, 2)
    text = told.page.read_text()
    assert told.page == run / "first.html"
    assert "On levels of starpilot that it has never seen: " in told.verdict.numbers
    assert text.count("data:image/webp;base64,") > 2
    assert "No trained agent for starpilot comes with this version" in text
    assert 'href="explore.html"' in text
    assert told.explore.exists()


def test_commands_can_be_pasted_whatever_the_run_is_called():
    place = Path("runs/a b'; rm -rf x")
    found = dict(story.commands(place, Config(env="coinrun"), None))
    assert found["Watch it live in your terminal."].endswith("""'runs/a b'"'"'; rm -rf x' --live""")
    assert not any("--from" in command for command in found.values())
    assert found["Train the baseline on the same levels, and compare."].count("--evaluation.") == 2
    theirs = Config(env="coinrun", encoder="slim")
    along = story.commands(place, Config(env="coinrun"), ("coinrun-ctrl", theirs))
    # Weights fit only a network of the same shape.
    assert "--method ctrl --env coinrun --encoder slim --from agents/coinrun-ctrl" in along[-1][1]
