"""The page of a first run: all in one file, no script, and names that stay text."""

import re

import numpy as np

from crosstraj.analysis.first.curve import HEIGHT, curve
from crosstraj.analysis.first.first_page import Film, Story, page
from crosstraj.analysis.first.shared import Situation, spread
from crosstraj.analysis.first.situation_map import Point, points_of, situation_map
from crosstraj.analysis.first.verdict import Judged, Verdict

HOSTILE = "<script>alert(1)</script> {{style}} \" onload='x' &"


def story(**changes: object) -> Story:
    whole = Story(
        title="ctrl on coinrun",
        verdict=Verdict("yours 6.4", "it learns"),
        judged=[Judged("random play", 3.0, 0.2), Judged("your agent", 6.4, 0.4)],
        films=[Film("your agent", b"clip")],
        missing="",
        curve={"seen": [(0, 1.0), (10, 4.0)], "unseen": [(0, 1.0), (10, 3.0)]},
        chance=2.0,
        situations=[Situation(3, 20, 9, np.zeros((2, 8, 8, 3), np.uint8), (False, True))],
        points=[Point(0.0, 0.0, 3), Point(1.0, 1.0, 3), Point(2.0, 0.5, 7)],
        about_situations="rows",
        explore="explore.html",
        commands=[("Watch it.", "crosstraj watch runs/a")],
    )
    return whole._replace(**changes)


def test_everything_is_on_the_page_and_nothing_is_fetched():
    text = page(story())
    for said in (
        "yours 6.4",
        "it learns",
        "6.40 ± 0.40",
        "cluster 3: 20 views of 9 levels",
        "crosstraj watch",
    ):
        assert said in text
    assert "{{" not in text
    sources = re.findall(r'src="([^"]*)"', text)
    assert len(sources) == 3
    assert all(source.startswith("data:image/webp;base64,") for source in sources)
    assert "http" not in text.replace('http-equiv="Content', "")
    assert "<script" not in text


def test_hostile_names_stay_text():
    text = page(
        story(
            title=HOSTILE,
            verdict=Verdict(HOSTILE, HOSTILE),
            missing=HOSTILE,
            commands=[(HOSTILE, HOSTILE)],
            judged=[Judged(HOSTILE, 1.0, 0.1)],
            films=[Film(HOSTILE, b"")],
        )
    )
    assert "<script" not in text
    assert "onload='x'" not in text
    assert text.count("<style>") == 1


def test_a_curve_is_higher_where_the_return_is():
    drawn = curve({"seen": [(0, 1.0), (10, 4.0)]}, 2.0)
    places = [float(y) for y in re.findall(r'cy="([\d.]+)"', drawn)]
    (chance,) = [float(y) for y in re.findall(r'class="chance" d="M\d+ ([\d.]+)H', drawn)]
    assert 0 < places[1] < chance < places[0] < HEIGHT
    assert curve({"seen": []}, 2.0) == ""
    below = curve({"seen": [(0, -3.0), (10, -2.0)]}, -2.66)  # fruitbot: all are negative
    first, last = (float(y) for y in re.findall(r'cy="([\d.]+)"', below))
    assert 0 < last < first < HEIGHT
    assert "random" not in curve({"seen": [(0, 1.0)]}, float("nan"))


def test_the_map_has_a_point_for_each_view_and_a_frame_for_each_shown_cluster():
    (situation,) = story().situations
    drawn = situation_map(story().points, [situation], lambda frame: "data:x")
    assert drawn.count("<circle") == 3
    assert drawn.count('class="m0" cx') == 2
    assert drawn.count('href="data:x"') == 1
    # The higher point is drawn higher up, and the frame lies between its two points.
    (low, high) = (float(y) for y in re.findall(r'class="m0" cx="[\d.]+" cy="([\d.]+)"', drawn))
    assert high < low
    (top, side) = re.findall(r'<image x="[\d.]+" y="([\d.]+)" width="(\d+)"', drawn)[0]
    assert float(top) + float(side) / 2 == (low + high) / 2
    assert situation_map([], [situation], str) == situation_map(story().points, [], str) == ""
    moment = {"x": [1.0, None], "y": [2.0, None], "cluster": [5, -1]}
    assert points_of(moment) == [Point(1.0, 2.0, 5)]
    assert points_of(moment | {"cluster": None}) == []


def test_frames_are_spread_over_all_levels():
    assert spread(3, 8).tolist() == [0, 1, 2]
    assert spread(100, 5).tolist() == [0, 25, 50, 74, 99]
