"""A PPO run beside OpenAI's published curve: `python -m crosstraj.report.outside RUN`.

Train return is the mean of its running value over the last tenth of the run; test return is that
of the frozen policy on unseen levels at the run's end.
"""

import json
import sys
from pathlib import Path

from crosstraj.errors import BadInput
from crosstraj.logs import read_rows
from crosstraj.report.published import BUDGETS, openai_ppo


def compare(run: Path) -> str:
    """A Markdown table: ours, OpenAI's at the nearest published budget, the difference."""
    config = json.loads((run / "config.json").read_bytes())["config"]
    rows = read_rows(run / "metrics.jsonl")
    frames, game = rows[-1]["frames"], config["env"]
    if (published := openai_ppo(game, frames)) is None:
        raise BadInput(f"{run}: {game} at {frames:,} frames; published budgets are {BUDGETS}")
    late = [r["train_return"] for r in rows if r["row"] == "update" and r["frames"] > 0.9 * frames]
    final = [r for r in rows if r["row"] == "evaluation"][-1]
    ours = (sum(late) / len(late), final["unseen_return"])
    lines = [
        f"PPO, preset {config['preset']}, {game}, seed {config['seed']}, {frames:,} frames",
        "",
        f"| levels | ours | OpenAI at {published.frames:,} | difference |",
        "|---|---|---|---|",
    ]
    spread = f" ± {final['unseen_stderr']:.2f} (standard error)"
    for name, mine, theirs, note in zip(
        ("train", "unseen"), ours, published[1:], ("", spread), strict=True
    ):
        lines.append(f"| {name} | {mine:.2f}{note} | {theirs:.2f} | {mine - theirs:+.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(compare(Path(sys.argv[1])))
