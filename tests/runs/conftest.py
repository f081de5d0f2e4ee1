"""What the tests of this room share."""

import os

import pytest


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process leaves behind does not depend on fsync; only a power cut would tell."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
