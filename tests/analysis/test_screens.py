"""The page of `crosstraj explore` on wide and narrow screens: how it opens, and that it fits."""

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.explorer_page import Page

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_it_opens_on_the_largest_cluster_with_pictures_on_the_map(
    browser: Any, written: Path, width: int, dark: bool
):
    page = Page(browser, written, width, 900, dark=dark)
    sizes = page.run(
        """return now().cluster.reduce((sizes, cluster) => {
        if (cluster >= 0) sizes[cluster] = (sizes[cluster] || 0) + 1; return sizes; }, {});"""
    )
    opened = page.text("#panel h2").removeprefix("Cluster ")
    assert sizes[opened] == max(sizes.values())
    assert page.all("#panel .sample")
    thumbs = page.all("#thumbs .tile")
    assert 1 < len(thumbs) <= len(sizes)
    edges = """const box = arguments[0].getBoundingClientRect();
        return [box.left, box.top, box.right, box.bottom];"""
    left, top, right, bottom = page.run(edges, page.find("#map"))
    for thumb in thumbs:
        assert "data:image/webp" in thumb.value_of_css_property("background-image")
        place = page.run(edges, thumb)
        assert left <= place[0] < place[2] <= right
        assert top <= place[1] < place[3] <= bottom
    assert page.overflow() <= 0
    assert (page.brightness() < 60) == dark
    assert page.complaints() == []


@pytest.mark.parametrize("width", [390, 800])
def test_narrow_screens_show_everything_in_one_column(browser: Any, written: Path, width: int):
    page = Page(browser, written, width, 900)
    view = page.lonely()
    page.click(view)
    page.until(lambda: page.run("return document.getElementById('card').dataset.view") == str(view))
    assert page.overflow() <= 0
    for selector in ("#map", "#panel", "#curves"):
        left, right = page.run(
            """const box = document.querySelector(arguments[0]).getBoundingClientRect();
            return [box.left, box.right];""",
            selector,
        )
        assert left >= 0
        assert right <= width
    assert page.all("#card .tile")[0].is_displayed()
