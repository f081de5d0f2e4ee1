"""What is gained when only the representation loss trains the encoder: split against joint.

Per game (split - joint) / |joint|, the statistic that the paper most likely printed, and the
difference in units of the game's range, which a joint return near zero cannot blow up; then mean,
median and interquartile mean over games.
"""

import math
from pathlib import Path

from crosstraj.experiments.file import Experiment, joint_of
from crosstraj.experiments.tables.results import Result, Spread, spread, write_json
from crosstraj.experiments.tables.returns import by_cell, details, draw, heading, notes
from crosstraj.report.cells import row
from crosstraj.report.split_gains import CENTRES, Improvement, improvement, over_games

ABSENT = Improvement(math.nan, math.nan)


def split(plan: Experiment, results: list[Result], out: Path) -> list[Path]:
    """The table of gains, then everything by row; games without both are left out of the means."""
    cells = by_cell(results)
    games = list(dict.fromkeys(game for _, game in cells))
    easy = all(result.easy for result in results)
    found = {
        name.replace(" split", "", 1): {
            game: compared(
                game,
                split=ended(cells.get((name, game), [])),
                joint=ended(cells.get((joint, game), [])),
                easy=easy,
            )
            for game in games
        }
        for name, joint in joint_of(plan.variants).items()
    }
    methods = list(found)
    both = {method: [gain for gain in found[method].values() if gain] for method in methods}
    overall = {method: over_games(both[method]) for method in methods}
    head = [f"{m}{kind}" for m in methods for kind in (", relative", ", of range")]
    lines = [row(f"split - joint, {plan.levels} return", *head), "|---" * (len(head) + 1) + "|"]
    for game in games:
        lines.append(row(game, *(shown(x) for m in methods for x in found[m][game] or ABSENT)))
    for name in CENTRES:
        lines.append(row(f"**{name}**", *(shown(x) for m in methods for x in overall[m][name])))
    meaning = (
        f"relative: (split - joint) / |joint| of mean {plan.levels} returns; of range: (split - "
        "joint) / (R_max - R_min) of easy mode. IQM: mean of the middle half of the games. Games "
        "that both have: "
        + ", ".join(f"{method} {len(both[method])} of {len(games)}" for method in methods)
    )
    rest = [details(cells, plan.levels), notes(results, plan.levels)]
    text = [heading(plan, results), "\n".join(lines), meaning, *rest]
    (out / "table.md").write_text("\n\n".join(text) + "\n")
    values = {
        "experiment": plan.name,
        "scale": plan.scale,
        "gains": found,
        "overall": overall,
        "runs": results,
    }
    picture = draw(plan, cells, out / "figure.png")
    return [out / "table.md", write_json(out / "table.json", values), picture]


def ended(cell: list[Result]) -> Spread:
    """Held-out return of the finished runs: others have learnt for another time."""
    return spread(r.score for r in cell if r.finished)


def compared(game: str, split: Spread, joint: Spread, *, easy: bool) -> Improvement | None:
    """The gain on a game that both have played to the end."""
    if not (split.seeds and joint.seeds):
        return None
    return improvement(game, split=split.mean, joint=joint.mean, easy=easy)


def shown(gain: float) -> str:
    return f"{gain:+.2f}" if math.isfinite(gain) else "-"
