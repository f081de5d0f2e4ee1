"""A learning curve as SVG, in the colours of the page around it."""

import math
from collections.abc import Callable, Sequence

Points = Sequence[tuple[float, float]]  # frames, return
Place = Callable[[float], float]  # a number's place in pixels

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 96, 14, 34


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
    if math.isfinite(chance):
        y = down(chance)
        parts.append(f'<path class="chance" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="chance" x="{WIDTH - RIGHT + 6}" y="{y + 4:.1f}">random</text>')
    labels: list[tuple[float, str]] = []
    for name, points in lines.items():
        drawn = [(across(x), down(y)) for x, y in points if math.isfinite(y)]
        if not drawn:
            continue
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in drawn)
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in drawn)
        parts.append(f'<g class="{name}"><path d="M{path}"/>{dots}</g>')
        labels.append((drawn[-1][1], name))
    parts += _labels(labels)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="return over frames of training">{"".join(parts)}</svg>'
    )


def _labels(ends: list[tuple[float, str]]) -> list[str]:
    """The names beside the ends of their lines, none over another."""
    said, last = [], -math.inf
    for y, name in sorted(ends):
        last = max(y + 4, last + 14)
        said.append(f'<text class="{name}" x="{WIDTH - RIGHT + 6}" y="{last:.1f}">{name}</text>')
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
    for share in (0, 0.5, 1):
        x, words = across(share * last), f"{share * last:,.0f}"
        marks.append(
            f'<text class="axis" x="{x:.1f}" y="{HEIGHT - 14}" text-anchor="middle">{words}</text>'
        )
    at = f'x="{across(last / 2):.1f}" y="{HEIGHT - 1}" text-anchor="middle"'
    marks.append(f'<text class="axis" {at}>frames</text>')
    return "".join(marks)
