"""The page of `crosstraj explore` in a real browser: hovered, clicked, slid, typed at, and read."""

from pathlib import Path
from typing import Any

import pytest

from crosstraj.cli.main import main
from tests.analysis.explorer_page import HOSTILE, VIEWS, Page
from tests.conftest import Trained

pytestmark = pytest.mark.browser


def test_a_hostile_name_is_shown_and_does_nothing(page: Page):
    assert page.text("h1") == HOSTILE
    assert page.driver.title == HOSTILE
    assert not page.all("img")
    assert page.complaints() == []


def test_the_page_fetches_nothing_and_needs_no_network(page: Page):
    assert page.fetched() == []


def test_nothing_offers_to_send_the_chart_away(page: Page):
    named = [button.get_attribute("data-title") for button in page.all("[data-title]")]
    assert "Pan" in named
    assert not [name for name in named if "share" in name.lower() or "cloud" in name.lower()]


def test_hovering_shows_the_frames_of_the_view(page: Page):
    view = page.lonely()
    page.over(view)
    page.until(lambda: page.find("#card").is_displayed())
    assert page.find("#card").get_attribute("data-view") == str(view)
    tiles = page.all("#card .tile")
    assert len(tiles) == 2
    # The tile shows the view's own frames: its place in the sheet is that of view * 2 + number.
    for number, tile in enumerate(tiles):
        index = view * 2 + number
        x, y, side = page.run(
            """const s = getComputedStyle(arguments[0]);
            return [s.backgroundPositionX, s.backgroundPositionY, s.width].map(parseFloat);""",
            tile,
        )
        assert (-x / side, -y / side) == pytest.approx((index % 32, index // 32))
        assert "data:image/webp" in tile.value_of_css_property("background-image")
    said = page.text("#card")
    assert str(page.run("return VIEWS.group[arguments[0]]", view)) in said
    assert "return-to-go" in said


def test_frames_are_decoded_by_the_browser(page: Page):
    size = page.driver.execute_async_script(
        """const done = arguments[0], image = new Image(), tile = document.createElement("div");
        tile.className = "sheet0"; document.body.append(tile);
        image.onload = () => done([image.naturalWidth, image.naturalHeight]);
        image.onerror = () => done("not decoded");
        image.src = getComputedStyle(tile).backgroundImage.slice(5, -2);"""
    )
    assert size == [32 * 64, -(-VIEWS * 2 // 32) * 64]


def test_clicking_a_point_shows_its_cluster(page: Page):
    view = page.lonely()
    page.click(view)
    cluster = page.run("return now().cluster[arguments[0]]", view)
    page.until(lambda: page.text("#panel h2") == f"Cluster {cluster}")
    members = page.run("return members(arguments[0])", cluster)
    assert page.text("#panel p").startswith(f"{len(members)} view")
    samples = [int(s.get_attribute("data-view")) for s in page.all("#panel .sample")]
    assert len(samples) == min(8, len(members))
    assert set(samples) <= set(members)
    opacity = page.run("return document.getElementById('map').data[0].marker.opacity")
    assert [i for i, value in enumerate(opacity) if value > 0.5] == members
    assert page.run("return document.querySelectorAll('#when .bars path').length") > 0
    # A neighbour can be gone to.
    chip = page.all("#panel .chips button")[0]
    other = chip.text.split()[0]
    chip.click()
    page.until(lambda: page.text("#panel h2") == f"Cluster {other}")


def test_the_slider_goes_through_the_snapshots(page: Page):
    frames = page.run("return DATA.moments.map((m) => m.frames)")
    assert frames == [256, 512, 768]
    places = []
    for index in (0, 1, 2):
        page.slide(index)
        page.until(lambda at=frames[index]: f"{at:,} frames" in page.text("#moment-label"))
        places.append(page.run("return document.getElementById('map').data[0].x.slice(0, 50)"))
        assert places[-1] == page.run("return DATA.moments[arguments[0]].x.slice(0, 50)", index)
        line = page.run("return document.getElementById('curve0').layout.shapes[0].x0")
        assert line == frames[index]
    assert places[0] != places[1] != places[2]


def test_curves_show_random_play_and_where_a_figure_is_healthy(page: Page):
    titles = page.run("return DATA.curves.map((curve) => curve.title)")
    first = page.run("return document.getElementById('curve0').data.map((line) => line.name)")
    assert first[-1] == "random play"
    rank = titles.index("effective rank of the features")
    drawn = f"document.getElementById('curve{rank}')"
    _, band = page.run(f"return {drawn}.layout.shapes")
    assert (band["type"], band["y0"]) == ("rect", 20)
    low, high = page.run(f"return {drawn}.layout.yaxis.range")
    assert low == 0
    assert high > 64
    # A line that stands alone for several is named; losses that are to be told apart fill the axis.
    about = titles.index("about the level (0 = nothing, 1 = all)")
    assert "codes: level's share" in page.text(f"#curve{about}")
    losses = titles.index("what predicts the codes (nats, lower is better)")
    drawn = f"document.getElementById('curve{losses}')"
    low, high = page.run(f"return {drawn}.layout.yaxis.range")
    values = page.run(f"return {drawn}.data.flatMap((line) => line.y)")
    assert low < min(values) < max(values) < high
    assert low > 0


def test_every_colouring_can_be_chosen(page: Page):
    looks = set()
    for name in ("cluster", "level", "action", "value", "return", "split"):
        page.run(
            """const s = document.getElementById("colour"); s.value = arguments[0];
            s.dispatchEvent(new Event("change"));""",
            name,
        )
        looks.add(str(page.run("return document.getElementById('map').data[0].marker.color")))
    assert len(looks) == 6
    assert "unseen (100)" in page.text("#legend")


def test_a_cluster_is_shown_in_different_levels_side_by_side(page: Page):
    clusters = page.run("return Object.keys(now().levels).map(Number)")
    # The one that spans most levels comes first in the list.
    page.run("select(Number(document.getElementById('pick').options[1].value))")
    cluster = int(page.text("#panel h2").split()[1])
    spans = {c: page.run("return new Set(members(arguments[0]).map((v) => VIEWS.group[v])).size", c)
             for c in clusters}  # fmt: skip
    assert spans[cluster] == max(spans.values()) > 1
    permuted = page.run("return now().levels[arguments[0]][1]", cluster)
    said = f" of {spans[cluster]} levels (dealt at random: about {permuted:.1f});"
    assert said in page.text("#panel p")
    shown = page.all("#panel .level")
    views = [int(frame.get_attribute("data-view")) for frame in shown]
    assert len(views) == min(8, spans[cluster])
    assert set(views) <= set(page.run("return members(arguments[0])", cluster))
    levels = [page.run("return VIEWS.group[arguments[0]]", view) for view in views]
    assert levels == sorted(set(levels))
    for frame, level in zip(shown, levels, strict=True):
        split = "seen" if level < 200 else "unseen"
        assert frame.text.split() == [str(level), split]
        assert split in frame.get_attribute("class").split()
    # Before the sample states, and no wider than the panel.
    order = page.run(
        "return [...document.querySelectorAll('#panel > div')].map((d) => d.className)"
    )
    assert order.index("levels") < order.index("samples")
    edges = "return document.querySelector(arguments[0]).getBoundingClientRect().right"
    assert page.run(edges, "#panel .levels") <= page.run(edges, "#panel")
    # With nothing selected, a list of the widest clusters leads to them.
    page.run("select(null)")
    first = page.all("#panel .chips button")[0]
    assert first.text.startswith(f"{cluster}: {spans[cluster]} (")
    first.click()
    page.until(lambda: page.text("#panel h2") == f"Cluster {cluster}")


def test_many_levels_are_counted_in_the_legend_and_few_are_listed(page: Page):
    choose = """const s = document.getElementById("colour"); s.value = "level";
        s.dispatchEvent(new Event("change"));"""
    levels = page.run("return new Set(VIEWS.group).size")
    seen = page.run("return new Set(VIEWS.group.filter((level) => level < 200)).size")
    page.run(choose)
    assert page.text("#legend").startswith(f"{levels} levels, {seen} of them seen in training")
    assert len(page.all("#legend span.swatch")) == (levels if levels <= 15 else 0)
    page.run("VIEWS.group = VIEWS.group.map((_, view) => view)" + ";" + choose)
    assert "42 colours and shapes, which repeat" in page.text("#legend")
    assert not page.all("#legend .swatch")


def test_where_there_are_no_levels_the_page_says_episode(
    browser: Any, written: Path, tmp_path: Path
):
    text = written.read_text()
    assert text.count('"groupName":"level"') == 1
    other = tmp_path / "episodes.html"
    other.write_text(text.replace('"groupName":"level"', '"groupName":"episode"'))
    page = Page(browser, other)
    page.run("select(Number(document.getElementById('pick').options[1].value))")
    assert "different episodes" in page.text("#panel").lower()
    assert " level" not in page.text("#panel") + page.text("#pick") + page.text("#colour")
    assert "episode" in page.text("#colour")
    assert page.complaints() == []


def test_the_keyboard_does_all_of_it(page: Page):
    from selenium.webdriver.common.keys import Keys

    map_ = page.find("#map")
    map_.send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: page.find("#card").get_attribute("data-view") == "0")
    map_.send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: page.find("#card").get_attribute("data-view") == "1")
    map_.send_keys(Keys.ENTER)
    cluster = page.run("return now().cluster[1]")
    page.until(lambda: page.text("#panel h2") == f"Cluster {cluster}")
    map_.send_keys(Keys.ARROW_DOWN)
    at = int(page.find("#card").get_attribute("data-view"))
    assert page.run("return now().cluster[arguments[0]]", at) == cluster
    map_.send_keys(",")
    page.until(lambda: "512 frames" in page.text("#moment-label"))
    map_.send_keys(Keys.ESCAPE)
    page.until(lambda: page.text("#panel h2") == "No cluster selected")
    assert not page.find("#card").is_displayed()


def test_the_controls_can_be_reached_with_the_tab_key(page: Page):
    from selenium.webdriver.common.keys import Keys

    reached = []
    for _ in range(6):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(page.run("return document.activeElement.id"))
    assert {"colour", "pick", "moment", "play", "map"} <= set(reached)


def test_a_method_without_clusters_has_a_page_too(browser: Any, trained: Trained, tmp_path: Path):
    out = tmp_path / "ppo.html"
    assert main(["explore", str(trained.directory), "--views", "60", "--out", str(out)]) == 0
    page = Page(browser, out)
    assert page.text("#panel h2") == "No clusters"
    page.over(page.lonely())
    page.until(lambda: page.find("#card").is_displayed())
    assert len(page.all("#card .tile")) == 1
    assert page.complaints() == []
