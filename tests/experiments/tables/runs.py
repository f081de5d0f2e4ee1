"""Plans and run directories written by hand, of which tests make tables."""

import json
from typing import Any

from crosstraj.experiments.jobs import Job
from crosstraj.experiments.plan import Experiment, Values

PPO: Values = {"method": "ppo", "preset": "default"}
FROZEN: Values = PPO | {"encoder_grad": "none"}


def plan_of(
    variants: dict[str, Values],
    games: tuple[str, ...] = ("bigfish",),
    seeds: tuple[int, ...] = (0, 1),
    table: str = "returns",
) -> Experiment:
    return Experiment("e", "A title", "A source.", 100, games, seeds, variants, table)


def fill(job: Job, rows: list[dict[str, Any]], seconds: float = 0.5) -> None:
    job.directory.mkdir(parents=True)
    lines = [json.dumps(row) + "\n" for row in rows]
    (job.directory / "metrics.jsonl").write_text("".join(lines))
    steps = [row["frames"] for row in rows if row["row"] == "update"]
    timing = [json.dumps({"frames": f, "seconds": seconds}) + "\n" for f in steps]
    (job.directory / "timing.jsonl").write_text("".join(timing))


def update(frames: int, **figures: float) -> dict[str, Any]:
    return {"row": "update", "frames": frames, **figures}


def judged(frames: int, unseen: float, seen: float = 9.0) -> dict[str, Any]:
    return {
        "row": "evaluation",
        "frames": frames,
        "seen_return": seen,
        "unseen_return": unseen,
    }
