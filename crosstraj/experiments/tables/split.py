"""What is gained when only the representation loss trains the encoder: split against joint.

Per game (split - joint) / |joint|, the statistic that the paper most likely printed, and the
difference in units of the game's range, which a joint return near zero cannot blow up; then mean,
median and interquartile mean over games.
"""

from pathlib import Path
from statistics import fmean

from crosstraj.experiments.plan import Experiment
from crosstraj.experiments.tables.kinds import joint_of
from crosstraj.experiments.tables.page import heading, write_page
from crosstraj.experiments.tables.results import Result
from crosstraj.experiments.tables.returns import by_cell, details, draw, notes
from crosstraj.experiments.tables.scores import scores_of
from crosstraj.health.glossary import returns_on
from crosstraj.report.cells import number
from crosstraj.report.document import marked_table
from crosstraj.report.split_gains import ABSENT, CENTRES, Improvement, by_game, over_games


def split(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """The table of gains, then everything by row; games without both are left out of the means."""
    cells = by_cell(results)
    games = list(dict.fromkeys(game for _, game in cells))
    easy = all(result.easy for result in results)
    means = {
        variant: {game: fmean(row) for game, row in scores_of(cells, variant, games).items() if row}
        for variant in plan.variants
    }
    found = {
        name.replace(" split", "", 1): by_game(means[name], means[joint], easy=easy)
        for name, joint in joint_of(plan.variants).items()
    }
    methods = list(found)
    overall = {method: over_games([*found[method].values()]) for method in methods}
    head = [f"{m}{kind}" for m in methods for kind in (", relative", ", of range")]
    lines = [shown(game, [found[m].get(game, ABSENT) for m in methods]) for game in games]
    lines += [shown(f"**{name}**", [overall[m][name] for m in methods]) for name in CENTRES]
    table = marked_table([f"split - joint, {returns_on(plan.levels)}", *head], lines)
    meaning = (
        f"relative: (split - joint) / |joint| of mean {plan.levels} returns; of range: (split - "
        "joint) / (R_max - R_min) of easy mode. IQM: mean of the middle half of the games. Games "
        "that both have: "
        + ", ".join(f"{method} {len(found[method])} of {len(games)}" for method in methods)
    )
    rest = [details(cells, plan.levels), notes(results, plan.levels)]
    parts = [heading(plan, results), table, meaning, *rest]
    values = {
        "experiment": plan.name,
        "scale": plan.scale,
        "gains": {method: {g: found[method].get(g) for g in games} for method in methods},
        "overall": overall,
        "runs": results,
    }
    return [*write_page(out, parts, values), draw(plan, cells, out / "figure.png")]


def shown(name: str, gains: list[Improvement]) -> list[str]:
    """A line of the table: both figures of each method."""
    return [name, *(number(figure, "+.2f", absent="-") for gain in gains for figure in gain)]
