"""A learning curve as SVG, in the colours of the page around it."""

import math
from collections.abc import Callable, Sequence

Points = Sequence[tuple[float, float]]  # frames, return
Place = Callable[[float], float]  # a number's place in pixels

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 96, 14, 34
LINE = 21  # between two lines of words: page.css makes them as large on a telephone


def curve(lines: dict[str, Points], chance: float) -> str:
    """Return over frames, a line for each name, and a dashed one for random play.

    Names are our own words; each is the class of its line, too.
    """
    known = [point for points in lines.values() for point in points if math.isfinite(point[1])]
    if not known:
        return ""
    levels = [y for _, y in known] + ([chance] if math.isfinite(chance) else [])
    low, high = min(0.0, *levels), 1.1 * max(0.0, *levels) or 1.0
    last = max(x for x, _ in known) or 1

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * x / last

    def down(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low)

    parts = [_grid(low, high, last, across, down)]
    labels: list[tuple[float, str, str]] = []  # height, class, words
    if math.isfinite(chance):
        y = down(chance)
        parts.append(f'<path class="chance" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        labels.append((y, "chance", "random"))
    for name, points in lines.items():
        drawn = [(across(x), down(y)) for x, y in points if math.isfinite(y)]
        if not drawn:
            continue
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in drawn)
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in drawn)
        parts.append(f'<g class="{name}"><path d="M{path}"/>{dots}</g>')
        labels.append((drawn[-1][1], name, name))
    parts += _labels(labels)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="return over frames of training">{"".join(parts)}</svg>'
    )


def _labels(ends: list[tuple[float, str, str]]) -> list[str]:
    """The names beside the ends of their lines, none over another, in a telephone's size either."""
    said, last = [], -math.inf
    for y, look, words in sorted(ends):
        last = max(y + 4, last + LINE)
        said.append(f'<text class="{look}" x="{WIDTH - RIGHT + 6}" y="{last:.1f}">{words}</text>')
    return said


def _grid(low: float, high: float, last: float, across: Place, down: Place) -> str:
    step = 10 ** math.floor(math.log10(high - low))
    step = step / 2 if (high - low) / step < 3 else step
    marks, value = [], math.ceil(low / step) * step
    while value <= high:
        y = down(value)
        marks.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        at = f'x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end"'
        marks.append(f'<text class="axis" {at}>{value:g}</text>')
        value += step
    for share, anchor, unit in ((0, "start", ""), (0.5, "middle", ""), (1, "end", " frames")):
        at = f'x="{across(share * last):.1f}" y="{HEIGHT - 10}" text-anchor="{anchor}"'
        marks.append(f'<text class="axis" {at}>{share * last:,.0f}{unit}</text>')
    return "".join(marks)
