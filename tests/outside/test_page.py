"""The guide to the losses in somebody else's agent: every block of Python in it runs, in order."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import crosstraj as ct
from tests.conftest import Trained

NOT_FIGURES = {"complaints", "code_temperature", "learn", "encode", "time_first"}
DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str) -> list[str]:
    return re.findall(r"(?ms)^```python\n(.*?)^```$", (DOCS / page).read_text())


def test_the_page_runs(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it saves a checkpoint
    # The last block trains for a million frames: a run that is there already stands in for it.
    asked: list[ct.Config] = []
    monkeypatch.setattr(ct, "train", lambda config: asked.append(config) or trained.directory)
    names: dict[str, Any] = {}
    for block in blocks("your_agent.md"):
        exec(block, names)  # the page is one program
    assert names["figures"]["knowing_all"] > 0
    assert names["again"].state_dict().keys() == names["spr"].state_dict().keys()
    assert names["action"].shape == (8,)
    assert [(config.method, config.frames) for config in asked] == [("ctrl", 1_000_000)]


def test_the_snippet_runs_and_gives_the_figures_that_the_questions_speak_of() -> None:
    names = {
        "torch": torch,
        "encode": ct.FrameEncoder(nn.Sequential(nn.Flatten(), nn.Linear(768, 512))),
        "frames": torch.randint(256, (32, 8, 16, 16, 3), dtype=torch.uint8),
        "actions": torch.randint(15, (32, 8)),
        "done": torch.rand(32, 8) < 0.02,
    }
    (snippet,) = [block for block in blocks("methods.md") if "import crosstraj" in block]
    exec(snippet, names)
    assert names["figures"]["cluster"] > 0
    questions = (DOCS / "your_agent.md").read_text().partition("## Questions")[2]
    figures = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", questions)) - NOT_FIGURES
    assert {"view_cosine", "code_entropy", "code_entropy_random", "views"} <= figures
    assert figures <= set(names["figures"])


def test_the_page_names_every_loss() -> None:
    text = (DOCS / "your_agent.md").read_text()
    losses = [
        name
        for name in ct.__all__
        if isinstance(kind := getattr(ct, name), type)
        and issubclass(kind, ct.Loss)
        and kind is not ct.Loss
    ]
    assert len(losses) == 11
    assert all(f"| `ct.{name}` |" in text for name in losses)
