"""The page of a first run: one HTML file with all in it, opened from disk without a network.

It has no script, and a policy that lets none run; everything from a run is escaped.
"""

import base64
import html
import io
import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from crosstraj.analysis.first.curve import Points, curve
from crosstraj.analysis.first.shared import Situation
from crosstraj.analysis.first.situation_map import Point, situation_map
from crosstraj.analysis.first.verdict import Judged, Verdict

PARTS = Path(__file__).parent


class Film(NamedTuple):
    caption: str
    webp: bytes


class Story(NamedTuple):
    """All that the page tells."""

    title: str
    verdict: Verdict
    judged: list[Judged]
    films: list[Film]
    missing: str  # why there is no second film; "" if there is
    curve: dict[str, Points]
    chance: float
    situations: list[Situation]
    points: list[Point]  # of the map of situations
    about_situations: str
    explore: str  # a file beside the page; "" if there is none
    commands: list[tuple[str, str]]  # what for, and the command


def page(story: Story) -> str:
    """One pass over the template: what is put in is not looked at again."""
    parts = {
        "title": html.escape(story.title),
        "style": (PARTS / "page.css").read_text("utf-8"),
        "verdict": html.escape(story.verdict.numbers),
        "meaning": html.escape(story.verdict.meaning),
        "bars": bars(story.judged),
        "films": "".join(map(film, story.films)) + missing(story.missing),
        "curve": curve(story.curve, story.chance),
        "situations": situations(story),
        "commands": "".join(
            f"<li>{html.escape(what)}<pre><code>{html.escape(command)}</code></pre></li>"
            for what, command in story.commands
        ),
    }
    template = (PARTS / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def bars(judged: list[Judged]) -> str:
    """A bar for each return, with a line over its 95 % interval; one scale for all."""
    known = [one for one in judged if math.isfinite(one.score)]
    most = max([0.0, *(one.high for one in known if math.isfinite(one.high))]) or 1.0
    rows = []
    for number, one in enumerate(known):
        width, low, high = (
            max(0.0, 100 * value / most) for value in (one.score, one.low, one.high)
        )
        whisker = f'<i style="left:{low:.1f}%;width:{max(0.0, high - low):.1f}%"></i>'
        rows.append(
            f"<tr><th scope=row>{html.escape(one.name)}</th>"
            f'<td class=bar><div><span class="b{number}" style="width:{width:.1f}%"></span>'
            f"{whisker if math.isfinite(one.stderr) else ''}</div></td>"
            f"<td>{one.score:.2f} ± {one.stderr:.2f}</td></tr>"
        )
    return "<table class=bars>" + "".join(rows) + "</table>"


def film(one: Film) -> str:
    words = html.escape(one.caption)
    source = f"data:image/webp;base64,{base64.b64encode(one.webp).decode()}"
    return f'<figure><img src="{source}" alt="{words}"><figcaption>{words}</figcaption></figure>'


def missing(why: str) -> str:
    return f"<p class=missing>{html.escape(why)}</p>" if why else ""


def situations(story: Story) -> str:
    rows = [f"<p>{html.escape(story.about_situations)}</p>"]
    rows.append(situation_map(story.points, story.situations, picture))
    for number, one in enumerate(story.situations):
        frames = "".join(
            f'<img class="{"unseen" if unseen else "seen"}" alt="a frame of another level" '
            f'src="{picture(frame)}">'
            for frame, unseen in zip(one.frames, one.unseen, strict=True)
        )
        words = f"cluster {one.cluster}: {one.views} views of {one.levels} levels"
        head = f'<h3><span class="dot m{number}"></span>{words}</h3>'
        rows.append(f"<div class=situation>{head}<div class=frames>{frames}</div></div>")
    if story.explore:
        rows.append(
            f'<p><a href="{html.escape(story.explore)}">Open the map of all of them</a>: every '
            "point is a piece of an episode; hover, click, and move through training.</p>"
        )
    return "".join(rows)


def picture(frame: NDArray[np.uint8]) -> str:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(frame)).save(file, "webp", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"
