"""What the tests of this room share."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.main import main
from tests.analysis.explorer_page import HOSTILE, VIEWS, Page


@pytest.fixture(scope="session")
def written(browser: Any, clustered: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with a hostile name; without a browser nothing is trained for it."""
    run = tmp_path_factory.mktemp("hostile") / HOSTILE
    shutil.copytree(clustered, run)
    assert main(["explore", str(run), "--views", str(VIEWS)]) == 0
    return run / "explore.html"


@pytest.fixture
def page(browser: Any, written: Path) -> Page:
    return Page(browser, written)
