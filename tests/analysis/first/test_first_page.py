"""The page of a first run: all in one file, no script, and names that stay text."""

import re

import numpy as np

from crosstraj.analysis.first.curve import HEIGHT, curve
from crosstraj.analysis.first.first_page import Film, Story, page
from crosstraj.analysis.first.shared import Situation, spread
from crosstraj.analysis.first.verdict import Judged

HOSTILE = "<script>alert(1)</script> {{style}} \" onload='x' &"


def story(**changes: object) -> Story:
    whole = Story(
        title="ctrl on coinrun",
        verdict="yours 6.4",
        judged=[Judged("random play", 3.0, 0.2), Judged("your agent", 6.4, 0.4)],
        films=[Film("your agent", b"clip")],
        missing="",
        curve={"seen": [(0, 1.0), (10, 4.0)], "unseen": [(0, 1.0), (10, 3.0)]},
        chance=2.0,
        situations=[Situation(3, 20, 9, np.zeros((2, 8, 8, 3), np.uint8), (False, True))],
        about_situations="rows",
        explore="explore.html",
        commands=[("Watch it.", "crosstraj watch runs/a")],
    )
    return whole._replace(**changes)


def test_everything_is_on_the_page_and_nothing_is_fetched():
    text = page(story())
    for said in ("yours 6.4", "6.40 ± 0.40", "cluster 3: 20 views of 9 levels", "crosstraj watch"):
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
            verdict=HOSTILE,
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


def test_frames_are_spread_over_all_levels():
    assert spread(3, 8).tolist() == [0, 1, 2]
    assert spread(100, 5).tolist() == [0, 25, 50, 74, 99]
