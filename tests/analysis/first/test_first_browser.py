"""The page of `crosstraj first` in a real browser, wide and narrow, in light and dark."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crosstraj.analysis.first import story
from crosstraj.runs import shipped
from tests.browser import Page

pytestmark = pytest.mark.browser

WIDE, NARROW = 1280, 390


@pytest.fixture(scope="module")
def first(
    browser: Any, clustered: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The page of a CTRL run with a hostile name; without a browser nothing is trained for it."""
    run = tmp_path_factory.mktemp("first") / "<img src=x onerror=alert(1)>"
    shutil.copytree(clustered, run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story, "VIEWS", 60)
        patch.setattr(story, "SPAN", 0)
        patch.setattr(story, "SCENE", story.SCENE._replace(steps=4))
        patch.setattr(shipped, "RESULTS", run.parent / "nothing")
        yield story.tell(run, 2).page


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_all_of_it_is_shown_on_every_screen(browser: Any, first: Path, width: int, dark: bool):
    page = Page(browser, first, width, 900, dark=dark)
    assert len(page.all("img")) > 3
    assert page.undecoded() == []
    assert page.overflow() <= 0
    assert (page.brightness() < 60) == dark
    assert page.complaints() == []
    for selector in ("h1", ".bars", ".films img", "svg", ".situation", "ol pre"):
        shown = page.find(selector)
        assert shown.is_displayed(), selector
        assert shown.size["width"] <= width
        assert shown.size["height"] > 0, selector


def test_it_needs_nothing_but_itself_and_leads_to_the_explorer(browser: Any, first: Path):
    page = Page(browser, first, WIDE, 900)
    assert page.fetched() == []
    assert "onerror" in page.text("ol")  # the run's name is in the commands, as text
    page.find("a[href='explore.html']").click()
    page.until(lambda: page.run("return document.body.dataset.ready") == "true")
    assert page.complaints() == []


def test_words_beside_the_curve_can_be_read_on_a_telephone(browser: Any, first: Path):
    page = Page(browser, first, NARROW, 900)
    heights = page.run(
        """return [...document.querySelectorAll("svg text")]
        .map((text) => text.getBoundingClientRect().height);"""
    )
    assert min(heights) > 10
