"""The table `returns`: each variant on unseen (or validation) and seen levels, and its health."""

import math
from itertools import cycle
from pathlib import Path
from statistics import fmean
from textwrap import fill

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.page import heading, unreadable, write_page
from crosstraj.experiments.tables.results import Result, area, counted, state_of
from crosstraj.experiments.tables.scores import Cells, gains, mean_normalised, rangeable
from crosstraj.health.glossary import GLOSSARY, returns_on, shorts
from crosstraj.learning.evaluation import normalised
from crosstraj.report.cells import RANDOM_PLAY, number, rounded, with_interval
from crosstraj.report.document import marked_table
from crosstraj.report.drawing import GREY, LOOKS, literal, over_frames, panels, shared_curve
from crosstraj.report.statistics import Spread, finite_spread

HEALTH = shorts(  # newest value; shown where a run has it
    *("view_cosine", "code_entropy", "code_entropy_random", "feature_rank", "objective_kl"),
    *("gradient_ratio", "feature_std", "policy_steps"),
)

PRICE = ("processor-hours", "area over random per hour")  # shown where runs have counted them


def returns(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """Held-out returns by game and variant as the paper prints them, then everything by row."""
    cells = by_cell(results)
    parts = [heading(plan, results), matrix(cells, plan.levels), details(cells, plan.levels)]
    if plan.judge:
        parts.append(gains(cells, plan.judge))
    parts.append(notes(results, plan.levels))
    values = {
        "experiment": plan.name,
        "title": plan.title,
        "reproduces": plan.reproduces,
        "scale": plan.scale,
        "cells": [summary(variant, game, cell) for (variant, game), cell in cells.items()],
        "runs": results,
    }
    return [*write_page(out, parts, values), draw(plan, cells, out / "figure.png")]


def by_cell(results: list[Result]) -> Cells:
    cells: Cells = {}
    for result in results:
        cells.setdefault((result.variant, result.game), []).append(result)
    return cells


def final(cell: list[Result], figure: str) -> Spread:
    return finite_spread(r.figures.get(figure, math.nan) for r in counted(cell))


def matrix(cells: Cells, levels: str) -> str:
    """Held-out return: a line per game, a column per variant; an asterisk marks partial sets.

    The last column is that of random play, where it was measured.
    """
    variants, games = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    chance = random_by_game(cells)
    lines = []
    for game in games:
        shown = []
        for variant in variants:
            cell = cells.get((variant, game), [])
            mark = "" if all(r.finished for r in cell) else "*"
            shown.append(f"{rounded(final(cell, f'{levels}_return'))}{mark}")
        known = [number(chance.get(game, math.nan), absent="-")] if chance else []
        lines.append([game, *shown, *known])
    if len(games) > 1 and rangeable(cells):
        overall = [mean_normalised(cells, variant, games) for variant in variants]
        shown = ["-" if mean is None else with_interval(mean) for mean in overall]
        shown += mean_of_random(chance, games)
        lines.append([f"mean, {GLOSSARY['normalised'].short}", *shown])
    last = [RANDOM_PLAY] if chance else []
    return marked_table([returns_on(levels), *variants, *last], lines)


def random_by_game(cells: Cells, *, seen: bool = False) -> dict[str, float]:
    """What random play earns on the levels that runs are judged by, where it was measured."""
    known: dict[str, float] = {}
    for (_, game), cell in cells.items():
        for run in cell:
            score = run.chance_seen if seen else run.chance
            if math.isfinite(score):
                known.setdefault(game, score)
    return known


def mean_of_random(chance: dict[str, float], games: list[str]) -> list[str]:
    """The cell of random play's normalised mean: a dash where a game is missing, or no cell."""
    if not chance:
        return []
    if set(chance) != set(games):
        return ["-"]
    return [f"{fmean(normalised(game, score) for game, score in chance.items()):.3f}"]


def details(cells: Cells, levels: str) -> str:
    known = {f: h for f, h in HEALTH.items() if any(final(c, f).seeds for c in cells.values())}
    held_out, *others = shorts(f"{levels}_return", "seen_return", "gap", "area", "speed").values()
    seen, gap_of, area_of, speed_of = others
    head = ["variant", "game", "seeds", held_out, seen, gap_of, f"{held_out}, {area_of}"]
    timed = any(math.isfinite(r.hours) for cell in cells.values() for r in counted(cell))
    head += [*known.values(), speed_of, *(PRICE if timed else [])]
    lines = []
    for (variant, game), cell in cells.items():
        runs = counted(cell)
        figures = [final(cell, figure) for figure in (f"{levels}_return", "seen_return")]
        figures.append(finite_spread(gap(r) for r in runs))
        figures.append(finite_spread(area(r.curve) for r in runs))
        figures += [final(cell, figure) for figure in known]
        speed = number(finite_spread(r.speed for r in runs).mean, ".0f", absent="-")
        hours = finite_spread(r.hours for r in runs)
        learnt = finite_spread((area(r.curve) - r.chance) / r.hours for r in runs)
        price = (hours, learnt) if timed else ()
        line = [variant, game, state_of(cell), *map(rounded, figures), speed]
        lines.append([*line, *map(rounded, price)])
    trained_on = random_by_game(cells, seen=True)
    for game, chance in random_by_game(cells).items():
        on_seen = number(trained_on.get(game, math.nan), absent="-")
        lines.append([RANDOM_PLAY, game, "-", f"{chance:.2f}", on_seen, *["-"] * (len(head) - 5)])
    told = [n for n, column in enumerate(zip(*lines, strict=True)) if set(column) != {"-"}]
    return marked_table([head[n] for n in told], [[line[n] for n in told] for line in lines])


def gap(result: Result) -> float:
    """What the levels of training give more than those that it is judged by."""
    return result.figures.get("seen_return", math.nan) - result.score


def notes(results: list[Result], levels: str) -> str:
    lines = [
        f"Raw returns of the frozen policy on {levels} and on training (seen) levels; mean over "
        "seeds ± sample standard deviation, and no spread where there is one seed. "
        f"`{levels}, area`: area under the curve of {levels} return between first and last "
        "evaluation, divided by its width. "
        f"`gap`: seen less {levels} return. "
        "`random play`: the mean return of random actions on such levels (results/random). "
        "`mean, normalised`: over games, with the 95 % interval of a bootstrap over seeds. Gains "
        "of one variant over another are in units of the games' ranges, with Welch's 95 % "
        "interval, in bold where it is on one side of zero. "
        "Health figures are the last ones recorded; `(random)` is the code entropy of random unit "
        "vectors. `frames/s`: by the clock, whatever else the machine did meanwhile. `*`: some "
        "seeds are not finished and are not counted, or, where none is finished, shown as far as "
        "they are.",
    ]
    if any(math.isfinite(r.hours) for r in results):
        lines[0] += (
            " `processor-hours`: of a run with its evaluations, summed over its threads; `area "
            "over random per hour`: the area less random play, divided by them."
        )
    return "\n".join([*lines, *unreadable(results)])


def summary(variant: str, game: str, cell: list[Result]) -> dict[str, object]:
    names = sorted({name for r in cell for name in r.figures})
    return {
        "variant": variant,
        "game": game,
        "seeds": len(cell),
        "finished": sum(r.finished for r in cell),
        "state": state_of(cell),
        f"{cell[0].levels}_area": finite_spread(area(r.curve) for r in counted(cell)),
        "frames_per_second": finite_spread(r.speed for r in counted(cell)),
        "figures": {name: final(cell, name) for name in names},
        "extremes": {name: extremes(cell, name) for name in names},
    }


def extremes(cell: list[Result], figure: str) -> tuple[float, float]:
    """The lowest and the highest that any seed has recorded."""
    lows, highs = zip(*(r.extremes[figure] for r in cell if figure in r.extremes), strict=True)
    return min(lows), max(highs)


def draw(plan: Experiment, cells: Cells, path: Path) -> Path:
    """Held-out return over frames: a panel per game; by variant a line, a band of one deviation."""
    games = list(dict.fromkeys(game for _, game in cells))
    variants = list(dict.fromkeys(variant for variant, _ in cells))
    chance = random_by_game(cells)
    figure, grid = panels(len(games), min(4, len(games)), (3.4, 2.8), extra=1.0, least=5.0)
    for axes, game in zip(grid, games, strict=True):
        for variant, (colour, style) in zip(variants, cycle(LOOKS), strict=False):
            curve = mean_curve(cells.get((variant, game), []))
            frames, mean = [f for f, _ in curve], [s.mean for _, s in curve]
            axes.plot(
                frames, mean, style, color=colour, label=literal(variant), marker="o", markersize=3
            )
            deviation = [s.deviation or 0.0 for _, s in curve]
            low = [m - d for m, d in zip(mean, deviation, strict=True)]
            high = [m + d for m, d in zip(mean, deviation, strict=True)]
            axes.fill_between(frames, low, high, color=colour, alpha=0.15, linewidth=0)
        if game in chance:
            axes.axhline(chance[game], color=GREY, linestyle="--", linewidth=1, label=RANDOM_PLAY)
        axes.set_title(literal(game), fontsize=9)
        axes.tick_params(labelsize=7)
        over_frames(axes)
        bottom, top = axes.get_ylim()
        axes.set_ylim(min(bottom, 0.0), max(top, 0.0))  # or noise fills the panel
        axes.set_xlim(left=0)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    finished = [r.finished for cell in cells.values() for r in cell]
    done, total = sum(finished), len(finished)
    state = "" if done == total else f" (partial: {done} of {total} runs)"
    title = fill(literal(f"{plan.title}{state}"), int(13 * figure.get_figwidth()))
    figure.suptitle(f"{title}\nreturn on {plan.levels} levels over frames", fontsize=10)
    figure.savefig(path, dpi=110)
    return path


def mean_curve(cell: list[Result]) -> list[tuple[int, Spread]]:
    """Held-out return at every evaluation that all counted seeds share."""
    curve = shared_curve([dict(r.curve) for r in counted(cell)])
    return [(frames, finite_spread(values)) for frames, values in curve.items()]
