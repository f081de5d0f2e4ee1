"""PPO and DAAC runs beside published curves: `python -m tools.outside_check RUN ...`.

PPO is held against OpenAI's train-procgen, DAAC against the figure of IDAAC's release, which has
unseen levels alone. Train return is the mean of its running value over the last tenth before a
published budget, as OpenAI's is; the return on unseen levels is that of the frozen policy at the
evaluation next to it.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

from crosstraj.errors import BadInput
from crosstraj.report.labels import changed_values
from crosstraj.report.published import Milestone, milestones
from crosstraj.runs.chance import RANDOM, RESULTS, random_in
from crosstraj.runs.log import read_rows

WHOSE = {"ppo": "OpenAI's", "daac": "the release's"}
UNTOLD = ("encoder", "phases")  # said already; and neither PPO nor DAAC has any
REACHED = 0.95  # of a published budget: a run ends with whole rollouts


def compare(run: Path) -> str:
    """A Markdown table: ours and theirs at each published budget that the run has reached."""
    config = json.loads((run / "config.json").read_bytes())["config"]
    rows = read_rows(run / "metrics.jsonl")
    frames, game, method = rows[-1]["frames"], config["env"], config["method"]
    if method not in WHOSE:
        raise BadInput(f"{run}: method {method} has no published curve here; give ppo or daac")
    published = milestones(method, game)
    reached = [one for one in published if frames >= REACHED * one.frames]
    if not reached:
        budgets = ", ".join(f"{one.frames:,}" for one in published) or "none for this game"
        raise BadInput(f"{run}: {game} at {frames:,} frames; published budgets are {budgets}")
    theirs = WHOSE[method]
    lines = [
        f"{heading(config)}, {frames:,} frames",
        "",
        f"| frames | train: ours | {theirs} | difference | unseen: ours (standard error) | "
        f"{theirs} | difference |",
        "|---|---|---|---|---|---|---|",
        *(line(rows, one) for one in reached),
        *random_play(config),
    ]
    return "\n".join(lines)


def heading(config: dict[str, Any]) -> str:
    """Which run it is: two of one experiment may differ in a value that is not their preset's."""
    first = f"{config['method'].upper()}, preset {config['preset']}, encoder {config['encoder']}"
    changed = (changed_values(config) or {}).items()
    words = [f"{name}={value}" for name, value in changed if name not in UNTOLD]
    return ", ".join([first, *words, config["env"], f"seed {config['seed']}"])


def random_play(config: dict[str, Any]) -> list[str]:
    """What random play earns, where it is known: without it nobody can tell what a return is."""
    places = RANDOM, RESULTS / "random"
    seen, unseen = (random_in(config, levels, places) for levels in ("seen", "unseen"))
    if not (seen.measured and unseen.measured):
        return []
    return ["", f"Random play: {seen.score:.2f} on seen levels, {unseen.score:.2f} on unseen ones."]


def line(rows: list[dict[str, Any]], published: Milestone) -> str:
    budget = published.frames
    late = [
        row["train_return"]
        for row in rows
        if row["row"] == "update" and 0.9 * budget < row["frames"] <= 1.02 * budget
    ]
    judged = [row for row in rows if row["row"] == "evaluation"]
    final = min(judged, key=lambda row: abs(row["frames"] - budget))
    train, unseen = sum(late) / len(late), final["unseen_return"]
    return (
        f"| {final['frames']:,} | {train:.2f} | {beside(train, published.train)} "
        f"| {unseen:.2f} ({final['unseen_stderr']:.2f}) | {beside(unseen, published.test)} |"
    )


def beside(ours: float, theirs: float) -> str:
    """Two cells: theirs, and by how much ours is above it; dashes where it is not published."""
    return "– | –" if math.isnan(theirs) else f"{theirs:.2f} | {ours - theirs:+.2f}"


if __name__ == "__main__":
    print("\n\n".join(compare(Path(name)) for name in sys.argv[1:]))
