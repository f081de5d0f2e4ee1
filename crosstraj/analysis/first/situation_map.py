"""The map of situations as SVG: a point per view, and a frame where each shown cluster lies."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosstraj.analysis.first.shared import Situation

WIDTH, HEIGHT, MARGIN, THUMB = 640, 400, 34, 54


class Point(NamedTuple):
    x: float
    y: float
    cluster: int


def points_of(moment: dict[str, Any]) -> list[Point]:
    """Where the page of `explore` has the views of one of its moments; none without clusters."""
    if moment["cluster"] is None:
        return []
    columns = zip(moment["x"], moment["y"], moment["cluster"], strict=True)
    return [Point(x, y, cluster) for x, y, cluster in columns if x is not None and y is not None]


def situation_map(
    points: Sequence[Point],
    situations: Sequence[Situation],
    picture: Callable[[NDArray[np.uint8]], str],
) -> str:
    """Points of the shown clusters in their colours, over all the others; `picture` gives a URL."""
    if not points or not situations:
        return ""
    across = _scale([point.x for point in points], WIDTH)
    down = _scale([-point.y for point in points], HEIGHT)
    place = {one.cluster: number for number, one in enumerate(situations)}
    ordered = sorted(points, key=lambda point: point.cluster in place)  # these lie on top
    parts = [
        f'<circle class="{_look(place, point)}" cx="{across(point.x):.1f}" '
        f'cy="{down(-point.y):.1f}" r="{4 if point.cluster in place else 2.5}"/>'
        for point in ordered
    ]
    for number, one in enumerate(situations):
        own = [point for point in points if point.cluster == one.cluster]
        if own:
            x = across(median(point.x for point in own)) - THUMB / 2
            y = down(median(-point.y for point in own)) - THUMB / 2
            at = f'x="{x:.1f}" y="{y:.1f}" width="{THUMB}" height="{THUMB}"'
            parts.append(f'<image {at} href="{picture(one.frames[0])}"/>')
            parts.append(f'<rect class="m{number}" {at} rx="4"/>')
    return (
        f'<svg class="map" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="map of views, coloured by cluster">{"".join(parts)}</svg>'
    )


def _look(place: dict[int, int], point: Point) -> str:
    return f"m{place[point.cluster]}" if point.cluster in place else "other"


def _scale(values: Sequence[float], pixels: int) -> Callable[[float], float]:
    """From the values' range to pixels, with a margin for the frames at the edge."""
    low, high = min(values), max(values)
    reach = (pixels - 2 * MARGIN) / ((high - low) or 1.0)
    return lambda value: MARGIN + reach * (value - low)
