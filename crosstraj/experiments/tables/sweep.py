"""The table `sweep`: held-out return over one value, such as the number of clusters.

A line for each method and preset, a panel for each game: the mean of the finished seeds at the end
of the budget, and one standard deviation of theirs.
"""

import math
from itertools import cycle
from pathlib import Path
from textwrap import fill

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.kinds import line_of
from crosstraj.experiments.tables.page import heading, write_page
from crosstraj.experiments.tables.results import Result
from crosstraj.experiments.tables.returns import (
    by_cell,
    details,
    final,
    mean_of_random,
    notes,
    random_by_game,
)
from crosstraj.experiments.tables.scores import Cells, mean_normalised, rangeable
from crosstraj.health.glossary import GLOSSARY, returns_on
from crosstraj.report.cells import RANDOM_PLAY, number, rounded, with_interval
from crosstraj.report.document import marked_table
from crosstraj.report.drawing import GREY, LOOKS, literal, panels
from crosstraj.report.statistics import Spread

Line = dict[float, str]  # the variant of each value, in ascending order


def sweep(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """Returns by game, line and value, then everything by row."""
    cells, lines = by_cell(results), lines_of(plan)
    games = list(dict.fromkeys(game for _, game in cells))
    rest = [details(cells, plan.levels), notes(results, plan.levels)]
    parts = [heading(plan, results), matrix(plan, cells, lines, games), *rest]
    values = {
        "experiment": plan.name,
        "over": plan.over,
        "scale": plan.scale,
        "points": [
            {"game": game, "line": name, "value": value, "return": at_end(plan, cells, where)}
            for name, line in lines.items()
            for value, variant in line.items()
            for game in games
            if (where := (variant, game)) in cells
        ],
        "runs": results,
    }
    return [*write_page(out, parts, values), draw(plan, cells, lines, games, out / "figure.png")]


def lines_of(plan: Experiment) -> dict[str, Line]:
    """The variants of each line, by the value that they differ in."""
    lines: dict[str, Line] = {}
    for variant, values in plan.variants.items():
        value = values[plan.over]
        assert isinstance(value, int | float)  # the file was asked
        lines.setdefault(line_of(values), {})[value] = variant
    return {name: dict(sorted(line.items())) for name, line in lines.items()}


def at_end(plan: Experiment, cells: Cells, where: tuple[str, str]) -> Spread:
    """Of the finished seeds of a variant and game, or of those that have begun."""
    return final(cells.get(where, []), f"{plan.levels}_return")


def matrix(plan: Experiment, cells: Cells, lines: dict[str, Line], games: list[str]) -> str:
    """A row per game and line, a column per value; an asterisk marks partial sets of seeds.

    The last column is that of random play, where it was measured.
    """
    values = sorted({value for line in lines.values() for value in line})
    chance = random_by_game(cells)
    rows = []
    for game in games:
        for name, line in lines.items():
            shown = []
            for value in values:
                where = line.get(value, ""), game
                mark = "" if all(result.finished for result in cells.get(where, [])) else "*"
                shown.append(f"{rounded(at_end(plan, cells, where))}{mark}")
            known = [number(chance.get(game, math.nan), absent="-")] if chance else []
            rows.append([game, name, *shown, *known])
    if len(games) > 1 and rangeable(cells):
        for name, line in lines.items():
            means = (mean_normalised(cells, line.get(value, ""), games) for value in values)
            shown = ["-" if mean is None else with_interval(mean) for mean in means]
            shown += mean_of_random(chance, games)
            rows.append([f"mean, {GLOSSARY['normalised'].short}", name, *shown])
    heads = [f"{last_part(plan.over)} {value:g}" for value in values]
    last = [RANDOM_PLAY] if chance else []
    return marked_table([returns_on(plan.levels), "method", *heads, *last], rows)


def last_part(name: str) -> str:
    """`clusters` of `objective.clusters`."""
    return name.rpartition(".")[2].replace("_", " ")


def draw(
    plan: Experiment, cells: Cells, lines: dict[str, Line], games: list[str], path: Path
) -> Path:
    figure, grid = panels(len(games), min(4, len(games)), (3.4, 2.8), extra=1.0, least=5.0)
    values = sorted({value for line in lines.values() for value in line})
    chance = random_by_game(cells)
    for axes, game in zip(grid, games, strict=True):
        for (name, line), (colour, style) in zip(lines.items(), cycle(LOOKS), strict=False):
            found = {v: at_end(plan, cells, (variant, game)) for v, variant in line.items()}
            known = {value: spread for value, spread in found.items() if spread.seeds}
            axes.errorbar(
                list(known),
                [spread.mean for spread in known.values()],
                [spread.deviation or 0.0 for spread in known.values()],
                fmt=f"o{style}",
                color=colour,
                label=literal(name),
                markersize=3,
                capsize=2,
            )
        if game in chance:
            axes.axhline(chance[game], color=GREY, linestyle="--", linewidth=1, label=RANDOM_PLAY)
        axes.set_title(literal(game), fontsize=9)
        axes.set_xlabel(last_part(plan.over), fontsize=8)
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
        bottom, top = axes.get_ylim()
        axes.set_ylim(min(bottom, 0.0), max(top, 0.0))  # or noise fills the panel
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    done, total = sum(r.finished for c in cells.values() for r in c), sum(map(len, cells.values()))
    state = "" if done == total else f" (partial: {done} of {total} runs)"
    title = fill(literal(f"{plan.title}{state}"), int(13 * figure.get_figwidth()))
    below = f"return on {plan.levels} levels after training; bars: one standard deviation"
    figure.suptitle(f"{title}\n{below}", fontsize=10)
    figure.savefig(path, dpi=110)
    return path
