"""The page of `crosstraj report` in a real browser, wide and narrow, in light and dark."""

from pathlib import Path
from typing import Any

import pytest

from crosstraj.report import statistics
from crosstraj.report.page import write_report
from tests.browser import Page
from tests.report.runs import make_run

pytestmark = pytest.mark.browser

WIDE, NARROW = 1280, 390
HOSTILE = "<img src=x onerror=document.title='hacked'>"


@pytest.fixture(scope="module")
def several(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two budgets, two methods, two games and a hostile name, with every kind of table."""
    root = tmp_path_factory.mktemp("reports")
    for method in ("ppo", "ctrl"):
        for game in ("coinrun", "starpilot"):
            for seed in range(2):
                finals = [(500, 3.0, 2.0), (1000, 6.0 + seed, 5.0)]
                name = f"{method}-{game}-{seed}"
                make_run(root / "runs", name, method, env=game, seed=seed, finals=finals)
    make_run(root / "runs", HOSTILE, frames=2000, finals=[(600, 1.0, 1.0)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "RESAMPLES", 50)
        return write_report([root / "runs"], root / "page")


@pytest.fixture(scope="module")
def alone(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report")
    run = make_run(root, HOSTILE, finals=[(500, 3.0, 2.0), (1000, 6.0, 5.0)])
    return write_report([run], root / "page")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("kind", ["several", "alone"])
def test_all_of_it_is_shown_on_every_screen(
    browser: Any, request: pytest.FixtureRequest, kind: str, width: int, dark: bool
):
    page = Page(browser, request.getfixturevalue(kind), width, 900, dark=dark)
    assert page.undecoded() == []
    assert page.overflow() <= 0
    assert (page.brightness() < 60) == dark
    assert page.complaints() == []
    assert HOSTILE in page.text("body")
    for selector in ("h1", "h1 + p", "figure img", "table"):
        shown = page.find(selector)
        assert shown.is_displayed(), selector
        assert shown.size["height"] > 0, selector
    assert page.driver.title.startswith("Report on ")


def test_the_result_and_its_picture_are_on_the_first_screen(browser: Any, several: Path):
    page = Page(browser, several, WIDE, 900)
    assert page.text("h1 + p").startswith("Normalised return on unseen levels of 2 games")
    top = "return document.querySelector('figure img').getBoundingClientRect().top"
    assert page.run(top) < 450
    kinds = page.run("return [...document.body.children].map((part) => part.tagName)")
    assert kinds[:3] == ["H1", "P", "FIGURE"]
    assert "differ in budget" in page.text("body")
    assert page.text("figure ~ p").startswith("The runs differ in budget or task.")


def test_dark_pictures_are_dark(browser: Any, several: Path):
    look = "return getComputedStyle(document.querySelector('figure img')).filter"
    assert "invert" in Page(browser, several, WIDE, 900, dark=True).run(look)
    assert Page(browser, several, WIDE, 900).run(look) == "none"
