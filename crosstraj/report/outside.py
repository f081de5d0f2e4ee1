"""PPO runs beside OpenAI's published curves: `python -m crosstraj.report.outside RUN ...`.

Train return is the mean of its running value over the last tenth before a published budget, as
theirs is; the return on unseen levels is that of the frozen policy at the evaluation next to it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from crosstraj.errors import BadInput
from crosstraj.logs import read_rows
from crosstraj.report.published import BUDGETS, openai_ppo


def compare(run: Path) -> str:
    """A Markdown table: ours and OpenAI's at each published budget that the run has reached."""
    config = json.loads((run / "config.json").read_bytes())["config"]
    rows = read_rows(run / "metrics.jsonl")
    frames, game = rows[-1]["frames"], config["env"]
    reached = [budget for budget in BUDGETS if frames >= 0.95 * budget]
    if openai_ppo(game, BUDGETS[0]) is None or not reached:
        raise BadInput(f"{run}: {game} at {frames:,} frames; published budgets are {BUDGETS}")
    lines = [
        f"PPO, preset {config['preset']}, encoder {config['encoder']}, {game}, seed "
        f"{config['seed']}, {frames:,} frames",
        "",
        "| frames | train: ours | OpenAI's | difference | unseen: ours (standard error) | OpenAI's "
        "| difference |",
        "|---|---|---|---|---|---|---|",
        *(milestone(rows, game, budget) for budget in reached),
    ]
    return "\n".join(lines)


def milestone(rows: list[dict[str, Any]], game: str, budget: int) -> str:
    published = openai_ppo(game, budget)
    assert published is not None
    late = [
        row["train_return"]
        for row in rows
        if row["row"] == "update" and 0.9 * budget < row["frames"] <= 1.02 * budget
    ]
    judged = [row for row in rows if row["row"] == "evaluation"]
    final = min(judged, key=lambda row: abs(row["frames"] - budget))
    train, unseen = sum(late) / len(late), final["unseen_return"]
    return (
        f"| {final['frames']:,} | {train:.2f} | {published.train:.2f} "
        f"| {train - published.train:+.2f} | {unseen:.2f} ({final['unseen_stderr']:.2f}) "
        f"| {published.test:.2f} | {unseen - published.test:+.2f} |"
    )


if __name__ == "__main__":
    print("\n\n".join(compare(Path(name)) for name in sys.argv[1:]))
